//! Sleeping on a word of memory, and waking who sleeps there.

use crate::clock::timespec;
use rustix::io::Errno;
use rustix::thread::futex;
use std::ptr;
use std::sync::atomic::AtomicU32;

/// The most words that one sleep may watch (`FUTEX_WAITV_MAX`).
pub const MOST_WORDS: usize = 128;

/// Whose memory a word lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// This process alone looks at it.
    Private,
    /// Another process looks at it too.
    Shared,
}

/// One word of a sleep: the sleep ends when the word is woken, and does not begin unless it holds `expected`.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a> {
    /// The word.
    pub word: &'a AtomicU32,
    /// The value that it must hold for the sleep to begin.
    pub expected: u32,
    /// Whose memory it lies in.
    pub scope: Scope,
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// A wake-up came, or a word had changed already, or a signal: look again.
    Look,
    /// The deadline passed.
    Late,
    /// This kernel or sandbox has no `futex_waitv`.
    Unsupported,
}

/// Sleeps until `word` is woken, has another value than `expected`, or `deadline_ns` passes.
pub fn wait(watched: Watched<'_>, deadline_ns: Option<u64>) -> Woken {
    let timeout = deadline_ns.map(timespec);
    let flags = flags(watched.scope);
    // FUTEX_WAIT_BITSET takes an absolute time, where FUTEX_WAIT takes a span.
    let all = std::num::NonZeroU32::MAX;
    match futex::wait_bitset(watched.word, flags, watched.expected, timeout.as_ref(), all) {
        Err(Errno::TIMEDOUT) => Woken::Late,
        _ => Woken::Look,
    }
}

/// Sleeps until one of `words` is woken, one has another value than expected, or `deadline_ns` passes.
///
/// # Panics
/// If there are more than [`MOST_WORDS`] words.
pub fn wait_any(words: &[Watched<'_>], deadline_ns: Option<u64>) -> Woken {
    /// Most sleeps watch no more, and need not clear the room for all.
    const FEW: usize = 6;
    assert!(words.len() <= MOST_WORDS, "a sleep watches at most {MOST_WORDS} words");
    if words.len() <= FEW {
        wait_among::<FEW>(words, deadline_ns)
    } else {
        wait_among::<MOST_WORDS>(words, deadline_ns)
    }
}

fn wait_among<const ROOM: usize>(words: &[Watched<'_>], deadline_ns: Option<u64>) -> Woken {
    let mut waits = [futex::Wait::new(); ROOM];
    for (wait, watched) in waits.iter_mut().zip(words) {
        wait.val = watched.expected.into();
        wait.uaddr = futex::WaitPtr::new(ptr::from_ref(watched.word).cast_mut().cast());
        wait.flags = match watched.scope {
            Scope::Private => futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE,
            Scope::Shared => futex::WaitFlags::SIZE_U32,
        };
    }
    let timeout = deadline_ns.map(timespec);
    let words = &waits[..words.len()];
    match futex::waitv(words, futex::WaitvFlags::empty(), timeout.as_ref(), futex::ClockId::Monotonic) {
        Err(Errno::TIMEDOUT) => Woken::Late,
        Err(Errno::NOSYS | Errno::PERM) => Woken::Unsupported,
        _ => Woken::Look,
    }
}

/// Wakes at most `count` sleepers of `word`; says how many there were.
pub fn wake(word: &AtomicU32, scope: Scope, count: u32) -> usize {
    futex::wake(word, flags(scope), count).unwrap_or(0)
}

fn flags(scope: Scope) -> futex::Flags {
    match scope {
        Scope::Private => futex::Flags::PRIVATE,
        Scope::Shared => futex::Flags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ns;

    #[test]
    fn a_changed_word_ends_the_sleep_at_once() {
        let word = AtomicU32::new(1);
        let watched = Watched { word: &word, expected: 0, scope: Scope::Private };
        assert_eq!(wait(watched, None), Woken::Look);
        assert_eq!(wait_any(&[watched, watched], None), Woken::Look);
    }

    #[test]
    fn a_deadline_ends_the_sleep() {
        let word = AtomicU32::new(0);
        let watched = Watched { word: &word, expected: 0, scope: Scope::Private };
        assert_eq!(wait(watched, Some(now_ns() + 1_000_000)), Woken::Late);
        assert_eq!(wait_any(&[watched], Some(now_ns() + 1_000_000)), Woken::Late);
    }
}
