//! Large arguments and results. They lie in memory that both sides keep. The memory is reused, is
//! given back when nobody uses it, and is freed when either side ends.

use std::fs::read_to_string;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use underpass::{CallError, Server, thread};
use underpass_channel::layout::{OVERFLOW_SIZES, OVERFLOW_TOTAL};
use underpass_harness::alone;
use underpass_tests::{Files, Probe, ProbeClient, Room, ServerProcess, Subject, Watchdog, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn server(of: &str) -> ServerProcess {
    ServerProcess::start(SERVER, &Room::name(of), "probe")
}

fn import(server: &ServerProcess) -> ProbeClient {
    ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap()
}

/// The overflow buffers that `pid` has mapped: their number, their bytes, and the bytes that are in
/// memory.
fn overflow_buffers_of(pid: u32) -> (usize, u64, u64) {
    let maps = read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let (mut count, mut room, mut filled, mut inside) = (0, 0, 0, false);
    let kib =
        |line: &str| line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) << 10;
    for line in maps.lines() {
        match line.split_once(':') {
            // The first line of a mapping holds its addresses. The number of its device may contain
            // a colon.
            Some((field, _)) if field.contains('-') => {
                inside = line.contains("underpass-overflow");
                count += usize::from(inside);
            }
            Some(("Size", _)) if inside => room += kib(line),
            Some(("Rss", _)) if inside => filled += kib(line),
            _ => {}
        }
    }
    (count, room, filled)
}

/// The files of the overflow buffers that `pid` has mapped, one entry for each mapping.
fn lines_of_overflow_buffers(pid: u32) -> Vec<String> {
    let maps = read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let overflow_buffers = maps.lines().filter(|line| line.contains("underpass-overflow"));
    overflow_buffers.filter_map(|line| line.split_whitespace().nth(4).map(str::to_owned)).collect()
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251 + seed) as u8).collect()
}

fn comes_back(client: &ProbeClient, len: usize, seed: usize) {
    let sent = bytes(len, seed);
    assert!(client.echo(&sent).unwrap() == sent, "{len} bytes");
}

#[test]
fn any_size_comes_back_again_and_again() {
    alone!();
    let _watchdog = Watchdog::new("any_size_comes_back_again_and_again");
    let server = server("sizes");
    let client = import(&server);
    let most = *OVERFLOW_SIZES.end();
    for round in 0..3 {
        for len in [
            32 << 10,
            (32 << 10) + 1,
            65_000,
            65_536,
            100_000,
            1 << 20,
            300_000,
            most - 8,
            most,
            most + 1,
            40_000,
        ] {
            comes_back(&client, len, round);
        }
        assert_eq!(client.add(1, 2), Ok(3));
    }
    // Only results are large: sizes that grow, then sizes that shrink again.
    for len in [40_000u64, 50_000, 100_000, 1_000_000, 5_000_000, 70_000, 1_000_000, 1_000_000] {
        assert_eq!(client.fill(len).unwrap().len() as u64, len);
    }
}

#[test]
fn one_overflow_buffer_serves_calls_one_after_the_other() {
    alone!();
    let _watchdog = Watchdog::new("one_overflow_buffer_serves_calls_one_after_the_other");
    let server = server("one");
    let client = import(&server);
    client.null().unwrap();
    let before = Files::of(server.pid());
    for n in 0..50 {
        comes_back(&client, 1_000_000, n);
    }
    assert_eq!(overflow_buffers_of(server.pid()).0, 1);
    assert_eq!(overflow_buffers_of(server.pid()).1, 1 << 20);
    comes_back(&client, 1 << 20, 0);
    // The file thread unmaps the buffer that it replaces, and may come to that after the reply.
    until("one with more room, in its place", || {
        let (count, room, _) = overflow_buffers_of(server.pid());
        ((count, room) == (1, 2 << 20)).then_some(())
    });
    before.until_no_others();
    // By results alone.
    let second = ProbeClient::import_apart(server.name(), ServerProcess::soon()).unwrap();
    for _ in 0..5 {
        second.fill(3_000_000).unwrap();
    }
    let (count, room, _) = overflow_buffers_of(server.pid());
    assert_eq!((count, room), (2, (2 << 20) + (4 << 20)));
    drop((client, second));
    until("its overflow buffers to go", || (overflow_buffers_of(server.pid()).0 == 0).then_some(()));
}

