//! Guards of `std`'s locks that a suspended thread holds, found where they do harm: another thread
//! of the same activation waits for the lock in the kernel. With it waits the whole activation, the
//! holder included.
//!
//! A lock of `std` does not name its holder. But a guard points to its lock, and lies on the stack
//! of its holder. So the stacks of the activation's suspended threads are searched for such a word.
//! They are read through the kernel ([`Peek`]), because they may change or go away meanwhile. The
//! result is a strong hint, not a proof.

use crate::block::control::Control;
use crate::block::registry;
use crate::block::thread_id::ThreadId;
use crate::diagnose::show::ThreadLabel;
use crate::sched::activations::{self, Outside};
use std::fmt;
use underpass_context::{Context, Stack};
use underpass_os::Peek;

/// A guard may point up to this many bytes below the word on which the kernel sleeps.
const NEAR: usize = 64;
/// A word that points at most this many bytes below it is almost certainly a guard.
const EXACT: usize = 8;
/// The most bytes of one stack that are searched.
const MOST: usize = 1 << 20;
/// Bytes that are read at a time.
const CHUNK: usize = 4096;

/// Threads that are held up because a suspended thread holds a lock of `std`. See
/// [`Dump`](crate::Dump).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldUp {
    /// The activation, on which no thread can run.
    pub activation: usize,
    /// The thread that waits for the lock, and blocks the activation.
    pub waiter: ThreadId,
    /// Its name, if it has one.
    pub waiter_name: Option<Box<str>>,
    /// Where the lock is.
    pub lock: usize,
    /// The suspended threads that seem to hold it, with their names.
    pub holders: Vec<(ThreadId, Option<Box<str>>)>,
}

impl fmt::Display for HeldUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiter = ThreadLabel { id: self.waiter, name: self.waiter_name.as_deref() };
        let (activation, lock) = (self.activation, self.lock);
        write!(
            f,
            "thread {waiter} blocks activation {activation}: it waits in the kernel for a lock at {lock:#x}, which "
        )?;
        for (place, (id, name)) in self.holders.iter().enumerate() {
            let and = if place == 0 { "" } else { " or " };
            write!(f, "{and}thread {}", ThreadLabel { id: *id, name: name.as_deref() })?;
        }
        f.write_str(
            " of the same activation seems to hold while it is suspended. Drop the guard before what suspends the thread, or use \
             `underpass::sync::Mutex`, which blocks the thread alone",
        )
    }
}

/// A suspended thread whose stack has a word that may be the guard.
struct Suspect {
    control: &'static Control,
    /// How many bytes below the word that the kernel waits on the nearest such word points.
    below: usize,
}

/// Checks whether an activation is blocked in this way. Called on another kernel thread than the
/// activation's.
pub(crate) fn look(outside: &'static Outside) -> Option<HeldUp> {
    if !Context::TRACES {
        // It isn't known where a stack was left.
        return None;
    }
    let tid = outside.activation.thread()?;
    let waiter = outside.current.get()?;
    let lock = tid.sleeps_on()?;
    let peek = Peek::new().ok()?;
    let (home, id) = (outside.activation.number(), waiter.id());
    let others =
        registry::all().filter(|control| control.home() == Some(home) && !std::ptr::eq(*control, waiter));
    let suspects: Vec<_> = others.filter_map(|control| search(&peek, control, lock)).collect();
    let still = tid.sleeps_on() == Some(lock)
        && outside.current.get().is_some_and(|now| std::ptr::eq(now, waiter) && now.id() == id);
    let nearest = suspects.iter().map(|suspect| suspect.below.max(EXACT)).min().filter(|_| still)?;
    let holders = suspects.iter().filter(|suspect| suspect.below <= nearest);
    Some(HeldUp {
        activation: home,
        waiter: ThreadId(id),
        waiter_name: waiter.try_name(),
        lock,
        holders: holders
            .map(|suspect| (ThreadId(suspect.control.id()), suspect.control.try_name()))
            .collect(),
    })
}

/// Checks all activations of these numbers.
pub(crate) fn look_at(activations: &[usize]) -> Vec<HeldUp> {
    activations.iter().filter_map(|&number| look(activations::if_begun(number)?)).collect()
}

/// Searches the stack of a thread that is suspended, or was a moment ago.
fn search(peek: &Peek, control: &'static Control, lock: usize) -> Option<Suspect> {
    let context = peek.word(control.place_of_context()).filter(|&context| context != 0)?;
    let begin = peek.word(context + Context::SAVED)?;
    let (low, len) = Stack::PARTS;
    let end =
        peek.word(context + Context::STACK + low)?.checked_add(peek.word(context + Context::STACK + len)?)?;
    let below = nearest(peek, begin, end.min(begin.saturating_add(MOST)), lock)?;
    Some(Suspect { control, below })
}

/// The smallest distance below `lock` to which a word between `begin` and `end` points.
fn nearest(peek: &Peek, begin: usize, end: usize, lock: usize) -> Option<usize> {
    let mut chunk = [0; CHUNK];
    let mut best = None;
    for from in (begin..end).step_by(CHUNK) {
        let size = CHUNK.min(end - from);
        let read = peek.read(from, &mut chunk[..size]);
        let words = chunk[..read].chunks_exact(size_of::<usize>());
        let words = words.map(|word| usize::from_ne_bytes(word.try_into().expect("it is a word")));
        let below = words.filter_map(|word| lock.checked_sub(word)).filter(|below| *below < NEAR).min();
        best = best.into_iter().chain(below).min();
    }
    best
}
