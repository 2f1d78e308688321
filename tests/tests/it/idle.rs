//! A domain with nothing to do sleeps, uses no CPU, and wakes with the first message.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use underpass::{CallError, thread};
use underpass_harness::alone;
use underpass_tests::{
    Entries, Probe, ProbeClient, Puppet, Room, ServerProcess, Watchdog, kernel_threads_of, state_of,
    switches_of, ticks_of, until,
};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// Reads of the state of a domain that should be idle. They take a few hundred ms. In that time a
/// domain that polls would use many clock ticks, and one that wakes up now and then would be seen
/// to sleep again.
const LOOKS: u32 = 3_000;

/// A state that changes if the domain does anything.
fn state(pid: u32) -> (String, (u64, u64), u64) {
    (state_of(pid), switches_of(pid), ticks_of(pid))
}

/// How often the reads may start again. The peer may wake a spare worker once more before it sleeps
/// too.
const STRETCHES: u32 = 20;

/// Waits until all kernel threads of `pid` sleep and keep sleeping.
fn idles(pid: u32) {
    idles_within(pid, STRETCHES);
}

/// As `idles`, where more wake-ups may come first.
fn idles_within(pid: u32, stretches: u32) {
    let mut woken = Vec::new();
    for _ in 0..stretches {
        // One reading is not a snapshot: a thread may wake another between two lines of it. Two
        // readings that agree are.
        let asleep = until("all kernel threads to sleep", || {
            let (before, now) = (state(pid), state(pid));
            (before == now && now.0.bytes().all(|state| state == b'S')).then_some(now)
        });
        assert!(!asleep.0.is_empty(), "the process lives");
        match (0..LOOKS).find_map(|_| Some(state(pid)).filter(|now| *now != asleep)) {
            None => return,
            Some(now) => woken.push((asleep, now)),
        }
    }
    panic!("it never sleeps for long: {woken:?}");
}

fn start(of: &str) -> (ServerProcess, ProbeClient) {
    let server = ServerProcess::start(SERVER, &Room::name(of), "probe");
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    (server, client)
}

#[test]
fn an_idle_server_sleeps_until_the_first_message() {
    alone!();
    let _watchdog = Watchdog::new("an_idle_server_sleeps_until_the_first_message");
    let (server, client) = start("idle");
    (0..1000u32).for_each(|n| assert_eq!(client.add(n as u8, 1), Ok((n as u8).wrapping_add(1))));
    for _ in 0..3 {
        idles(server.pid());
        assert_eq!(client.add(1, 2), Ok(3), "the first message wakes it");
    }
}

#[test]
fn a_server_that_nobody_has_called_sleeps() {
    alone!();
    let _watchdog = Watchdog::new("a_server_that_nobody_has_called_sleeps");
    let server = ServerProcess::start(SERVER, &Room::name("uncalled"), "probe");
    idles(server.pid());
    let client = ProbeClient::import(server.name()).unwrap();
    idles(server.pid());
    assert_eq!(client.null(), Ok(()));
}

/// As on a kernel before 5.16, or in a sandbox: one sleep can watch only one word.
#[test]
fn a_domain_without_futex_waitv_sleeps_too() {
    alone!();
    let _watchdog = Watchdog::new("a_domain_without_futex_waitv_sleeps_too");
    // With listeners as well, and with listeners alone.
    for processors in ["1", "0"] {
        let name = Room::name(&format!("one-word-{processors}"));
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=futex_waitv"]);
        command
            .args(["-e", "inject=futex_waitv:error=ENOSYS", SERVER, &name, "probe"])
            .env("UNDERPASS_PROCESSORS", processors);
        let mut server = ServerProcess::run(command, &name);
        let client = ProbeClient::import_within(&name, ServerProcess::soon()).unwrap();
        let pid = client.pid().unwrap();
        for _ in 0..3 {
            idles(pid);
            assert_eq!(client.add(1, 2), Ok(3), "it is called over the socket");
        }
        client.die().expect_err("it ends before it can reply");
        server.ended();
    }
}