/// Even if nothing but its results is large, a server uses its client's memory for them.
#[test]
fn large_results_of_small_arguments_use_an_overflow_buffer() {
    alone!();
    #[underpass::interface(asynchronous)]
    trait Lists {
        fn list(&self, count: u64) -> Result<Vec<(u64, String)>, CallError>;
    }
    struct Counting;
    impl ListsAsync for Counting {
        async fn list(&self, count: u64) -> Result<Vec<(u64, String)>, CallError> {
            Ok((0..count).map(|number| (number, number.to_string())).collect())
        }
    }
    let _watchdog = Watchdog::new("large_results_of_small_arguments_use_an_overflow_buffer");
    let name = Room::name("lists");
    // The handler is ready at its first poll.
    let spawn = |mut handler: underpass::Handler| {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(handler.as_mut().poll(&mut context).is_ready());
    };
    let running = underpass::Server::new().export(&name, ListsAsync::serve(Counting, spawn)).start().unwrap();
    let lists = ListsClient::import(&name).unwrap();
    let own = || lines_of_overflow_buffers(std::process::id());
    until("both sides to have it mapped", || {
        let list = lists.list(100_000).unwrap();
        assert!(list.len() == 100_000 && list.iter().all(|(number, text)| *text == number.to_string()));
        own().iter().any(|line| own().iter().filter(|other| *other == line).count() == 2).then_some(())
    });
    drop(lists);
    running.stop();
}

/// A part of a result. Its server drops it only after a client has said so.
#[derive(underpass::Wire)]
struct Lasting(String);

/// This process is that server, and a client has said so.
static SERVES: AtomicBool = AtomicBool::new(false);
static SAID: AtomicBool = AtomicBool::new(false);

impl Drop for Lasting {
    fn drop(&mut self) {
        while SERVES.load(Ordering::SeqCst) && !SAID.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    }
}

#[underpass::interface]
trait Lasts {
    fn list(&self, count: u64) -> Result<Vec<Lasting>, CallError>;
    fn say(&self) -> Result<(), CallError>;
}

struct Patient;

impl Lasts for Patient {
    fn list(&self, count: u64) -> Result<Vec<Lasting>, CallError> {
        Ok((0..count).map(|number| Lasting(number.to_string())).collect())
    }

    fn say(&self) -> Result<(), CallError> {
        SAID.store(true, Ordering::SeqCst);
        Ok(())
    }
}

const LASTING: &str = "UNDERPASS_TEST_LASTING";

/// The server of the next test, in a process of its own.
#[test]
fn server_of_lasting_results() {
    if let Ok(name) = std::env::var(LASTING) {
        SERVES.store(true, Ordering::SeqCst);
        Server::new().export(name, Lasts::serve(Patient)).run().unwrap();
    }
}

#[test]
fn a_large_result_is_dropped_behind_its_reply() {
    alone!();
    let _watchdog = Watchdog::new("a_large_result_is_dropped_behind_its_reply");
    let name = Room::name("lasting");
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "large::server_of_lasting_results"])
        .env(LASTING, &name)
        .spawn()
        .unwrap();
    let lasts = LastsClient::import_within(&name, ServerProcess::soon()).unwrap();
    let list = lasts.list(50_000);
    let said = lasts.say();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(list.map(|list| list.len()), Ok(50_000));
    assert_eq!(said, Ok(()));
}

#[test]
fn calls_after_the_first_enter_the_kernel_for_no_file() {
    alone!();
    let _watchdog = Watchdog::new("calls_after_the_first_enter_the_kernel_for_no_file");
    let server = server("entries");
    let client = import(&server);
    let sent = bytes(1 << 20, 7);
    (0..3).for_each(|_| assert!(client.echo(&sent).is_ok()));
    // An out-of-band payload file takes nine system calls. A sleep and a wake-up on either side
    // take five. A client that donates its processor yields at most three times.
    let before = client.counters();
    const CALLS: u64 = 200;
    for _ in 0..CALLS {
        assert!(client.count(&sent).is_ok());
    }
    let done = client.counters().since(&before);
    let moved = done.sleeps + done.wakeups_sent + done.donations_given;
    assert!(done.kernel_entries <= 3 * moved + CALLS / 10, "{done:?}");
}

