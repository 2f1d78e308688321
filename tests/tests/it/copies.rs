//! How often arguments and results are copied (LRPC, Table III), and what a client can change in
//! them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
#[cfg(debug_assertions)]
use underpass::Copied;
use underpass::{Shared, thread};
use underpass_harness::alone;
use underpass_tests::{Room, Scales, ScalesClient, ServerProcess, Watchdog, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn scales(name: &str) -> (ServerProcess, ScalesClient) {
    let server = ServerProcess::start(SERVER, &Room::name(name), "scales");
    let client = ScalesClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    (server, client)
}

/// Bytes that one call copied: the client into the channel (A), the server out of it (E), the
/// server into it, the client out of it (F).
#[cfg(debug_assertions)]
type Counted = [u64; 4];

/// The bytes that `call` copied, and nothing else.
#[cfg(debug_assertions)]
fn count(client: &ScalesClient, call: impl Fn()) -> Counted {
    let both = || {
        let (into, out_of) = client.copied().unwrap().expect("debug assertions are on");
        let Copied { into: sent, out_of: received } = underpass::copied().unwrap();
        [sent, out_of, into, received]
    };
    let since = |then: Counted, now: Counted| std::array::from_fn(|n| now[n] - then[n]);
    // Asking twice shows what asking costs.
    let (first, second) = (both(), both());
    call();
    let cost: Counted = since(first, second);
    since(cost, since(second, both()))
}

/// LRPC's column of Table III, in bytes. `AE` are arguments that are protected from the client, `A`
/// other arguments, and `F` results. The server's write of a result into the A-stack has no letter,
/// since LRPC's procedures make their results there.
#[test]
#[cfg(debug_assertions)]
fn copies_are_those_of_lrpcs_third_table() {
    alone!();
    /// The bytes, and their length before them. Next to an error without bytes, a numeric result
    /// takes nine.
    const N: u64 = 1000;
    const LENGTH: u64 = 9;
    const SUM: u64 = 9;
    let _watchdog = Watchdog::new("copies_are_those_of_lrpcs_third_table");
    let (_server, client) = scales("table");
    let bytes: Vec<u8> = (0..N).map(|n| n as u8).collect();
    let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
    let message = N + LENGTH;
    // In an overflow buffer, and in a file beside the channel.
    const LARGE: u64 = 1 << 20;
    const HUGE: u64 = (64 << 20) + 1;
    let long = |len: u64| vec![1; len as usize];
    let (large, huge) = (long(LARGE), long(HUGE));
    // The first call makes the overflow buffers, and the others reuse them.
    let large_lent = || count(&client, || assert_eq!(client.lent(&large), Ok(LARGE)));
    let large_given =
        || count(&client, || assert_eq!(client.given(LARGE as u32).map(|all| all.len()), Ok(large.len())));
    let large_lent_counted = [LARGE + LENGTH, LARGE + LENGTH, SUM, SUM];
    let large_given_counted = [4, 4, 1 + LARGE + LENGTH, 1 + LARGE + LENGTH];
    let rows: [(&str, Counted, Counted); 14] = [
        (
            "lent: AE",
            count(&client, || assert_eq!(client.lent(&bytes), Ok(sum))),
            [message, message, SUM, SUM],
        ),
        (
            "owned, the server changes its copy: AE",
            count(&client, || assert_eq!(client.owned(bytes.clone()), Ok(sum))),
            [message, message, SUM, SUM],
        ),
        (
            "shared: A",
            count(&client, || assert_eq!(client.shared(Shared::from(&bytes)), Ok(sum))),
            [message, LENGTH, SUM, SUM],
        ),
        (
            "shared, and copied by the handler: AE",
            count(&client, || assert_eq!(client.taken(Shared::from(&bytes)), Ok(sum))),
            [message, message, SUM, SUM],
        ),
        (
            "a result: F",
            count(&client, || assert_eq!(client.given(N as u32), Ok(vec![1; N as usize]))),
            [4, 4, 1 + message, 1 + message],
        ),
        (
            "what fits into a cell: AE and F",
            count(&client, || assert_eq!(client.small(7), Ok(7))),
            [8, 8, SUM, SUM],
        ),
        ("a new overflow buffer, lent: AE", large_lent(), large_lent_counted),
        ("an overflow buffer, lent: AE", large_lent(), large_lent_counted),
        (
            "an overflow buffer, shared: A",
            count(&client, || assert_eq!(client.shared(Shared::from(&large)), Ok(LARGE))),
            [LARGE + LENGTH, LENGTH, SUM, SUM],
        ),
        ("a result: F", large_given(), large_given_counted),
        ("a result in an overflow buffer: F", large_given(), large_given_counted),
        (
            "an overflow buffer, shared, and copied by the handler: AE",
            count(&client, || assert_eq!(client.taken(Shared::from(&large)), Ok(LARGE))),
            large_lent_counted,
        ),
        (
            "streamed, lent: AE",
            count(&client, || assert_eq!(client.lent(&huge), Ok(HUGE))),
            [HUGE + LENGTH, HUGE + LENGTH, SUM, SUM],
        ),
        (
            "streamed, shared: AE all the same",
            count(&client, || assert_eq!(client.shared(Shared::from(&huge)), Ok(HUGE))),
            [HUGE + LENGTH, HUGE + LENGTH, SUM, SUM],
        ),
    ];
    for (what, counted, expected) in rows {
        println!("{what}: {counted:?}");
        assert_eq!(counted, expected, "{what}");
    }
}

/// The places in the regions of this process that hold `bytes`. A hostile client finds its own
/// bytes in this way.
fn find(memory: &File, bytes: &[u8]) -> io::Result<Vec<u64>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.contains("underpass-binding")) {
        let (begin, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let [begin, end] = [begin, end].map(|address| u64::from_str_radix(address, 16).expect("an address"));
        let mut all = vec![0; (end - begin) as usize];
        memory.read_exact_at(&mut all, begin)?;
        let places = all.windows(bytes.len()).enumerate().filter(|(_, here)| *here == bytes);
        found.extend(places.map(|(at, _)| begin + at as u64));
    }
    Ok(found)
}

