//! The components of a call (URPC, Table II), over a channel whose two ends are both in this
//! process.
//!
//! Each component is a loop of its own over [`MESSAGES`] messages: all are sent, then all are
//! polled for, and so on. So a component is measured with the code and the channel of real calls,
//! and without the wait for a cache line of another processor.

use super::Processors;
use crate::BenchError;
use crate::measure::contest::Subject;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use underpass::sync::SpinLock;
use underpass::thread::{self, JoinHandle};
use underpass_channel::layout::{SLOTS, STACK};
use underpass_channel::{Cell, Channel, Fence, Head, Payload, Slot, Slots};
use underpass_os::clock::now_ns;
use underpass_threads::{Latch, Woken, wait_on};

/// Messages in flight at once. A channel takes twice as many.
pub(super) const MESSAGES: usize = 32;

/// A component, in the order in which a call passes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    ClientSend,
    ServerPoll,
    ServerReceive,
    ServerDispatch,
    ServerSend,
    ClientPoll,
    ClientReceive,
    ClientDispatch,
}

use Component::{
    ClientDispatch, ClientPoll, ClientReceive, ClientSend, ServerDispatch, ServerPoll, ServerReceive,
    ServerSend,
};

/// The client's, in the order of the paper's table.
pub(super) const CLIENT: [Component; 4] = [ClientSend, ClientPoll, ClientReceive, ClientDispatch];
/// The server's.
pub(super) const SERVER: [Component; 4] = [ServerSend, ServerPoll, ServerReceive, ServerDispatch];

/// The ns that each component took, by its number.
pub(super) type Times = [u64; 8];

/// Both ends of a channel, with the other data of client and server.
pub(super) struct ChannelParts {
    client: Channel,
    server: Channel,
    slots: Slots,
    client_lock: SpinLock,
    server_lock: SpinLock,
    leased: Vec<Slot>,
    /// The linkage records: the result of each call.
    replies: [AtomicU64; MESSAGES],
    busy: [AtomicBool; MESSAGES],
    calls: Vec<Head>,
    procedure: Box<dyn Fn(Head) -> bool + Send>,
    lent: AtomicU32,
}

// Relaxed, in all of this: there is one thread, and the orderings that cost something are those of
// the channel.
impl ChannelParts {
    pub(super) fn new() -> Result<Self, BenchError> {
        let (server, file) = Channel::create(Fence::Light, STACK)?;
        let client = Channel::adopt(std::os::fd::AsFd::as_fd(&file), Fence::Light, STACK)?;
        Ok(Self {
            client,
            server,
            slots: Slots::default(),
            client_lock: SpinLock::new(),
            server_lock: SpinLock::new(),
            leased: Vec::with_capacity(MESSAGES),
            replies: Default::default(),
            busy: Default::default(),
            calls: Vec::with_capacity(MESSAGES),
            procedure: Box::new(|head| black_box(head).inline_request() == Some(0)),
            lent: AtomicU32::new(0),
        })
    }

    /// Lease a slot, record that a reply is expected, and post.
    #[inline(never)]
    fn part_client_send(&mut self) {
        for _ in 0..MESSAGES {
            let inside = self.client_lock.enter();
            let slot = self.slots.lease(SLOTS);
            drop(inside);
            let Some(slot) = slot else { return };
            self.replies[usize::from(slot.number())].store(0, Ordering::Relaxed);
            if let Some(cell) = Cell::inline(slot.number(), 0, &[]) {
                let _inside = self.client_lock.enter();
                black_box(self.client.post_and_look(&cell, self.slots.leased() - 1));
            }
            self.leased.push(slot);
        }
    }

    #[inline(never)]
    fn part_server_poll(&self) {
        poll(&self.server);
    }