#[test]
fn concurrent_calls_have_overflow_buffers_of_their_own() {
    alone!();
    let _watchdog = Watchdog::new("concurrent_calls_have_overflow_buffers_of_their_own");
    let server = server("at-once");
    let client = import(&server);
    let callers: Vec<_> = (0..24)
        .map(|n| {
            let client = client.clone();
            thread::spawn(move || {
                for round in 0..8 {
                    comes_back(&client, 40_000 + n * 9_000 + round * 1_000, n);
                    thread::yield_now();
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    // More concurrent calls than a channel may have overflow buffers. The others use files.
    let callers: Vec<_> = (0..8)
        .map(|n| {
            let client = client.clone();
            thread::spawn(move || comes_back(&client, *OVERFLOW_SIZES.end() - 8, n))
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    let (_, room, _) = overflow_buffers_of(server.pid());
    assert!(room <= 16 * OVERFLOW_TOTAL as u64, "{room} bytes");
}

#[test]
fn pages_that_nobody_uses_go_back_to_the_system() {
    alone!();
    let _watchdog = Watchdog::new("pages_that_nobody_uses_go_back_to_the_system");
    let server = server("idle");
    let client = import(&server);
    for round in 0..2 {
        comes_back(&client, 3_000_000, round);
        comes_back(&client, 3_000_000, round);
        until("the overflow buffer to go, with its pages", || {
            (overflow_buffers_of(server.pid()).0 == 0).then_some(())
        });
    }
}

#[test]
fn a_users_overflow_buffers_are_limited_and_calls_go_on_without() {
    alone!();
    let _watchdog = Watchdog::new("a_user_has_so_many_bytes_of_them");
    let name = Room::name("few");
    let mut command = Command::new(SERVER);
    command.args([&*name, "overflow-bytes", "262144"]);
    let server = ServerProcess::run(command, &name);
    let (first, second) = (import(&server), import(&server));
    for round in 0..3 {
        comes_back(&first, 200_000, round);
        comes_back(&second, 200_000, round);
        comes_back(&first, 300_000, round);
        assert_eq!(second.fill(200_000).unwrap().len(), 200_000);
    }
    let (count, room, _) = overflow_buffers_of(server.pid());
    assert!(count <= 1 && room <= 256 << 10, "{count} overflow buffers of {room} bytes");
    // The second client uses the memory that the first one had.
    drop(first);
    until("its overflow buffers to go", || (overflow_buffers_of(server.pid()).0 == 0).then_some(()));
    let third = import(&server);
    comes_back(&third, 200_000, 0);
    assert_eq!(overflow_buffers_of(server.pid()).0, 1);
}

#[test]
fn a_user_is_charged_for_the_overflow_buffers_that_exist() {
    alone!();
    let _watchdog = Watchdog::new("a_user_is_charged_for_the_overflow_buffers_that_exist");
    let name = Room::name("counted");
    let mut command = Command::new(SERVER);
    // Room for a buffer of 256 KiB, and for one without pages.
    command.args([&*name, "overflow-bytes", "327680"]);
    let server = ServerProcess::run(command, &name);
    let (first, second) = (import(&server), import(&server));
    let mapped = || overflow_buffers_of(server.pid()).0;
    comes_back(&first, 200_000, 1);
    comes_back(&second, 200_000, 2);
    assert_eq!(mapped(), 1, "the first one's alone");
    // Once the first buffer is dropped because nobody uses it, the second one has room.
    until("the first to have none", || (mapped() == 0).then_some(()));
    comes_back(&second, 200_000, 3);
    comes_back(&first, 200_000, 4);
    assert_eq!(mapped(), 1, "the second one's alone");
    comes_back(&second, 200_000, 5);
    until("the second to have none", || (mapped() == 0).then_some(()));
}

#[test]
fn overflow_buffers_are_freed_when_either_side_dies() {
    alone!();
    let _watchdog = Watchdog::new("overflow_buffers_are_freed_when_either_side_dies");
    let server = server("client-dies");
    let survivor = import(&server);
    survivor.null().unwrap();
    let before = Files::of(server.pid());
    for _ in 0..5 {
        let mut client = Command::new(SERVER).args([server.name(), "large", "1000000000"]).spawn().unwrap();
        until("it to call", || (overflow_buffers_of(server.pid()).0 > 0).then_some(()));
        client.kill().unwrap();
        client.wait().unwrap();
        until("the server to let go", || {
            (overflow_buffers_of(server.pid()).0 == 0 && before.others() == 0).then_some(())
        });
    }
    let mut server = server;
    let client = survivor;
    comes_back(&client, 100_000, 0);
    let sent = bytes(1_000_000, 3);
    let caller = {
        let client = client.clone();
        std::thread::spawn(move || {
            loop {
                if let Err(e) = client.echo(&sent) {
                    return e;
                }
            }
        })
    };
    until("it to call", || client.arrived().is_ok_and(|bytes| bytes > 10_000_000).then_some(()));
    server.kill();
    assert!(matches!(caller.join().unwrap(), CallError::PeerDied(_)));
}

#[test]
fn a_deadline_in_the_middle_leaves_the_next_call_its_own_bytes() {
    alone!();
    let _watchdog = Watchdog::new("a_deadline_in_the_middle_leaves_the_next_call_its_own_bytes");
    let server = server("deadline");
    let client = import(&server);
    let hasty = client.with_deadline(Duration::from_micros(300));
    for n in 0..200 {
        let sent = bytes(400_000, n);
        match hasty.echo(&sent) {
            Ok(back) => assert!(back == sent),
            Err(CallError::Deadline(_)) => {}
            Err(e) => panic!("{e}"),
        }
        if n % 10 == 0 {
            comes_back(&client, 400_000, n + 1);
        }
    }
}

#[test]
fn large_calls_within_a_domain_are_as_any() {
    alone!();
    let _watchdog = Watchdog::new("large_calls_within_a_domain_are_as_any");
    let name = Room::name("large-here");
    let _running = Server::new().export(&name, Probe::serve(Subject::default())).start().unwrap();
    comes_back(&ProbeClient::import(&name).unwrap(), 1 << 20, 1);
}
