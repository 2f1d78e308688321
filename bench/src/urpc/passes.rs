//! Passes calls through both ends of a channel in this process, and marks the boundaries between
//! their components.
//!
//! Client and server are the ends of calls between two processes, and each step runs the functions
//! that calls run. So no cache line has to come from another processor.
//!
//! | pass | what it tells apart |
//! |---|---|
//! | *stub* | one call, with a mark before and after the server's stub |
//! | *batch* | [`MESSAGES`] calls: all are sent, then all are served, then all replies are taken |
//! | *crowd* | [`MESSAGES`] threads, each of which calls and blocks; all of it together |
//! | *lone* | one call whose caller polls for its own reply; all of it together, without marks |
//!
//! A mark reads the clock, or callgrind counts up to it ([`super::count`]). Two marks with nothing
//! between them tell what a mark costs. A crowd has no marks: callgrind loses count of the
//! functions that are active when a thread switches to another stack.

use crate::calls::lone_service;
use crate::{BenchError, Summary};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use underpass::CallError;
use underpass::thread::{self, JoinHandle};
use underpass_os::clock::now_ns;
use underpass_rpc::ends::{Ends, SentCall};

/// The calls of a batch, and the threads of a crowd. A channel takes twice as many.
pub(super) const MESSAGES: usize = 32;

/// The procedure that does nothing.
const NULL: u16 = 0;

/// What lies between two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interval {
    /// Nothing: what a mark costs.
    Nothing,
    /// The server takes the call and checks it.
    ServerReceive,
    /// The server stub and the procedure.
    ServerDispatch,
    /// The server posts the reply.
    ServerSend,
    /// The client leases a slot, writes its linkage record and posts.
    Send,
    /// The server takes, runs and answers a call.
    Serve,
    /// The server looks for a call in vain.
    ServerPoll,
    /// The client takes a reply and delivers it to its linkage record.
    Take,
    /// The caller finds the reply delivered, and returns.
    Return,
    /// The client looks for a reply in vain.
    ClientPoll,
    /// A thread of a crowd calls and blocks, its call is served, its reply wakes it, and it runs.
    Crowd,
}

/// The number of intervals.
const INTERVALS: usize = 11;

/// The intervals between the marks of one pass through a stub and a batch, in their order.
pub(super) const MARKED: [Interval; 10] = [
    Interval::Nothing,
    Interval::ServerReceive,
    Interval::ServerDispatch,
    Interval::ServerSend,
    Interval::Send,
    Interval::Serve,
    Interval::ServerPoll,
    Interval::Take,
    Interval::Return,
    Interval::ClientPoll,
];

impl Interval {
    /// How many messages it is for.
    fn messages(self) -> f64 {
        match self {
            Self::Nothing | Self::ServerReceive | Self::ServerDispatch | Self::ServerSend => 1.0,
            _ => MESSAGES as f64,
        }
    }
}

/// One value for each interval: ns or instructions of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Intervals([f64; INTERVALS]);

impl Intervals {
    /// The value of an interval, for one message.
    pub(super) fn of(&self, interval: Interval) -> f64 {
        self.0[interval as usize]
    }

    /// Sets the value of an interval, in which `measured` was measured for all its messages.
    pub(super) fn set(&mut self, interval: Interval, measured: f64) {
        self.0[interval as usize] = measured / interval.messages();
    }

    /// Reads the intervals off what was measured between the marks of several passes.
    pub(super) fn of_marks(passes: &[[f64; MARKED.len()]]) -> Self {
        let median = |place: usize| Summary::of(passes.iter().map(|pass| pass[place])).median();
        let mark = median(0);
        let mut all = Self::default();
        for (place, &interval) in MARKED.iter().enumerate() {
            all.set(interval, (median(place) - mark).max(0.0));
        }
        all
    }
}

/// Channels for a stub and for a batch.
pub(super) struct Passes {
    stub: Ends,
    batch: Ends,
    sent: Vec<SentCall>,
    mark: fn(),
}

impl Passes {
    pub(super) fn new(mark: fn()) -> Result<Self, BenchError> {
        Ok(Self {
            stub: Ends::new(&lone_service(), Some(mark))?,
            batch: Ends::new(&lone_service(), None)?,
            sent: Vec::with_capacity(MESSAGES),
            mark,
        })
    }

