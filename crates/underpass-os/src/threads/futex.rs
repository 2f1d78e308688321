//! Sleeping on a word of memory, and waking the sleepers of that word.

use crate::clock::timespec;
use rustix::io::Errno;
use rustix::thread::futex;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::AtomicU32;

/// The most words that one sleep may watch (`FUTEX_WAITV_MAX`).
pub const MOST_WORDS: usize = 128;

/// Which processes use a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexScope {
    /// Only this process uses it.
    Private,
    /// Another process uses it too.
    Shared,
}

/// One word of a sleep. The sleep ends when the word is woken. It does not begin unless the word
/// holds `expected`.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a> {
    /// The word.
    pub word: &'a AtomicU32,
    /// The value that it must hold for the sleep to begin.
    pub expected: u32,
    /// Which processes use it.
    pub scope: FutexScope,
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepEnd {
    /// A wake-up or a signal came, or a word had changed already. Check the condition again.
    Look,
    /// The deadline passed.
    Late,
    /// This kernel or sandbox has no `futex_waitv`.
    Unsupported,
}

/// Sleeps until `word` is woken, has another value than `expected`, or `deadline_ns` passes.
pub fn wait(watched: Watched<'_>, deadline_ns: Option<u64>) -> SleepEnd {
    let timeout = deadline_ns.map(timespec);
    let flags = flags(watched.scope);
    // FUTEX_WAIT_BITSET takes an absolute time, FUTEX_WAIT a relative one.
    let all = std::num::NonZeroU32::MAX;
    match futex::wait_bitset(watched.word, flags, watched.expected, timeout.as_ref(), all) {
        Err(Errno::TIMEDOUT) => SleepEnd::Late,
        _ => SleepEnd::Look,
    }
}

/// Most sleeps watch at most this many words. Those need no memory but the sleeper's stack.
const FEW: usize = 6;

/// The words of a sleep that ends when one of them is woken.
#[derive(Debug)]
pub struct Watch<'a> {
    few: [futex::Wait; FEW],
    /// All words, if they are more than a few.
    many: Vec<futex::Wait>,
    len: usize,
    words: PhantomData<&'a AtomicU32>,
}

impl<'a> Watch<'a> {
    /// A sleep on one word; more can be added.
    #[inline]
    pub fn of(first: Watched<'a>) -> Self {
        let few = [futex::Wait::new(); FEW];
        let mut watch = Self { few, many: Vec::new(), len: 0, words: PhantomData };
        watch.push(first);
        watch
    }

    /// As [`of`](Self::of), with room for [`MOST_WORDS`], so that no word that is added later takes
    /// memory.
    pub fn with_room(first: Watched<'a>) -> Self {
        let mut watch = Self::of(first);
        watch.many.reserve(MOST_WORDS);
        watch
    }

    /// A sleep on one word instead of those before; more can be added. The room for many stays.
    pub fn begin_again(&mut self, first: Watched<'a>) {
        self.many.clear();
        self.len = 0;
        self.push(first);
    }

    /// Adds a word.
    ///
    /// # Panics
    /// If it [`is_full`](Self::is_full).
    #[inline]
    pub fn push(&mut self, watched: Watched<'a>) {
        let mut wait = futex::Wait::new();
        wait.val = watched.expected.into();
        wait.uaddr = futex::WaitPtr::new(ptr::from_ref(watched.word).cast_mut().cast());
        wait.flags = match watched.scope {
            FutexScope::Private => futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE,
            FutexScope::Shared => futex::WaitFlags::SIZE_U32,
        };
        match self.few.get_mut(self.len) {
            Some(place) => *place = wait,
            None => self.push_to_many(wait),
        }
        self.len += 1;
    }

    #[cold]
    fn push_to_many(&mut self, wait: futex::Wait) {
        assert!(!self.is_full(), "a sleep watches at most {MOST_WORDS} words");
        if self.many.is_empty() {
            self.many.reserve(MOST_WORDS);
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(wait);
    }

    /// The number of words.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "there is one at least")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are [`MOST_WORDS`].
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == MOST_WORDS
    }

    /// Sleeps until one of the words is woken or has another value than expected, or `deadline_ns`
    /// passes.
    pub fn wait(&self, deadline_ns: Option<u64>) -> SleepEnd {
        let timeout = deadline_ns.map(timespec);
        let words = self.few.get(..self.len).unwrap_or(&self.many);
        match futex::waitv(words, futex::WaitvFlags::empty(), timeout.as_ref(), futex::ClockId::Monotonic) {
            Err(Errno::TIMEDOUT) => SleepEnd::Late,
            Err(Errno::NOSYS | Errno::PERM) => SleepEnd::Unsupported,
            _ => SleepEnd::Look,
        }
    }
}

/// Whether a sleep can watch several words here. Linux has that since 5.16, and a seccomp profile
/// may refuse it.
///
/// # Examples
/// ```
/// println!("several words: {}", underpass_os::futex::can_watch_several());
/// ```
pub fn can_watch_several() -> bool {
    let word = AtomicU32::new(1);
    // The word has another value than expected, so this does not sleep.
    let watched = Watched { word: &word, expected: 0, scope: FutexScope::Private };
    let mut watch = Watch::of(watched);
    watch.push(watched);
    watch.wait(None) != SleepEnd::Unsupported
}

/// Wakes at most `count` sleepers of `word`. Returns how many it woke.
pub fn wake(word: &AtomicU32, scope: FutexScope, count: u32) -> usize {
    futex::wake(word, flags(scope), count).unwrap_or(0)
}

fn flags(scope: FutexScope) -> futex::Flags {
    match scope {
        FutexScope::Private => futex::Flags::PRIVATE,
        FutexScope::Shared => futex::Flags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ns;

    #[test]
    fn a_changed_word_ends_the_sleep_at_once() {
        let word = AtomicU32::new(1);
        let watched = Watched { word: &word, expected: 0, scope: FutexScope::Private };
        assert_eq!(wait(watched, None), SleepEnd::Look);
        let mut watch = Watch::of(watched);
        watch.push(watched);
        assert_eq!(watch.wait(None), SleepEnd::Look);
    }

    #[test]
    fn a_deadline_ends_the_sleep() {
        let word = AtomicU32::new(0);
        let watched = Watched { word: &word, expected: 0, scope: FutexScope::Private };
        assert_eq!(wait(watched, Some(now_ns() + 1_000_000)), SleepEnd::Late);
        assert_eq!(Watch::of(watched).wait(Some(now_ns() + 1_000_000)), SleepEnd::Late);
    }

    #[test]
    fn the_last_of_so_many_words_ends_the_sleep_as_the_first() {
        let word = AtomicU32::new(1);
        let watched = |expected| Watched { word: &word, expected, scope: FutexScope::Private };
        let mut again = Watch::with_room(watched(1));
        for len in [2, FEW, FEW + 1, MOST_WORDS] {
            again.begin_again(watched(1));
            (2..len).for_each(|_| again.push(watched(1)));
            assert_eq!(again.wait(Some(now_ns() + 1_000_000)), SleepEnd::Late, "{len}");
            again.push(watched(0));
            assert_eq!((again.len(), again.wait(None)), (len, SleepEnd::Look));
            let mut watch = Watch::of(watched(1));
            (2..len).for_each(|_| watch.push(watched(1)));
            assert_eq!(watch.wait(Some(now_ns() + 1_000_000)), SleepEnd::Late, "{len}");
            watch.push(watched(0));
            assert_eq!((watch.len(), watch.wait(None)), (len, SleepEnd::Look));
        }
    }
}
