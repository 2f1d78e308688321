//! Deaths at steps of the protocol that a seed chooses, and the errors that the survivors get.
//!
//! An ordinary build has no steps, and the survivor kills at a moment that the seed chooses. A
//! build with `RUSTFLAGS="--cfg underpass_failpoints"` has steps.

use std::process::{Command, Stdio};
use underpass_tests::Room;

const DEATH: &str = env!("CARGO_BIN_EXE_underpass-test-death");

/// The deaths on each side, with all CPUs and with one. With `$UNDERPASS_TEST_LONG` there are
/// 10,000 in all.
fn rounds() -> usize {
    match (std::env::var_os("UNDERPASS_TEST_LONG"), cfg!(underpass_failpoints)) {
        (Some(_), _) => 2_500,
        (None, true) => 100,
        (None, false) => 25,
    }
}

fn survived(side: &str, cpu: Option<usize>) {
    run(&[side], &format!("{side}-{}", cpu.is_some()), rounds(), cpu);
}

/// Runs `rounds` rounds of `what`, in a directory of its own that begins with `name`, and on one
/// CPU if that is said.
pub fn run(what: &[&str], name: &str, rounds: usize, cpu: Option<usize>) {
    let seed =
        std::env::var("UNDERPASS_TEST_SEED").map_or(0, |seed| seed.parse().expect("a seed is a number"));
    let directory = Room::directory().join(Room::name(name));
    let mut command = Command::new(DEATH);
    command.args(what).args([u64::to_string(&seed), rounds.to_string()]).env("UNDERPASS_DIR", &directory);
    if let Some(cpu) = cpu {
        command.env("UNDERPASS_TEST_CPU", cpu.to_string());
    }
    let told = command.stdin(Stdio::null()).output().unwrap();
    let _ = std::fs::remove_dir_all(&directory);
    let (out, err) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    println!("{out}");
    assert!(told.status.success(), "{}\n{out}{err}\nagain: UNDERPASS_TEST_SEED={seed}", told.status);
}

/// The CPU that all processes of a round share.
pub fn one() -> Option<usize> {
    underpass_os::cpu::allowed().unwrap().first().copied()
}

#[test]
fn a_client_survives_its_servers() {
    survived("server", None);
}

#[test]
fn a_client_survives_its_servers_on_one_cpu() {
    survived("server", one());
}

#[test]
fn a_server_survives_its_clients() {
    survived("client", None);
}

#[test]
fn a_server_survives_its_clients_on_one_cpu() {
    survived("client", one());
}
