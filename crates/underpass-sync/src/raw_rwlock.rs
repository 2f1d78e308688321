//! The lock of an [`RwLock`](crate::RwLock), without its value.

use crate::holder;
use crate::queue_wait::QueueWait;
use crate::runtime::{Control, WaitLimit, Woken, const_fn, me, wake};
use crate::wait_queue::{ListEnd, QueueGuard, Verdict, WaitQueue};
use underpass_seam::atomic::{AtomicUsize, Ordering};

/// In `word`: a writer holds the lock.
const WRITER: usize = 1;
/// In `word`: there are waiters, so no thread gets in past the lists.
const WAITED: usize = 2;
/// In `word`: one reader.
const READER: usize = 4;

/// The numbers of the lists of waiters.
const READERS: usize = 0;
const WRITERS: usize = 1;

/// How many threads are woken in each visit to the queue.
const BATCH: usize = 16;

type Waiters = WaitQueue<Phase, (), 2>;

/// A lock for many readers or one writer. It passes from phase to phase: the thread that releases
/// it takes it for the waiters of the next phase.
///
/// | field | written by |
/// |---|---|
/// | `word` | any thread; while `WAITED` is set: its holders to release it, and the thread inside `waiters` |
/// | `writer` | the writer |
/// | `waiters` | see there |
pub(crate) struct RawRwLock {
    word: AtomicUsize,
    writer: AtomicUsize,
    waiters: Waiters,
}

/// Readers with a lower ticket get in before the next writer: they waited when the last writer
/// left.
struct Phase {
    readers_before: u64,
}

impl RawRwLock {
    const_fn! {
        pub(crate) fn new() -> RawRwLock {
            let waiters = WaitQueue::new(Phase { readers_before: 0 });
            RawRwLock { word: AtomicUsize::new(0), writer: AtomicUsize::new(0), waiters }
        }
    }

    #[inline]
    pub(crate) fn acquire(&self, limit: WaitLimit) -> bool {
        // SYNC with `word` in `release`, `release_shared` and `admit`: what the last holders did.
        let acquired = self.word.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok()
            || (limit != WaitLimit::None && self.wait(WRITERS, limit));
        if acquired {
            // Relaxed: it is for people, and for guesses that are checked.
            self.writer.store(holder::mark(), Ordering::Relaxed);
        }
        acquired
    }

    #[inline]
    pub(crate) fn release(&self) {
        // Relaxed: as in `acquire`.
        self.writer.store(0, Ordering::Relaxed);
        // SYNC with `word` in `acquire`, `enter` and `admit`: what we did.
        if self.word.compare_exchange(WRITER, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.end_writing(0);
        }
    }

    #[inline]
    pub(crate) fn acquire_shared(&self, limit: WaitLimit) -> bool {
        self.enter() || (limit != WaitLimit::None && self.wait(READERS, limit))
    }

    #[inline]
    pub(crate) fn release_shared(&self) {
        // SYNC with `word` in `acquire` and `admit`: our reads are over.
        if self.word.fetch_sub(READER, Ordering::Release) == READER | WAITED {
            let held = self.waiters.lock();
            self.admit(held);
        }
    }

    /// A writer becomes a reader.
    pub(crate) fn downgrade(&self) {
        self.writer.store(0, Ordering::Relaxed);
        // SYNC with `word` in `enter` and `admit`: what we did.
        if self.word.compare_exchange(WRITER, READER, Ordering::Release, Ordering::Relaxed).is_err() {
            self.end_writing(READER);
        }
    }

    /// The number of the thread that writes, if there is one and it can be told.
    pub(crate) fn holder(&self) -> Option<u64> {
        holder::number(self.writer.load(Ordering::Relaxed))
    }

