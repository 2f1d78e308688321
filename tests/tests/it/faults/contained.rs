//! Either side runs in a container into which only the directory of names is mounted, at another
//! place.

use std::process::{Command, ExitStatus, Stdio};
use underpass::{CallError, ImportError, Outcome, Running, Server};
use underpass_harness::{alone, skip};
use underpass_tests::{
    Probe, ProbeClient, Reception, ReceptionClient, Receptionist, Room, ServerProcess, Subject, Watchdog,
    until,
};

const CONTAINED: &str = env!("CARGO_BIN_EXE_underpass-test-contained");
/// With nothing but the directory of names, and with a `/proc` of its own in addition.
const WALLS: [&str; 2] = ["bare", "proc"];

pub fn contained(walls: &str, what: &str, name: &str) -> Command {
    let mut command = Command::new(CONTAINED);
    command.args([walls, what, name]).stdin(Stdio::null());
    command
}

/// Whether the process said that this user can have no containers here.
pub fn is_without(status: ExitStatus) -> bool {
    status.code() == Some(77)
}

/// Calls `name` from a container. Returns `false` if there can be none.
fn called_from_inside(walls: &str, name: &str) -> bool {
    let output = contained(walls, "call", name).stderr(Stdio::inherit()).output().unwrap();
    if is_without(output.status) {
        return false;
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let sees = if walls == "proc" { "1 names proc" } else { "1 names" };
    assert_eq!(said.lines().collect::<Vec<_>>(), [sees, "called"]);
    assert!(output.status.success(), "{}", output.status);
    true
}

/// A server in a container. `None` if there can be none.
pub fn serving_inside(walls: &str, name: &str) -> Option<ServerProcess> {
    let mut probed = contained(walls, "try", name).spawn().unwrap();
    (!is_without(probed.wait().unwrap())).then(|| ServerProcess::run(contained(walls, "serve", name), name))
}

/// Removes what a killed server in a container leaves behind.
pub fn tidy(name: &str) {
    for name in [name.to_owned(), format!("{name}-reception"), format!("{name}-worker")] {
        let _ = std::fs::remove_file(Room::directory().join(name));
    }
}

fn serve_outside(name: &str) -> Running {
    let server = Server::new().export(name, Probe::serve(Subject::default()));
    server.export(format!("{name}-reception"), Reception::serve(Receptionist::default())).start().unwrap()
}

#[test]
fn a_client_in_a_container_imports_and_calls() {
    alone!();
    let _watchdog = Watchdog::new("a_client_in_a_container_imports_and_calls");
    for walls in WALLS {
        let name = Room::name(&format!("out-{walls}"));
        let running = serve_outside(&name);
        if !called_from_inside(walls, &name) {
            skip!("this user can make no container");
        }
        until("its bindings to be cleared away", || running.bindings().list().is_empty().then_some(()));
    }
}

#[test]
fn a_server_in_a_container_serves_and_its_death_is_told() {
    alone!();
    let _watchdog = Watchdog::new("a_server_in_a_container_serves");
    for walls in WALLS {
        let name = Room::name(&format!("in-{walls}"));
        // The second server takes the place of the first one, which was killed.
        for _ in 0..2 {
            let Some(mut server) = serving_inside(walls, &name) else {
                skip!("this user can make no container");
            };
            let probe = ProbeClient::import_within(&name, ServerProcess::soon()).unwrap();
            let reception =
                ReceptionClient::import_within(&format!("{name}-reception"), ServerProcess::soon()).unwrap();
            assert_eq!((probe.add(1, 2), probe.pid()), (Ok(3), Ok(1)));
            assert_eq!(probe.echo(&[7; 100_000]), Ok(vec![7; 100_000]));
            assert_eq!(probe.fill(1 << 20).map(|bytes| bytes.len()), Ok(1 << 20));
            // It cannot see this process: its namespaces have no number for the process and no name
            // for its user.
            let [who, ..] = reception.who().unwrap();
            assert_eq!(who.map(|who| (who.pid, who.pidfd)), Some((0, true)));
            let asleep = std::thread::spawn(move || probe.nap(3_600_000).unwrap_err());
            until("a call under way", || (reception.add(1, 2) == Ok(3)).then_some(()));
            server.kill();
            assert!(matches!(
                asleep.join().unwrap(),
                CallError::PeerDied(Outcome::Unknown | Outcome::NotStarted)
            ));
            // The process that had started the server died first.
            let dead = |found: Option<ImportError>| matches!(found, Some(ImportError::Dead(_))).then_some(());
            until("its end", || dead(ProbeClient::import(&name).err()));
            until("its end", || dead(ReceptionClient::import(&format!("{name}-reception")).err()));
        }
        tidy(&name);
    }
}

#[test]
fn two_containers_meet_in_the_directory_of_names() {
    alone!();
    let _watchdog = Watchdog::new("two_containers_meet_in_the_directory_of_names");
    for walls in WALLS {
        let name = Room::name(&format!("both-{walls}"));
        let Some(_server) = serving_inside(walls, &name) else {
            skip!("this user can make no container");
        };
        assert!(called_from_inside(walls, &name));
        tidy(&name);
    }
}