    /// Take the cell, and check it against the server's own state.
    #[inline(never)]
    fn part_server_receive(&mut self) {
        for _ in 0..MESSAGES {
            let Some(inside) = self.server_lock.try_enter() else { return };
            let mut payload = Payload::new();
            let Ok(Some(head)) = self.server.take(&mut payload) else { return };
            black_box(&payload);
            let Some(busy) = self.busy.get(usize::from(head.slot())) else { return };
            if busy.load(Ordering::Relaxed) {
                return;
            }
            busy.store(true, Ordering::Relaxed);
            drop(inside);
            self.calls.push(head);
        }
    }

    /// Run the procedure. The dispatcher does so on its own stack, so there is no switch.
    #[inline(never)]
    fn part_server_dispatch(&self) {
        for &call in &self.calls {
            let _ = black_box(catch_unwind(AssertUnwindSafe(|| (self.procedure)(call))));
        }
    }

    /// Post the reply.
    #[inline(never)]
    fn part_server_send(&mut self) {
        for call in self.calls.drain(..) {
            let Some(reply) = Cell::inline(call.slot(), 0, &[]) else { continue };
            let _inside = self.server_lock.enter();
            if black_box(&self.lent).load(Ordering::Relaxed) == 0 {
                black_box(self.server.post(&reply));
            }
            self.busy[usize::from(call.slot())].store(false, Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn part_client_poll(&self) {
        poll(&self.client);
    }

    /// Take all replies that have come under one lock, record them, and free the slots.
    #[inline(never)]
    fn part_client_receive(&mut self) {
        let Some(inside) = self.client_lock.try_enter() else { return };
        let receiving = self.client.receiving();
        while let Ok(Some(coming)) = receiving.peek() {
            let Some(reply) = self.replies.get(usize::from(coming.head.slot())) else { return };
            // A present head is not zero.
            reply.store(coming.head.word(), Ordering::Relaxed);
            coming.words(|_, word| _ = black_box(word));
            receiving.consume(&coming);
        }
        drop(inside);
        for slot in self.leased.drain(..) {
            black_box(self.replies[usize::from(slot.number())].load(Ordering::Relaxed));
            let _inside = self.client_lock.enter();
            self.slots.give_back(slot);
        }
    }

    /// Passes all messages through all components except the client's dispatch. `timed` gets each
    /// component in turn.
    pub(super) fn pass(&mut self, mut timed: impl FnMut(Component, &mut dyn FnMut())) {
        timed(ClientSend, &mut || self.part_client_send());
        timed(ServerPoll, &mut || self.part_server_poll());
        timed(ServerReceive, &mut || self.part_server_receive());
        timed(ServerDispatch, &mut || self.part_server_dispatch());
        timed(ServerSend, &mut || self.part_server_send());
        timed(ClientPoll, &mut || self.part_client_poll());
        timed(ClientReceive, &mut || self.part_client_receive());
    }

    /// Whether the last messages passed: all slots are free, and each call has its reply.
    pub(super) fn passed(&self) -> bool {
        let answered = self.replies.iter().all(|reply| reply.load(Ordering::Relaxed) != 0);
        answered && self.slots.leased() == 0
    }
}

fn poll(end: &Channel) {
    for _ in 0..MESSAGES {
        black_box(end.receiving().pending());
    }
}

/// Threads that each wait for a reply, and the replies.
pub(super) struct Callers {
    latches: Arc<[Latch]>,
    told: Arc<Told>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Told {
    resumed: AtomicU64,
    over: AtomicBool,
}

impl Callers {
    /// For a user-level thread.
    pub(super) fn new() -> Self {
        let latches: Arc<[Latch]> = (0..MESSAGES).map(|_| Latch::default()).collect();
        latches.iter().for_each(Latch::shut);
        let told = Arc::new(Told::default());
        let caller = |n: usize| {
            let (latches, told) = (Arc::clone(&latches), Arc::clone(&told));
            thread::spawn(move || {
                while wait_on(&latches[n], None, None) == Woken::Woken && !told.over.load(Ordering::Relaxed) {
                    latches[n].shut();
                    told.resumed.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let threads = (0..MESSAGES).map(caller).collect();
        Self { latches, told, threads }
    }

    /// Unblock the callers and switch to each. Each blocks again.
    #[inline(never)]
    pub(super) fn part_client_dispatch(&self) {
        let all = self.told.resumed.load(Ordering::Relaxed) + MESSAGES as u64;
        self.latches.iter().for_each(Latch::open);
        while self.told.resumed.load(Ordering::Relaxed) < all {
            thread::yield_now();
        }
    }

    pub(super) fn end(self) -> Result<(), BenchError> {
        self.told.over.store(true, Ordering::Relaxed);
        self.latches.iter().for_each(Latch::open);
        let joined = self.threads.into_iter().map(|thread| thread.join().map_err(|_| "a caller panicked"));
        Ok(joined.collect::<Result<(), _>>()?)
    }
}

/// Passes messages through all components `rounds` times on a user-level thread. Returns the ns of
/// each component.
fn times(rounds: u64) -> Result<Times, BenchError> {
    let thread = thread::spawn(move || {
        let (mut parts, callers) = (ChannelParts::new()?, Callers::new());
        let reading = |_| {
            let start = now_ns();
            now_ns() - start
        };
        let clock = (0..100).map(reading).min().unwrap_or(0);
        let mut times = [0; 8];
        for round in 0..rounds + rounds / 8 + 1 {
            if round == rounds / 8 + 1 {
                times = [0; 8];
            }
            let mut timed = |component: Component, part: &mut dyn FnMut()| {
                let start = now_ns();
                part();
                times[component as usize] += (now_ns() - start).saturating_sub(clock);
            };
            parts.pass(&mut timed);
            timed(ClientDispatch, &mut || callers.part_client_dispatch());
        }
        callers.end()?;
        if parts.passed() { Ok(times) } else { Err(BenchError::from("not all messages have passed")) }
    });
    thread.join().map_err(|_| "the measuring thread panicked")?
}

/// The components of one side or of both, as a subject. An operation is a message.
pub(super) struct Sum {
    name: String,
    /// The components of a side, and the number of processors that share them.
    sides: Vec<(Vec<Component>, u64)>,
}

impl Sum {
    /// Several components together.
    pub(super) fn of(name: &str, components: &[Component]) -> Self {
        Self { name: name.into(), sides: vec![(components.to_vec(), 1)] }
    }

    /// The slower side, if each has that many processors to share its work. It bounds a pipeline of
    /// the two.
    pub(super) fn slower(Processors { clients, servers }: Processors) -> Self {
        let sides = vec![(CLIENT.to_vec(), clients as u64), (SERVER.to_vec(), servers as u64)];
        Self { name: "slower-side".into(), sides }
    }
}

impl Subject for Sum {
    fn name(&self) -> &str {
        &self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        let rounds = operations.div_ceil(MESSAGES as u64);
        let times = times(rounds)?;
        let sum = |side: &[Component]| side.iter().map(|&part| times[part as usize]).sum::<u64>();
        let sums = self.sides.iter().map(|(side, processors)| sum(side) / processors);
        let ns = sums.max().unwrap_or(0);
        // The rounds may add up to slightly more messages than requested.
        Ok((u128::from(ns) * u128::from(operations) / u128::from(rounds * MESSAGES as u64)) as u64)
    }

    /// The components are too short to be timed one by one.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_pass_through_each_component() {
        let mut parts = ChannelParts::new().unwrap();
        assert!(!parts.passed());
        for _ in 0..5 {
            let mut seen = Vec::new();
            parts.pass(|component, part| {
                part();
                seen.push(component as usize);
            });
            assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6]);
            assert!(parts.passed());
        }
        parts.part_client_send();
        parts.part_client_receive();
        assert!(!parts.passed(), "nobody has answered");
    }
}
