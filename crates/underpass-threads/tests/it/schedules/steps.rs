//! Steps that start no program of their own: a thread does them by itself, or with another thread
//! that it starts for that.

use super::perform::{Stage, builder, perturb, start};
use super::program::{Dice, Kind, Step, Waiting, mix};
use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use underpass_sync::{Condvar, Mutex, Semaphore, mpmc};
use underpass_threads::{
    Thread, blocking, cancelled, checkpoint, current, no_preempt, park, park_timeout, sleep, spawn, yield_now,
};

/// So long that a test that waits for its end hangs.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// A step that starts no program.
pub fn alone(step: &Step, sum: u64, stage: &Stage, dice: &mut Dice, sides: u64) -> u64 {
    match step {
        Step::Add(value) => return mix(sum, *value),
        Step::Yield => yield_now(),
        Step::Checkpoint => checkpoint(),
        Step::Sleep { micros } => sleep(Duration::from_micros(*micros)),
        Step::Block { value, micros } => {
            let result = blocking(|| {
                std::thread::sleep(Duration::from_micros(*micros));
                *value
            });
            return mix(sum, result);
        }
        Step::Unpreempted { yields } => {
            let _held = no_preempt();
            for _ in 0..*yields {
                let _twice = no_preempt();
                yield_now();
            }
        }
        Step::Catch { value } => {
            let caught = catch_unwind(|| {
                let _slow = GivesWay;
                resume_unwind(Box::new(*value));
            });
            let value = caught.map_or_else(|panic| *panic.downcast::<u64>().unwrap(), |()| 0);
            return mix(sum, value);
        }
        Step::Handshake { rounds, timed, kind } => {
            return mix(sum, handshake(*rounds, *timed, *kind, dice, sides));
        }
        Step::Cancel { waiting, kind, after } => {
            return mix(sum, cancel(*waiting, *kind, *after, dice, sides));
        }
        Step::Lock { rounds } => lock(*rounds, stage, dice, sides),
        Step::Receive { messages, capacity, kind } => {
            return mix(sum, receive(*messages, *capacity, *kind, dice, sides));
        }
        Step::Late { micros } => late(Duration::from_micros(*micros)),
        Step::Start { .. } | Step::Scope { .. } => unreachable!("these start programs"),
    }
    sum
}

/// Yields when it is dropped.
struct GivesWay;

impl Drop for GivesWay {
    fn drop(&mut self) {
        yield_now();
        sleep(Duration::from_micros(1));
    }
}

/// Two threads run alternately, each parked until the other unparks it. Returns how often they
/// alternated.
fn handshake(rounds: u64, timed: bool, kind: Kind, dice: &mut Dice, sides: u64) -> u64 {
    let turn = Arc::new(AtomicU64::new(0));
    let wait_for = move |turn: &AtomicU64, mine: u64| {
        while turn.load(Ordering::Acquire) < mine {
            if timed { park_timeout(Duration::from_micros(30)) } else { park() }
        }
    };
    let take_turn = |turn: &AtomicU64, mine: u64, other: &Thread| {
        turn.store(mine + 1, Ordering::Release);
        other.unpark();
    };
    let (me, theirs) = (current(), turn.clone());
    let itself = Arc::new(OnceLock::new());
    let told = itself.clone();
    let other = start(kind, move || {
        told.set(current()).expect("told once");
        me.unpark();
        for round in 0..rounds {
            wait_for(&theirs, 2 * round + 1);
            take_turn(&theirs, 2 * round + 1, &me);
        }
        theirs.load(Ordering::Relaxed) / 2
    });
    let thread = loop {
        match itself.get() {
            Some(thread) => break thread,
            None => park(),
        }
    };
    for round in 0..rounds {
        perturb(dice, sides);
        take_turn(&turn, 2 * round, thread);
        wait_for(&turn, 2 * round + 2);
    }
    other.join()
}

/// Cancels a thread that waits, before it runs or after it has run for a while. Returns `after`.
fn cancel(waiting: Waiting, kind: Kind, after: u64, dice: &mut Dice, sides: u64) -> u64 {
    let kind = if kind == Kind::Kernel { Kind::Plain } else { kind };
    let thread = builder(kind).spawn(move || {
        let mut turns = 0u64;
        while !cancelled() {
            turns += 1;
            match waiting {
                Waiting::Parked => park(),
                Waiting::ParkedForLong => park_timeout(LONG),
                Waiting::Asleep => sleep(LONG),
                Waiting::Yielding if turns.is_multiple_of(3) => sleep(Duration::from_micros(turns % 7)),
                Waiting::Yielding => yield_now(),
            }
        }
        // It may go on, and do waits that can't be cancelled.
        spawn(yield_now).join().unwrap();
        after
    });
    let thread = thread.expect("what it asks for can be had");
    let other = thread.thread().clone();
    for _ in 0..after {
        perturb(dice, sides);
        other.unpark();
    }
    thread.cancel();
    perturb(dice, sides);
    // Twice has the effect of once.
    other.cancel();
    thread.join().unwrap()
}

fn lock(rounds: u64, stage: &Stage, dice: &mut Dice, sides: u64) {
    for _ in 0..rounds {
        let mut count = stage.lock.lock().unwrap();
        let before = *count;
        // A thread that waits for the lock meanwhile waits in the kernel, or lets others run.
        perturb(dice, sides);
        *count = before + 1;
    }
}

/// Another thread sends. Returns the sum of the messages.
fn receive(messages: u64, capacity: usize, kind: Kind, dice: &mut Dice, sides: u64) -> u64 {
    let (sender, receiver) = mpmc::bounded(capacity);
    let mut theirs = dice.clone();
    let other = start(kind, move || {
        for message in 1..=messages {
            perturb(&mut theirs, sides);
            sender.send(message).expect("it is received");
        }
        0
    });
    let mut sum = 0;
    // Until the sender is gone.
    while let Ok(message) = receiver.recv() {
        sum += message;
        perturb(dice, sides);
    }
    sum + other.join()
}

/// Waits for something that doesn't come.
fn late(span: Duration) {
    let (_sender, receiver) = mpmc::unbounded::<u8>();
    assert_eq!(receiver.recv_timeout(span), Err(mpmc::RecvTimeoutError::Timeout));
    assert!(Semaphore::new(0).acquire_timeout(span).is_err());
    let mutex = Mutex::new(());
    let guard = mutex.lock().unwrap();
    assert!(Condvar::new().wait_timeout(guard, span).unwrap().1.timed_out());
    park_timeout(span);
}