#[test]
fn an_idle_server_does_not_enter_the_kernel() {
    alone!();
    let _watchdog = Watchdog::new("an_idle_server_does_not_enter_the_kernel");
    let (server, client) = start("entries");
    (0..100).for_each(|_| client.null().unwrap());
    let before = client.entries().unwrap();
    idles(server.pid());
    let after = client.entries().unwrap();
    let Entries { all: entries, sleeps, .. } = after.since(before);
    // Each kernel thread goes to sleep after one call and before the next. A change of the polling
    // thread may wake it once more.
    let threads = kernel_threads_of(server.pid()) as u64;
    assert!(sleeps <= 2 * threads + 4, "{sleeps} sleeps of {threads} kernel threads");
    // A barrier comes before each sleep, and another thread's wake-up after it.
    assert!(entries <= 4 * sleeps + 4, "{entries} kernel entries, {sleeps} of them sleeps");
}

#[test]
fn a_server_whose_calls_all_sleep_sleeps_too() {
    alone!();
    let _watchdog = Watchdog::new("a_server_whose_calls_all_sleep_sleeps_too");
    let (mut server, client) = start("naps");
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || client.nap(3_600_000))
        })
        .collect();
    until("all calls to be there", || (client.arrived() == Ok(8 * 8)).then_some(()));
    idles(server.pid());
    assert_eq!(client.add(1, 2), Ok(3), "the first message wakes it");
    idles(server.pid());
    server.kill();
    for call in calls {
        assert!(matches!(call.join().unwrap(), Err(CallError::PeerDied(_))));
    }
}

#[test]
fn a_server_whose_handlers_all_block_and_hold_others_back_sleeps_too() {
    alone!();
    let _watchdog = Watchdog::new("a_server_whose_handlers_all_block");
    let name = Room::name("blocked");
    let mut server = Puppet::with_processors(SERVER, 1);
    assert_eq!(server.ask(&format!("serve {name} 2")), "()");
    let mut client = Puppet::start(SERVER);
    assert_eq!(client.ask(&format!("import {name} 1")), "()");
    // More than may block. The rest are held back, and their client retries less and less often,
    // ten times in 4 s.
    client.ask("doze 0 8 3600000");
    until("as many to block as may", || (!["0", "1"].contains(&&*server.ask("begun-here"))).then_some(()));
    idles_within(server.pid(), 10 * STRETCHES);
    idles_within(client.pid(), 10 * STRETCHES);
}

/// No call waits when the last handler blocks, so none makes the monitor replace its processor.
#[test]
fn a_server_whose_last_handler_blocks_where_others_do_sleeps_too() {
    alone!();
    let _watchdog = Watchdog::new("a_server_whose_last_handler_blocks_where_others_do");
    let name = Room::name("last-blocks");
    let mut server = Puppet::with_processors(SERVER, 1);
    assert_eq!(server.ask(&format!("serve {name} 8")), "()");
    let mut client = Puppet::start(SERVER);
    assert_eq!(client.ask(&format!("import {name} 1")), "()");
    client.ask("doze 0 2 3600000");
    until("both to begin", || (server.ask("begun-here") == "2").then_some(()));
    idles_within(server.pid(), 2 * STRETCHES);
    assert_eq!(client.ask("add 0"), "3", "there is a processor for other calls");
    idles_within(server.pid(), 2 * STRETCHES);
}

#[test]
fn a_client_whose_threads_all_wait_sleeps_until_the_first_reply() {
    alone!();
    let _watchdog = Watchdog::new("a_client_whose_threads_all_wait_sleeps_until_the_first_reply");
    sleeps_until_the_first_reply("waits", "block");
}

#[test]
fn a_client_whose_tasks_all_wait_sleeps_until_the_first_reply() {
    alone!();
    let _watchdog = Watchdog::new("a_client_whose_tasks_all_wait_sleeps_until_the_first_reply");
    sleeps_until_the_first_reply("awaits", "await");
}

fn sleeps_until_the_first_reply(of: &str, how: &str) {
    let (server, client) = start(of);
    let mut other =
        Command::new(SERVER).args([server.name(), how, "8"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "blocked\n");
    idles(other.id());
    assert_eq!(client.meet(9), Ok(()));
    assert!(other.wait().unwrap().success(), "the replies wake it");
}