    /// Takes the lock as a reader, if no writer holds it and no thread waits.
    #[inline]
    fn enter(&self) -> bool {
        // Relaxed: a guess.
        let mut word = self.word.load(Ordering::Relaxed);
        while word & (WRITER | WAITED) == 0 {
            // SYNC with `word` in `release` and `downgrade`: what the last writer did.
            match self.word.compare_exchange(word, word + READER, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    #[cold]
    fn wait(&self, list: usize, limit: WaitLimit) -> bool {
        let me = me();
        let held = self.waiters.lock();
        if !self.announce(list) {
            return true;
        }
        let kind = if list == READERS { "a lock to read" } else { "a lock to write" };
        let (woken, ()) = held.enlist(me, list, ListEnd::Back, (), |entry| {
            let holder = || self.holder();
            QueueWait::new(entry, kind, self, &holder).suspend(me, limit, false)
        });
        if woken != Woken::Woken {
            // Waiters behind us may be next now.
            let held = self.waiters.lock();
            self.admit(held);
        }
        woken == Woken::Woken
    }

    /// Inside the queue: takes the lock and returns `false`; or makes sure that the thread that
    /// releases it looks for waiters, and returns `true`.
    fn announce(&self, list: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let (free, taken) = match list {
                READERS => (word & (WRITER | WAITED) == 0, word + READER),
                _ => (word == 0, WRITER),
            };
            if word & WAITED != 0 {
                return true;
            }
            let next = if free { taken } else { word | WAITED };
            // SYNC with `word` in `release`, `release_shared` and `downgrade`: what the last
            // holders did.
            match self.word.compare_exchange(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return !free,
                Err(found) => word = found,
            }
        }
    }

    /// A writer leaves, or goes on as the reader in `readers`, while others wait. The readers among
    /// them come before the next writer.
    #[cold]
    fn end_writing(&self, readers: usize) {
        let mut held = self.waiters.lock();
        held.readers_before = held.next_ticket();
        // SYNC with `word` in `admit`: what we did. No other thread changes it: `WRITER` keeps out
        // all but those inside the queue.
        self.word.fetch_add(readers.wrapping_sub(WRITER), Ordering::Release);
        self.admit(held);
    }

    /// Lets in the waiters that are next, and wakes them.
    fn admit<'a>(&'a self, mut held: QueueGuard<'a, Phase, (), 2>) {
        loop {
            let mut some = [None; BATCH];
            for one in &mut some {
                *one = self.admit_one(&mut held);
            }
            self.settle(&mut held);
            drop(held);
            some.into_iter().flatten().for_each(wake);
            if some[BATCH - 1].is_none() {
                return;
            }
            held = self.waiters.lock();
        }
    }

    /// Takes the lock for one waiter, if there is one that may have it.
    fn admit_one(&self, held: &mut QueueGuard<'_, Phase, (), 2>) -> Option<&'static Control> {
        // Relaxed: while there are waiters, and inside the queue, only leaving readers change it.
        // The last of them comes here.
        let word = self.word.load(Ordering::Relaxed);
        if word & WRITER != 0 {
            return None;
        }
        let before = if held.is_empty(WRITERS) { u64::MAX } else { held.readers_before };
        let reader = held.take(READERS, |_, ticket, ()| match ticket < before {
            true => Verdict::Take(()),
            false => Verdict::Stop,
        });
        if let Some((who, ())) = reader {
            // SYNC with `word` in `end_writing`: what the last writer did, for `who`.
            self.word.fetch_add(READER, Ordering::Acquire);
            return Some(who);
        }
        if word & !WAITED != 0 {
            return None;
        }
        let writer = held.pop(WRITERS)?;
        // SYNC with `word` in `end_writing` and `release_shared`: what the last holders did, for
        // `writer`.
        self.word.fetch_or(WRITER, Ordering::Acquire);
        Some(writer)
    }

    /// Allows threads in past the lists again, if these are empty.
    fn settle(&self, held: &mut QueueGuard<'_, Phase, (), 2>) {
        if held.is_empty(READERS) && held.is_empty(WRITERS) {
            // Relaxed: it makes nothing visible.
            self.word.fetch_and(!WAITED, Ordering::Relaxed);
        }
    }
}
