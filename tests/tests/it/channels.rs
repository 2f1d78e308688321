//! Bindings over which several activations call. Each activation gets a channel of its own, and all
//! channels end together.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use underpass::{CallError, Outcome};
use underpass_harness::{alone, skip};
use underpass_tests::{Files, Probe, ProbeClient, Room, ServerProcess, Subject, Watchdog, crowd, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn import(server: &ServerProcess) -> ProbeClient {
    ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap()
}

/// The regions that `pid` has mapped.
fn mappings(pid: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| line.contains("underpass-binding")).count()
}

#[test]
fn two_activations_call_over_channels_of_their_own() {
    alone!();
    const CALLS: u64 = 2_000;
    let _watchdog = Watchdog::new("two_activations_call_over_channels_of_their_own");
    let server = ServerProcess::start(SERVER, &Room::name("own"), "probe");
    let (client, before) = (import(&server), underpass::counters());
    let counted = crowd(&client, |client, meeting, _| {
        let before = client.counters();
        meeting.meet();
        // All kinds of messages travel over a further channel as over the first.
        let bytes = vec![7; 100_000];
        assert_eq!(client.echo(&bytes), Ok(bytes));
        for n in 1..CALLS {
            assert_eq!(client.add(n as u8, 1), Ok((n as u8).wrapping_add(1)));
        }
        meeting.meet();
        client.counters().since(&before)
    });
    let Some(counted) = counted else {
        skip!("on one CPU a binding keeps one channel");
    };
    for counted in counted {
        assert_eq!((counted.calls, counted.calls_beside, counted.channels_beside), (2 * CALLS, CALLS, 0));
    }
    assert_eq!(client.counters().channels_beside, 1);
    assert_eq!(underpass::counters().since(&before).channels_beside, 1);
}

#[test]
fn nothing_is_left_of_a_binding_with_several_channels() {
    alone!();
    let _watchdog = Watchdog::new("nothing_is_left_of_a_binding_with_several_channels");
    let server = ServerProcess::start(SERVER, &Room::name("left"), "probe");
    let keep = import(&server);
    keep.null().unwrap();
    let pids = [std::process::id(), server.pid()];
    let files = pids.map(Files::of);
    for _ in 0..3 {
        let client = ProbeClient::import_apart(server.name(), ServerProcess::soon()).unwrap();
        let both = crowd(&client, |client, _, _| client.null());
        if both.is_some() {
            assert_eq!(pids.map(mappings), [3, 3], "two of this binding, one of the other");
        }
        drop(client);
        files.iter().for_each(Files::until_no_others);
        until("their memory too", || (pids.map(mappings) == [1, 1]).then_some(()));
        assert_eq!(keep.null(), Ok(()));
    }
}

#[test]
fn callers_over_all_channels_are_told_of_the_servers_death() {
    alone!();
    let _watchdog = Watchdog::new("callers_over_all_channels_are_told_of_the_servers_death");
    let mut server = ServerProcess::start(SERVER, &Room::name("death"), "probe");
    let (client, pid) = (import(&server), server.pid());
    let (before, called) = std::sync::mpsc::channel();
    let told = std::thread::scope(|scope| {
        let watched = client.clone();
        scope.spawn(move || {
            // With only one CPU nothing comes.
            let Ok(before) = called.recv() else { return };
            until("both calls to be under way", || (watched.counters().calls == before + 2).then_some(()));
            server.kill();
        });
        crowd(&client, move |client, meeting, number| {
            if number == 0 {
                before.send(client.counters().calls).unwrap();
            }
            meeting.meet();
            client.nap(3_600_000)
        })
    });
    let Some(told) = told else {
        skip!("on one CPU a binding keeps one channel");
    };
    for told in told {
        // A call that it had not taken yet was not started.
        assert!(matches!(told, Err(CallError::PeerDied(_))), "{told:?}");
    }
    assert_eq!(client.null(), Err(CallError::PeerDied(Outcome::NotStarted)));
    drop(client);
    until("its memory to go", || (mappings(std::process::id()) == 0).then_some(()));
    assert_eq!(mappings(pid), 0);
}

/// Another process that has two channels to `name` and calls over both. `None` with only one CPU.
fn other_crowd(name: &str) -> Option<Child> {
    let mut other = Command::new(SERVER)
        .args([name, "crowd"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut said).unwrap();
    if underpass_os::cpu::allowed().unwrap().len() == 1 {
        other.wait().unwrap();
        return None;
    }
    assert_eq!(said, "split\n");
    Some(other)
}

#[test]
fn a_killed_client_leaves_none_of_its_channels() {
    alone!();
    let _watchdog = Watchdog::new("a_killed_client_leaves_none_of_its_channels");
    let server = ServerProcess::start(SERVER, &Room::name("killed"), "probe");
    let client = import(&server);
    client.null().unwrap();
    let files = Files::of(server.pid());
    let Some(mut other) = other_crowd(server.name()) else {
        skip!("on one CPU a binding keeps one channel");
    };
    assert_eq!((mappings(server.pid()), files.others()), (3, 1), "one socket for both channels");
    other.kill().unwrap();
    other.wait().unwrap();
    files.until_no_others();
    until("its memory too", || (mappings(server.pid()) == 1).then_some(()));
    assert_eq!(client.add(1, 1), Ok(2));
}

#[test]
fn a_revoked_binding_is_closed_on_all_channels() {
    alone!();
    let _watchdog = Watchdog::new("a_revoked_binding_is_closed_on_all_channels");
    let name = Room::name("revoked");
    let running = underpass::Server::new().export(&name, Probe::serve(Subject::default())).start().unwrap();
    let before = underpass::counters();
    let Some(other) = other_crowd(&name) else {
        skip!("on one CPU a binding keeps one channel");
    };
    let served = underpass::counters().since(&before);
    assert_eq!(served.channels_beside, 1);
    assert!(served.calls_beside > 0 && served.served > served.calls_beside, "{served:?}");
    running.stop();
    let output = other.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(told.matches("the binding is closed").count(), 2, "{told}");
    until("the channels to go", || (mappings(std::process::id()) == 0).then_some(()));
}
