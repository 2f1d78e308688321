//! Reading the stacks of an unresponsive activation: a signal makes its own kernel thread do that.
//!
//! The handler may interrupt a holder of any lock. So it takes neither locks nor memory, and runs
//! on the kernel thread's stack for faults. The only other code that runs there is the system's
//! unwinder, which takes none either (since glibc 2.35). Where the unwinder itself was interrupted,
//! the trace ends.

use crate::diagnose::report;
use crate::sched::activations::Outside;
use crate::sched::self_report::FRAMES;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use underpass_os::clock::{deadline_ns, now_ns};
use underpass_os::futex::{self, FutexScope, Watched};
use underpass_os::signal;
use underpass_processor::preempt;

/// Which of the real-time signals is sent.
const SIGNAL: i32 = 8;
/// How long the kernel may take to deliver it, and the handler to answer.
const PATIENCE: Duration = Duration::from_millis(200);

/// The answer of one activation: for each thread its number, the number of frames that follow, and
/// these. Pages are touched only as far as they are used.
static WORDS: [AtomicUsize; 1 << 16] = [const { AtomicUsize::new(0) }; 1 << 16];
/// How many of `WORDS` are written.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// The bounds of the unwinder's code.
static UNWINDER: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// The state of the query. A value of [`ASKED`] or more asks the activation with the number that is
/// [`ASKED`] less.
static STATE: AtomicU32 = AtomicU32::new(IDLE);
const IDLE: u32 = 0;
/// The handler is answering.
const TAKEN: u32 = 1;
const DONE: u32 = 2;
const ASKED: u32 = 3;

/// The frames of the activation's threads, by their numbers. What isn't known is left out. Not to
/// be called on that activation.
pub(crate) fn look(outside: &Outside) -> HashMap<u64, Box<[usize]>> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    ask(outside).then(read).unwrap_or_default()
}

/// Sends the signal. Returns whether the handler has written everything down.
fn ask(outside: &Outside) -> bool {
    let number = signal::realtime(SIGNAL);
    // Read anew each time: only other code could promise that the library is never loaded again.
    let Some(unwinder) = underpass_os::mapping(underpass_context::unwinder()) else { return false };
    // Relaxed: `STATE` synchronizes.
    UNWINDER[0].store(unwinder.start, Ordering::Relaxed);
    UNWINDER[1].store(unwinder.end, Ordering::Relaxed);
    if signal::install_aside(number, handle_signal).is_err() {
        return false;
    }
    let asked = ASKED + outside.activation.number() as u32;
    // Discards an answer that came too late. SYNC, here and below, with `STATE` in `handle_signal`:
    // its words are written, and ours aren't yet.
    let _ = STATE.compare_exchange(DONE, IDLE, Ordering::AcqRel, Ordering::Acquire);
    if STATE.compare_exchange(IDLE, asked, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return false;
    }
    if outside.activation.thread().is_some_and(|thread| thread.signal(number).is_ok()) {
        let deadline = deadline_ns(PATIENCE);
        while now_ns() < deadline {
            // SYNC with `STATE` store in `handle_signal`: the words.
            let state = STATE.load(Ordering::Acquire);
            if state == DONE {
                return true;
            }
            futex::wait(
                Watched { word: &STATE, expected: state, scope: FutexScope::Private },
                Some(deadline),
            );
        }
    }
    // The handler has not run, or runs right now. In that case its answer is lost, and nobody else
    // can be asked before it has finished.
    let _ = STATE.compare_exchange(asked, IDLE, Ordering::AcqRel, Ordering::Acquire);
    false
}

fn read() -> HashMap<u64, Box<[usize]>> {
    // Relaxed, all: `STATE` synchronizes.
    let mut words = WORDS[..WRITTEN.load(Ordering::Relaxed)].iter().map(|word| word.load(Ordering::Relaxed));
    let mut found = HashMap::new();
    while let (Some(id), Some(count)) = (words.next(), words.next()) {
        found.insert(id as u64, words.by_ref().take(count).collect());
    }
    // SYNC with `STATE` in `handle_signal`, of the next answer: these have been read.
    STATE.store(IDLE, Ordering::Release);
    found
}

/// The signal handler, on the kernel thread of the activation that is asked.
fn handle_signal(instruction: usize) {
    // In the scheduler, stacks are not as the unwinder expects them.
    let holds = preempt::disabled();
    // The signal that ends a time slice waits until we are through.
    preempt::disable();
    if let Some(own) = crate::sched::scheduler::with(|own| own) {
        let asked = ASKED + own.number() as u32;
        // SYNC with `STATE` in `ask`.
        if STATE.compare_exchange(asked, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            let mut written = 0;
            let mut write = |id: u64, frames: &[usize]| {
                let room = &WORDS[written..];
                if room.len() < frames.len() + 2 {
                    return;
                }
                let words = [id as usize, frames.len()].into_iter().chain(frames.iter().copied());
                room.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
                written += frames.len() + 2;
            };
            let mut frames = [0; FRAMES];
            if !holds {
                let unwinder = UNWINDER[0].load(Ordering::Relaxed)..UNWINDER[1].load(Ordering::Relaxed);
                report::interrupted(own, instruction, unwinder, &mut frames, &mut write);
            }
            WRITTEN.store(written, Ordering::Relaxed);
            // SYNC with `STATE` load in `ask`: the words.
            STATE.store(DONE, Ordering::Release);
            futex::wake(&STATE, FutexScope::Private, 1);
        }
    }
    preempt::enable();
}
