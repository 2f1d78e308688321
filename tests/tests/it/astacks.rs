//! A-stacks: their size, the memory that they take, and what happens when all are leased.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use underpass::AllLeased;
use underpass_channel::layout::{REGION, STACK, STACKS, stack_of, stack_of_connection};
use underpass_harness::alone;
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Tight, TightClient, Trying, Watchdog, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn tight(name: &str) -> (ServerProcess, TightClient) {
    let server = ServerProcess::start(SERVER, &Room::name(name), "tight");
    let client = TightClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    (server, client)
}

/// The regions that this process has mapped: the bytes of each, and the bytes that are in memory.
fn regions() -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut inside = false;
    for line in maps.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some((begin, end)) = first.split_once('-') {
            let address = |text| usize::from_str_radix(text, 16).unwrap();
            inside = rest.contains("underpass-binding");
            if inside {
                found.push((address(end) - address(begin), 0));
            }
        } else if let (true, "Rss:", Some(last)) = (inside, first, found.last_mut()) {
            last.1 = rest.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024;
        }
    }
    found
}

// The compiler knows these sizes. The interface is this test's own, so that no other change affects
// them.
#[underpass::interface]
trait Blocks {
    fn read(&self, file: u64, block: u32) -> Result<[u8; 512], underpass::CallError>;
    fn write(&self, file: u64, block: u32, bytes: [u8; 512]) -> Result<(), Full>;
    fn rename(&self, file: u64, name: &str) -> Result<(), Full>;
    #[underpass(astack = 600)]
    fn sync(&self, files: &[u64]) -> Result<(), Full>;
}

/// Why a block is not written. It has a fixed size.
#[derive(underpass::Wire)]
struct Full;

impl From<underpass::CallError> for Full {
    fn from(_: underpass::CallError) -> Self {
        Self
    }
}

const _: () = {
    let [read, write, rename, sync] = BlocksClient::SIZES;
    // A block behind a byte; an error that contains a text.
    assert!(matches!((read.arguments, read.result, read.astack), (Some(12), None, 513)));
    // Two numbers and a block.
    assert!(matches!((write.arguments, write.result, write.astack), (Some(524), Some(1), 524)));
    assert!(matches!((rename.arguments, rename.astack), (None, STACK)));
    assert!(sync.astack == 600);
    assert!(BlocksClient::ASTACK == STACK && TightClient::ASTACK == 200);
};

#[test]
fn sizes_and_numbers_follow_from_the_interface() {
    alone!();
    let blocks = BlocksClient::descriptor();
    let sizes: Vec<_> = blocks.procedures.iter().map(|procedure| procedure.astack).collect();
    assert_eq!((sizes, blocks.astack()), (vec![513, 524, STACK, 600], BlocksClient::ASTACK));
    let tight = TightClient::descriptor();
    let sizes: Vec<_> = tight.procedures.iter().map(|procedure| procedure.astack).collect();
    // The bytes of the arguments, or of a result of one byte with its variant.
    assert_eq!(sizes, [200, 4, 2]);
    assert_eq!((tight.astack(), tight.calls()), (200, 2));
    let probe = ProbeClient::descriptor();
    assert_eq!((probe.astack(), probe.calls()), (STACK, 5));
    assert!(tight.text().ends_with("A-stacks of 200 bytes\n"), "both sides must agree on it");
}

#[test]
fn a_region_has_default_a_stacks_unless_its_first_interface_wants_more() {
    alone!();
    let _watchdog = Watchdog::new("a_region_has_default_a_stacks_unless_its_first_interface_wants_more");
    let (_server, client) = tight("small");
    assert_eq!(client.sum([3; 25]), Ok(75));
    // Later interfaces of the connection share the A-stacks, so a small one gets no less.
    assert_eq!(regions().iter().map(|region| region.0).collect::<Vec<_>>(), [REGION]);
    assert_eq!([0, 200, STACK].map(stack_of_connection), [STACK; 3]);
    assert_eq!(stack_of_connection(STACK + 1), stack_of(STACK + 1));
    assert_eq!(stack_of_connection(usize::MAX), stack_of(usize::MAX));
}

#[test]
fn the_warm_a_stack_is_leased_again() {
    alone!();
    let _watchdog = Watchdog::new("the_warm_a_stack_is_leased_again");
    let server = ServerProcess::start(SERVER, &Room::name("warm"), "probe");
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    let bytes = vec![7; STACK - 16];
    for _ in 0..500 {
        assert_eq!(client.count(&bytes), Ok(bytes.len() as u64));
    }
    let [(size, resident)] = regions()[..] else { panic!("one binding") };
    assert_eq!(size, REGION);
    assert!((STACK..=STACKS + STACK).contains(&resident), "one A-stack and the rings, of {resident} bytes");
}