    /// Goes through all marks.
    pub(super) fn pass(&mut self) -> Result<(), BenchError> {
        for _ in 0..=WARM_UP {
            self.pass_stub()?;
        }
        self.pass_batch()
    }

    fn pass_stub(&self) -> Result<(), BenchError> {
        let call = self.stub.send(NULL, &())?;
        (self.mark)();
        (self.mark)();
        // Two more marks, within the server stub.
        let served = self.stub.serve();
        (self.mark)();
        self.stub.receive::<Result<(), CallError>>(call)?;
        if served { Ok(()) } else { Err("the server has found no call".into()) }
    }

    fn pass_batch(&mut self) -> Result<(), BenchError> {
        let Self { batch: ends, sent, mark, .. } = self;
        mark();
        for _ in 0..MESSAGES {
            sent.push(ends.send(NULL, &())?);
        }
        mark();
        let served = (0..MESSAGES).filter(|_| ends.serve()).count();
        mark();
        let vain = (0..MESSAGES).filter(|_| ends.serve()).count();
        mark();
        let taken = ends.poll();
        mark();
        for call in sent.drain(..) {
            ends.receive::<Result<(), CallError>>(call)?;
        }
        mark();
        let late = (0..MESSAGES).filter(|_| ends.poll()).count();
        mark();
        match (served, vain, taken, late) {
            (MESSAGES, 0, true, 0) => Ok(()),
            _ => Err("not all messages have passed".into()),
        }
    }
}

/// The calls with marks in their stub before the one that counts. Else the first mark would be the
/// only one that finds the caches cold.
const WARM_UP: usize = 7;

/// The marks of a call through the stub, and of a batch.
const STUB_MARKS: usize = 5;
const BATCH_MARKS: usize = 7;

/// All marks of a pass.
pub(super) const MARKS: usize = (WARM_UP + 1) * STUB_MARKS + BATCH_MARKS;

/// What was measured up to each mark of a pass, as what lies in each interval. The first mark of
/// a stub or a batch ends no interval.
pub(super) fn between(up_to_marks: &[f64; MARKS]) -> [f64; MARKED.len()] {
    let counting = &up_to_marks[WARM_UP * STUB_MARKS..];
    let (stub, batch) = counting.split_at(STUB_MARKS);
    let mut between = [0.0; MARKED.len()];
    between.iter_mut().zip(stub[1..].iter().chain(&batch[1..])).for_each(|(value, mark)| *value = *mark);
    between
}

/// Makes `calls` lone calls. Returns the ns of all.
pub(super) fn lone_calls(calls: u64) -> Result<u64, BenchError> {
    let ends = Ends::new(&lone_service(), None)?;
    let pass = |calls: u64| {
        for _ in 0..calls {
            let call = ends.send(NULL, &())?;
            if !ends.serve() {
                return Err(BenchError::from("the server has found no call"));
            }
            ends.receive::<Result<(), CallError>>(call)?;
        }
        Ok(())
    };
    pass(calls / 8 + 1)?;
    let start = now_ns();
    pass(calls)?;
    Ok(now_ns() - start)
}

/// Threads that make one call after the other, and block for each reply.
pub(super) struct Crowd {
    ends: Arc<Ends>,
    returned: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Result<(), CallError>>>,
}

