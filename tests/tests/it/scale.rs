//! Many bindings, each with a connection of its own. Those that carry no calls are polled by nobody
//! and take little memory. Nothing is left of them when they end.

use underpass::thread;
use underpass_harness::alone;
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog, fds_of, kib_of, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// The number of bindings of the larger test: `$UNDERPASS_TEST_BINDINGS`. The system has to allow
/// as many open files.
fn bindings() -> usize {
    std::env::var("UNDERPASS_TEST_BINDINGS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_500)
}

fn open(name: &str, count: usize) -> Vec<ProbeClient> {
    let import = |_| ProbeClient::import_apart(name, ServerProcess::soon()).unwrap();
    (0..count).map(import).collect()
}

#[test]
fn of_a_thousand_bindings_those_in_use_are_polled() {
    alone!();
    let _watchdog = Watchdog::new("of_a_thousand_bindings_those_in_use_are_polled");
    looked_at(ServerProcess::start(SERVER, &Room::name("thousand"), "probe"));
}

#[test]
fn of_a_thousand_bindings_those_in_use_are_polled_by_listeners_alone() {
    alone!();
    let _watchdog = Watchdog::new("of_a_thousand_bindings_those_in_use_are_polled_by_listeners_alone");
    looked_at(ServerProcess::start_with(SERVER, &Room::name("listeners"), "probe", |command| {
        command.env("UNDERPASS_PROCESSORS", "0");
    }));
}

fn looked_at(server: ServerProcess) {
    const BUSY: usize = 10;
    underpass_os::process::raise_files().unwrap();
    // User-level threads call, so that this side has processors that poll too.
    let work = move || {
        let all = open(server.name(), 1_000);
        // Each binding is called once, also those that were dormant from the beginning.
        all.iter()
            .enumerate()
            .for_each(|(n, client)| assert_eq!(client.add(n as u8, 1), Ok((n as u8).wrapping_add(1))));
        let busy = &all[500..500 + BUSY];
        let active = until("the others to be put away", || {
            for _ in 0..100 {
                busy.iter().for_each(|client| client.null().unwrap());
            }
            let active = (busy[0].active().unwrap() as usize, underpass::active_bindings());
            (active.0 <= BUSY && active.1 <= BUSY).then_some(active)
        });
        assert!(active.0 > 0, "who asks is active");
        let before = underpass::counters();
        for (n, client) in all.iter().enumerate() {
            assert_eq!(
                client.add(1, n as u8),
                Ok((n as u8).wrapping_add(1)),
                "the first call makes it active"
            );
        }
        let revived = underpass::counters().since(&before).revivals;
        assert!(revived >= 1_000 - BUSY as u64, "{revived} became active");
        // A dormant binding notices a death as well as an active one.
        let idle = all.last().unwrap().clone();
        drop(all);
        assert_eq!(idle.null(), Ok(()));
    };
    thread::spawn(work).join().unwrap();
}

#[test]
fn many_bindings_take_little_memory_and_leave_nothing() {
    alone!();
    /// The most that a binding may take on both sides together, in KiB.
    const MOST: u64 = 64;
    let _watchdog = Watchdog::new("many_bindings_take_little_memory_and_leave_nothing");
    let files = underpass_os::process::raise_files().unwrap() as usize;
    let count = bindings().min(files.saturating_sub(200));
    let server = ServerProcess::start(SERVER, &Room::name("many"), "probe");
    let first = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    first.null().unwrap();
    let pids = [std::process::id(), server.pid()];
    // The private memory and page tables of each side, and the shared memory once.
    let memory = || {
        let own = |pid| kib_of(pid, "RssAnon") + kib_of(pid, "VmPTE");
        pids.map(own).iter().sum::<u64>() + kib_of(server.pid(), "RssShmem").max(kib_of(pids[0], "RssShmem"))
    };
    let before = (memory(), fds_of(pids[0]), fds_of(pids[1]));
    let mut all = open(server.name(), count);
    for client in &all {
        // As many calls as there are cells, so that all of both rings is touched.
        (0..100).for_each(|_| client.null().unwrap());
    }
    let each = (memory() - before.0) as f64 / count as f64;
    println!(
        "{count} bindings, {each:.1} KiB each; {} and {} active",
        first.active().unwrap(),
        underpass::active_bindings()
    );
    assert!(each <= MOST as f64, "{each} KiB a binding");
    assert!(fds_of(pids[1]) <= before.2 + count + 2, "one file a binding");
    // Half of the bindings end and then come again. Nothing grows.
    all.truncate(count / 2);
    until("the server to forget those that went", || {
        (fds_of(pids[1]) <= before.2 + count / 2 + 2).then_some(())
    });
    all.extend(open(server.name(), count - count / 2));
    all.iter().for_each(|client| client.null().unwrap());
    let again = (memory() - before.0) as f64 / count as f64;
    assert!(again <= MOST as f64, "{again} KiB a binding");
    drop(all);
    until("all files to be closed", || {
        let now = (fds_of(pids[0]), fds_of(pids[1]));
        (now.0 <= before.1 + 2 && now.1 <= before.2 + 2).then_some(())
    });
    assert_eq!(first.null(), Ok(()));
}
