//! How a domain tells another that a thread of its is to look again: a *bell*, which a kernel
//! thread of that domain listens to.
//!
//! | word | written by |
//! |---|---|
//! | `SIGNAL` of a record | whoever has taken that waiter out: the name that it had |
//! | `BELL` of a page | ringers set a bit for a waiter; the listener takes all of them |
//! | `ASLEEP` of a page | the listener, before and after it sleeps; a ringer clears it, and then wakes the listener; a thread that polls clears it first, and sets it at the end |

use crate::domain::{LocalDomain, WakeForeign};
use crate::layout::{self, ASLEEP, BELL, WAITERS};
use crate::runtime::write_then_read;
use crate::thread_name::ThreadName;
use crate::words::RegionWords;
use underpass_os::failpoint;
use underpass_seam::atomic::Ordering;

/// Wakes by the bells of a region.
pub(crate) struct RegionBell;

impl WakeForeign for RegionBell {
    /// B1 to B3.
    fn wake(&self, words: &RegionWords, name: ThreadName) {
        if !name.is_possible() {
            return;
        }
        let page = layout::page(name.domain);
        // Relaxed: SYNC is that of the bit below.
        let record = layout::record(name.domain, name.index);
        words.word(record + layout::SIGNAL).store(name.word(), Ordering::Relaxed);
        // B2: SYNC with the swap in `hear`: the signal, and that the waiter was taken out.
        words.word(page + BELL).fetch_or(1 << name.index, Ordering::SeqCst);
        write_then_read();
        failpoint!("shared-signalled");
        let asleep = words.half(page + ASLEEP);
        // B3: SYNC with the store in `doze`: this sees it, or the listener sees the bit.
        if asleep.load(Ordering::SeqCst) != 0 && asleep.swap(0, Ordering::SeqCst) != 0 {
            rouse(asleep);
        }
    }
}

/// A thread polls the bell in the listener's place, until this is dropped.
pub(crate) struct BellPolling<'a>(&'a LocalDomain);

impl Drop for BellPolling<'_> {
    fn drop(&mut self) {
        self.0.end_polling();
    }
}

impl LocalDomain {
    /// L1: delivers what was signalled. Returns whether there was anything.
    pub(crate) fn hear(&self) -> bool {
        // SYNC with the fetch_or in `wake`.
        let mut bits = self.words.word(layout::page(self.me.index) + BELL).swap(0, Ordering::SeqCst);
        let any = bits != 0;
        while bits != 0 {
            let index = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if index >= WAITERS {
                break;
            }
            let record = layout::record(self.me.index, index);
            // Relaxed: SYNC is that of the bit. It may be any name.
            let word = self.words.word(record + layout::SIGNAL).load(Ordering::Relaxed);
            let (generation, key) = ((word >> 32) as u32, word as u32);
            self.deliver(ThreadName { domain: self.me.index, index, generation, key });
        }
        any
    }

    /// V1: a thread of this domain polls the bell, until the result is dropped. Those that ring
    /// leave the listener alone.
    pub(crate) fn begin_polling(&self) -> BellPolling<'_> {
        // In a region that has ended for this domain, another one may have its page.
        if !self.deaths.are_over() {
            // SYNC with the load in `wake`.
            self.words.half(layout::page(self.me.index) + ASLEEP).store(0, Ordering::SeqCst);
        }
        BellPolling(self)
    }

    /// V2: looks at the bell.
    pub(crate) fn poll(&self) {
        // Relaxed: `hear` takes the bits.
        let bell = self.words.word(layout::page(self.me.index) + BELL).load(Ordering::Relaxed);
        if bell != 0 && !self.deaths.are_over() {
            self.hear();
        }
    }

    /// V3 and V4: the listener hears what comes from now on, and this what has come.
    fn end_polling(&self) {
        if self.deaths.are_over() {
            return;
        }
        let page = layout::page(self.me.index);
        // SYNC with the load and swap in `wake`.
        self.words.half(page + ASLEEP).store(1, Ordering::SeqCst);
        write_then_read();
        if self.words.word(page + BELL).load(Ordering::SeqCst) != 0 {
            self.hear();
        }
    }

    /// L2 and L3: sleeps until the bell is rung, unless it has been rung already or `is_over`.
    pub(crate) fn doze(&self, is_over: impl Fn() -> bool) {
        let page = layout::page(self.me.index);
        let asleep = self.words.half(page + ASLEEP);
        // SYNC with the load and swap in `wake`, and in `rouse_listener`.
        asleep.store(1, Ordering::SeqCst);
        write_then_read();
        if self.words.word(page + BELL).load(Ordering::SeqCst) == 0 && !is_over() {
            sleep(asleep);
        }
        if !self.deaths.are_over() {
            // Relaxed: a ringer that still reads 1 makes a needless system call.
            asleep.store(0, Ordering::Relaxed);
        }
    }

    /// Makes the listener look at whether it is over, which the caller has said before. If the
    /// region has ended for this domain already, the word may be another one's, and stays as it is.
    pub(crate) fn rouse_listener(&self) {
        // The caller's write comes first.
        write_then_read();
        let asleep = self.words.half(layout::page(self.me.index) + ASLEEP);
        if !self.deaths.are_over() {
            // SYNC with the store in `doze`.
            asleep.swap(0, Ordering::SeqCst);
        }
        rouse(asleep);
    }
}

#[cfg(not(underpass_loom))]
use futex_sleep::{rouse, sleep};
#[cfg(underpass_loom)]
use loom_sleep::{rouse, sleep};

#[cfg(not(underpass_loom))]
mod futex_sleep {
    use std::sync::atomic::AtomicU32;
    use underpass_os::futex::{self, FutexScope, Watched};

    pub(super) fn sleep(asleep: &AtomicU32) {
        futex::wait(Watched { word: asleep, expected: 1, scope: FutexScope::Shared }, None);
    }

    pub(super) fn rouse(asleep: &AtomicU32) {
        // All: the listener of a domain for which the region has ended may sleep there, too.
        futex::wake(asleep, FutexScope::Shared, i32::MAX as u32);
    }
}

/// Loom tries every order, so a sleeper polls.
#[cfg(underpass_loom)]
mod loom_sleep {
    use underpass_seam::atomic::{AtomicU32, Ordering};

    pub(super) fn sleep(asleep: &AtomicU32) {
        while asleep.load(Ordering::SeqCst) == 1 {
            loom::thread::yield_now();
        }
    }

    pub(super) fn rouse(_: &AtomicU32) {}
}