// Relaxed throughout: the switches between threads of one activation order it, and elsewhere the
// calls themselves.
impl Crowd {
    /// For a user-level thread.
    pub(super) fn new() -> Result<Self, BenchError> {
        let ends = Arc::new(Ends::new(&lone_service(), None)?);
        let (returned, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let begun = Arc::new(AtomicU64::new(0));
        let caller = |number: u64| {
            let (ends, returned, over) = (Arc::clone(&ends), Arc::clone(&returned), Arc::clone(&over));
            let begins = Arc::clone(&begun);
            let caller = thread::spawn(move || {
                begins.store(number, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    ends.call::<(), Result<(), CallError>>(NULL, &())?;
                    returned.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
            // A thread that has started stays on this activation.
            while begun.load(Ordering::Relaxed) != number {
                thread::yield_now();
            }
            caller
        };
        let callers = (1..=MESSAGES as u64).map(caller).collect();
        Ok(Self { ends, returned, over, callers })
    }

    /// Serves one call of each caller, takes the replies, and lets all callers make the next call.
    pub(super) fn round(&self) {
        let all = self.returned.load(Ordering::Relaxed) + MESSAGES as u64;
        self.serve_all();
        while self.returned.load(Ordering::Relaxed) < all {
            self.ends.poll();
            thread::yield_now();
        }
    }

    fn serve_all(&self) {
        for _ in 0..MESSAGES {
            // At first the callers have not called yet.
            while !self.ends.serve() {
                thread::yield_now();
            }
        }
    }

    /// Ends the callers.
    pub(super) fn end(self) -> Result<(), BenchError> {
        self.over.store(true, Ordering::Relaxed);
        self.serve_all();
        while self.callers.iter().any(|caller| !caller.is_finished()) {
            self.ends.poll();
            thread::yield_now();
        }
        for caller in self.callers {
            caller.join().map_err(|_| "a caller panicked")??;
        }
        Ok(())
    }
}

thread_local! {
    /// The times of the marks, on the kernel thread of the measuring thread.
    static TIMES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The mark that reads the clock.
fn clock_mark() {
    TIMES.with_borrow_mut(|times| times.push(now_ns()));
}

/// What lies between the marks of the last pass, in ns.
fn last_pass() -> Result<[f64; MARKED.len()], BenchError> {
    let times = TIMES.with_borrow_mut(std::mem::take);
    let mut up_to_marks = [0.0; MARKS];
    if times.len() != MARKS {
        return Err(format!("a pass has made {} of {MARKS} marks", times.len()).into());
    }
    let later = up_to_marks.iter_mut().skip(1);
    later.zip(times.windows(2)).for_each(|(value, pair)| *value = (pair[1] - pair[0]) as f64);
    Ok(between(&up_to_marks))
}

/// Measures each interval over `rounds` rounds of [`MESSAGES`] messages, by the clock. Returns the
/// ns of a message.
pub(super) fn timed(rounds: u64) -> Result<Intervals, BenchError> {
    let thread = thread::spawn(move || {
        let (mut passes, crowd) = (Passes::new(clock_mark)?, Crowd::new()?);
        let (mut marked, mut crowded) = (Vec::new(), Vec::new());
        let warm_up = rounds / 8 + 1;
        for round in 0..warm_up + rounds {
            passes.pass()?;
            let between = last_pass()?;
            let start = now_ns();
            crowd.round();
            let ns = now_ns() - start;
            if round >= warm_up {
                marked.push(between);
                crowded.push(ns as f64);
            }
        }
        crowd.end()?;
        let mut all = Intervals::of_marks(&marked);
        all.set(Interval::Crowd, Summary::of(crowded).median());
        Ok(all)
    });
    thread.join().map_err(|_| "the measuring thread panicked")?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_makes_all_its_marks() {
        let thread = thread::spawn(|| {
            let mut passes = Passes::new(clock_mark).unwrap();
            for _ in 0..5 {
                passes.pass().unwrap();
                assert!(last_pass().is_ok());
            }
            assert!(last_pass().is_err(), "there was no pass");
        });
        thread.join().unwrap();
        assert!(lone_calls(3).unwrap() > 0);
    }

    #[test]
    fn each_caller_of_a_crowd_returns_in_each_round() {
        let thread = thread::spawn(|| {
            let crowd = Crowd::new().unwrap();
            for round in 1..=5 {
                crowd.round();
                assert!(crowd.returned.load(Ordering::Relaxed) >= round * MESSAGES as u64);
            }
            crowd.end().unwrap();
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_mark_costs_nothing_in_the_result() {
        let n = MESSAGES as f64;
        // Up to each mark: the first ends nothing, and neither does the one that begins the batch.
        let counting =
            [9e9, 5.0, 15.0, 25.0, 35.0, 9e9, 5.0 + n, 5.0 + 2.0 * n, 5.0, 4.0, 5.0 + 3.0 * n, 5.0];
        let mut marks = [1e6; MARKS];
        marks[MARKS - counting.len()..].copy_from_slice(&counting);
        let all = Intervals::of_marks(&[between(&marks); 3]);
        let server = [Interval::ServerReceive, Interval::ServerDispatch, Interval::ServerSend];
        assert_eq!(server.map(|interval| all.of(interval)), [10.0, 20.0, 30.0]);
        let batch = [Interval::Send, Interval::Serve, Interval::ServerPoll, Interval::Take, Interval::Return];
        assert_eq!(batch.map(|interval| all.of(interval)), [1.0, 2.0, 0.0, 0.0, 3.0]);
    }
}