#[test]
fn a_caller_chooses_what_to_do_when_all_are_leased() {
    alone!();
    let _watchdog = Watchdog::new("a_caller_chooses_what_to_do_when_all_are_leased");
    let (_server, client) = tight("choice");
    let waiting = client.when_all_leased(AllLeased::Wait);
    let released = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let two = [waiting.clone(), waiting.clone()].map(|client| scope.spawn(move || client.meet(3)));
        // The interface expects no more than two.
        until("both to be under way", || (client.counters().calls == 2).then_some(()));
        assert_eq!(client.when_all_leased(AllLeased::Fail).sum([1; 25]), Err(Trying::Overloaded));
        assert_eq!(waiting.with_deadline(Duration::ZERO).sum([1; 25]), Err(Trying::Overloaded));
        let waited = scope.spawn(|| {
            let sum = waiting.sum([2; 25]);
            (sum, released.load(Ordering::SeqCst))
        });
        assert_eq!(client.sum([1; 25]), Ok(25), "who says nothing grows");
        assert_eq!(client.counters().calls, 3, "the waiting one is not under way");
        released.store(true, Ordering::SeqCst);
        assert_eq!(client.meet(3), Ok(()));
        assert_eq!(two.map(|call| call.join().unwrap()), [Ok(()), Ok(())]);
        assert_eq!(waited.join().unwrap(), (Ok(50), true));
    });
    // No A-stack is lost.
    assert_eq!(client.when_all_leased(AllLeased::Fail).sum([4; 25]), Ok(100));
}

#[test]
fn a_task_chooses_as_a_thread_does() {
    alone!();
    let _watchdog = Watchdog::new("a_task_chooses_as_a_thread_does");
    let (_server, client) = tight("tasks");
    let [failing, waiting] = [AllLeased::Fail, AllLeased::Wait].map(|choice| client.when_all_leased(choice));
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = pin!(waiting.sum_async([2; 25]));
    std::thread::scope(|scope| {
        let two = [0, 1].map(|_| scope.spawn(|| client.meet(3)));
        until("both to be under way", || (client.counters().calls == 2).then_some(()));
        let failed = pin!(failing.sum_async([1; 25])).poll(&mut context);
        assert_eq!(failed, Poll::Ready(Err(Trying::Overloaded)));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        let late = waiting.with_deadline(Duration::ZERO);
        assert_eq!(pin!(late.sum_async([1; 25])).poll(&mut context), Poll::Ready(Err(Trying::Overloaded)));
        assert_eq!(client.counters().calls, 2, "none of them is under way");
        assert_eq!(client.meet(3), Ok(()), "who says nothing grows");
        assert_eq!(two.map(|call| call.join().unwrap()), [Ok(()), Ok(())]);
    });
    let sum = until("the sum", || match waits.as_mut().poll(&mut context) {
        Poll::Ready(sum) => Some(sum),
        Poll::Pending => None,
    });
    assert_eq!(sum, Ok(50));
    assert_eq!(failing.sum([4; 25]), Ok(100));
}

#[test]
fn a_waiter_for_few_slots_does_not_delay_one_for_many() {
    alone!();
    let _watchdog = Watchdog::new("a_waiter_for_few_slots_does_not_delay_one_for_many");
    let (_server, client) = tight("both");
    let few = client.when_all_leased(AllLeased::Wait);
    std::thread::scope(|scope| {
        // All A-stacks but one.
        let most: Vec<_> = (0..63).map(|_| scope.spawn(|| client.meet(64))).collect();
        until("them to be under way", || (client.counters().calls == 63).then_some(()));
        let one = scope.spawn(|| few.sum([1; 25]));
        // Many callers want the last A-stack. Each waits behind one that needs more.
        let many: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..50).map(|n| client.sum([n; 25])).collect::<Result<Vec<_>, _>>()))
            .collect();
        for calls in many {
            assert_eq!(calls.join().unwrap(), Ok((0..50).map(|n| n * 25).collect()));
        }
        assert_eq!(client.meet(64), Ok(()));
        assert!(most.into_iter().all(|call| call.join().unwrap() == Ok(())));
        assert_eq!(one.join().unwrap(), Ok(25));
    });
}

#[test]
fn a_message_larger_than_its_a_stack_goes_out_of_band() {
    alone!();
    let _watchdog = Watchdog::new("a_message_larger_than_its_a_stack_goes_out_of_band");
    let (_server, client) = tight("larger");
    // A message of 1000 bytes, where A-stacks have 256.
    assert_eq!(client.panic(), Err(Trying::Panicked));
    assert_eq!(client.sum([5; 25]), Ok(125));
}
