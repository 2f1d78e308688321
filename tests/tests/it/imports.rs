//! Repeated imports leave nothing behind.

use std::time::{Duration, Instant};
use underpass::thread;
use underpass_harness::alone;
use underpass_tests::{
    Probe, ProbeClient, Room, ServerProcess, Watchdog, fds_of, kib_of, long, regions_of, until,
};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// Imports in one part. Everything is counted after each part.
const PART: u32 = 500;
/// Imports in all, unless they go on for a minute.
const SHORT: u32 = 3_000;
const MINUTE: Duration = Duration::from_secs(60);
/// The most that both sides may have grown by, in KiB. Allocators keep some memory. A leak of half
/// a region per import would be a hundred times as much.
const MOST: u64 = 2 * 1024;

/// What the two processes hold.
#[derive(Clone, Copy, Debug)]
struct Has {
    files: [usize; 2],
    kib: [u64; 2],
}

impl Has {
    fn of(pids: [u32; 2]) -> Self {
        let kib = pids.map(|pid| kib_of(pid, "RssAnon") + kib_of(pid, "RssShmem"));
        Self { files: pids.map(fds_of), kib }
    }

    /// Whether it has not grown since `before`.
    fn is_flat(&self, before: &Self) -> bool {
        let files = self.files.iter().zip(before.files).all(|(now, before)| *now <= before);
        files && self.kib.iter().zip(before.kib).all(|(now, before)| *now <= before + MOST)
    }
}

/// Imports and calls for a while. `import` makes that many imports, one after the other, each with
/// a call.
fn again_and_again(by: &str, import: impl Fn(&str, u32)) {
    let server = ServerProcess::start(SERVER, &Room::name(by), "probe");
    let pids = [std::process::id(), server.pid()];
    let keep = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    // Things that the first imports make, and that stay.
    import(server.name(), PART);
    until("the first bindings to be cleared away", || {
        pids.iter().all(|pid| regions_of(*pid) == 1).then_some(())
    });
    let before = Has::of(pids);
    let (mut imports, mut busy) = (0, Duration::ZERO);
    while if long() { busy < MINUTE } else { imports < SHORT } {
        let begun = Instant::now();
        import(server.name(), PART);
        busy += begun.elapsed();
        imports += PART;
        let has = until("all to be given back", || Some(Has::of(pids)).filter(|has| has.is_flat(&before)));
        if imports.is_multiple_of(20_000) || imports == SHORT {
            println!("{imports} imports by {by}: {:?} each; {has:?}, {before:?} before", busy / imports);
        }
    }
    assert_eq!(keep.add(1, 2), Ok(3));
}

fn import(name: &str, times: u32) {
    for n in 0..times {
        // With a connection of its own, and over that of the binding that is kept.
        let import = if n % 2 == 0 { ProbeClient::import_apart } else { ProbeClient::import_within };
        let client = import(name, ServerProcess::soon()).unwrap();
        assert_eq!(client.add(1, 2), Ok(3));
    }
}

#[test]
fn imports_by_a_kernel_thread_leave_nothing() {
    alone!();
    let _watchdog = Watchdog::within("imports_by_a_kernel_thread_leave_nothing", 3 * MINUTE);
    again_and_again("kernel", import);
}

#[test]
fn imports_by_a_thread_leave_nothing() {
    alone!();
    let _watchdog = Watchdog::within("imports_by_a_thread_leave_nothing", 5 * MINUTE);
    again_and_again("user", |name, times| {
        let name = name.to_owned();
        thread::spawn(move || import(&name, times)).join().unwrap();
    });
}