#[test]
fn a_client_changes_what_it_shares_and_nothing_else() {
    alone!();
    let _watchdog = Watchdog::new("a_client_changes_what_it_shares");
    let (_server, client) = scales("changes");
    let (kept, shared) = (vec![3; 500], vec![5; 700]);
    let theirs = client.clone();
    let call = {
        let (kept, shared) = (kept.clone(), shared.clone());
        thread::spawn(move || theirs.twice(&kept, Shared::from(&shared)))
    };
    until("the handler to have looked once", || client.waits().unwrap().then_some(()));
    // A client may write to its A-stacks at any time.
    let memory = File::options().read(true).write(true).open("/proc/self/mem").unwrap();
    for (bytes, value) in [(&kept, 30), (&shared, 50)] {
        let places = find(&memory, bytes).unwrap();
        assert_eq!(places.len(), 1, "one A-stack has it");
        memory.write_all_at(&vec![value; bytes.len()], places[0]).unwrap();
    }
    client.go().unwrap();
    assert_eq!(call.join().unwrap(), Ok([(1500, 3500), (1500, 35_000)]));
}

#[test]
fn shared_bytes_come_through_wherever_they_lie() {
    alone!();
    let _watchdog = Watchdog::new("shared_bytes_come_through_wherever_they_lie");
    let (_server, client) = scales("wherever");
    // In a cell, in an A-stack, in a file.
    for len in [0usize, 1, 40, 55, 56, 254, 255, 32_000, 33_000, 1 << 20] {
        let bytes: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
        let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
        let (shared, taken) = (Shared::from(&bytes), Shared::from(&bytes[..]));
        assert_eq!((client.shared(shared), client.taken(taken)), (Ok(sum), Ok(sum)), "{len}");
    }
}
