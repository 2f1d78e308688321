//! Processes whose memory is limited by their control group.

use super::group::Group;
use super::{SANDBOXED, SERVER};
use std::process::Stdio;
use underpass::{CallError, Outcome, Sealed};
use underpass_harness::{alone, skip};
use underpass_tests::{
    Captive, CaptiveClient, Porter, PorterClient, Probe, ProbeClient, Room, ServerProcess, Watchdog,
    regions_of, until,
};

const MIB: u64 = 1 << 20;
/// The limit of the group.
const LIMIT: u64 = 96 * MIB;

#[test]
fn a_server_that_the_kernel_kills_for_its_memory_is_told_as_dead() {
    alone!();
    let _watchdog = Watchdog::new("a_server_that_the_kernel_kills_for_its_memory");
    let Some(group) = Group::new(LIMIT) else {
        skip!("this user can make no control group with a memory limit");
    };
    let name = Room::name("hungry");
    let mut command = group.command(SANDBOXED);
    command.arg(&name);
    let mut server = ServerProcess::run(command, &name);
    let captive = CaptiveClient::import_within(&name, ServerProcess::soon()).unwrap();
    let probe = ProbeClient::import_within(&format!("{name}-probe"), ServerProcess::soon()).unwrap();
    assert_eq!(probe.add(1, 2), Ok(3));
    let asleep = std::thread::spawn(move || (probe.nap(3_600_000), probe.add(1, 2)));
    let dead = CallError::PeerDied(Outcome::Unknown);
    assert_eq!(captive.attempt("eat", 0), Err(dead.clone()));
    let (asleep, after) = asleep.join().unwrap();
    assert!(matches!(asleep, Err(CallError::PeerDied(_))), "{asleep:?}");
    assert_eq!(after, Err(CallError::PeerDied(Outcome::NotStarted)));
    server.ended();
    assert_eq!(group.killed(), 1);
    let _ = std::fs::remove_file(Room::directory().join(format!("{name}-probe")));
}

#[test]
fn a_client_that_the_kernel_kills_for_its_memory_leaves_nothing_in_its_server() {
    alone!();
    let _watchdog = Watchdog::new("a_client_that_the_kernel_kills_for_its_memory");
    let Some(group) = Group::new(LIMIT) else {
        skip!("this user can make no control group with a memory limit");
    };
    let server = ServerProcess::start(SERVER, &Room::name("fed"), "probe");
    let keep = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    assert_eq!(keep.add(1, 2), Ok(3));
    let status = group.command(SERVER).args([server.name(), "gorge"]).stdin(Stdio::null()).status().unwrap();
    assert!(!status.success() && group.killed() == 1, "{status}");
    until("its binding to be cleared away", || (regions_of(server.pid()) == 1).then_some(()));
    assert_eq!(keep.add(1, 2), Ok(3));
}

#[test]
fn memory_that_a_client_has_written_is_charged_to_the_client() {
    alone!();
    const LARGE: usize = 16 << 20;
    let _watchdog = Watchdog::new("memory_that_a_client_has_written_is_charged_to_the_client");
    let Some(group) = Group::new(LIMIT) else {
        skip!("this user can make no control group with a memory limit");
    };
    let name = Room::name("frugal");
    let mut command = group.command(SERVER);
    command.args([&name, "porter"]);
    let server = ServerProcess::run(command, &name);
    let porter = PorterClient::import_within(&name, ServerProcess::soon()).unwrap();
    porter.null().unwrap();
    let before = group.usage();
    // Twice as much as the server may have. It has read all of it, and keeps it.
    for _ in 0..2 * LIMIT / LARGE as u64 {
        let sealed = Sealed::new(&vec![1; LARGE]).unwrap();
        assert_eq!(porter.total(sealed.clone()), Ok((LARGE as u64, false)));
        porter.keep(sealed).unwrap();
    }
    assert!(group.usage() < before + LIMIT / 4, "{} bytes, {before} before", group.usage());
    // Copies that it makes for itself are its own memory, and are freed.
    for _ in 0..20 {
        let (_file, bytes) =
            porter.large(vec![1; LARGE], std::fs::File::open("/dev/null").unwrap().into()).unwrap();
        assert_eq!(bytes.len(), LARGE);
    }
    assert_eq!((group.killed(), porter.null()), (0, Ok(())));
    drop(server);
}
