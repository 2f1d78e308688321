//! Handing a processor over by giving way: where donor and listener are both ready on one CPU, the
//! kernel switches between them without a wake-up and without a sleep, at two thirds of the price
//! (decision 0022).
//!
//! Beside a thread that computes, donor and listener would get the processor once in a time slice.
//! Then they sleep and wake each other instead, for a while (see `company.rs`).

use crate::company::COMPANY;
use crate::{Line, tally};
use underpass_os::{clock, cpu};

/// A donor gives way so many times at most. Those after the first find that nobody on this CPU
/// wanted it, or that another did, and cost 0.3 us each at the least.
const DONOR: u32 = 3;

/// Gives way once; says whether that took less than a tick.
fn once(before: &mut u64) -> bool {
    cpu::give_way();
    let now = clock::tick_ns();
    let took = now - std::mem::replace(before, now);
    COMPANY.saw(took, now);
    took == 0
}

/// *Donate:* gives the calling kernel thread's processor to the listener of this CPU of the peer of
/// `donee`, where calls are owed, and has it back by the time that they have replies, or soon.
/// Calls `look` whenever it has it, which takes the replies, until that says that there is
/// something to do. Says whether the listener took the processor; if not, the peer has been called,
/// or the calls are owed still.
pub fn give_way(donee: &(impl Line + ?Sized), mut look: impl FnMut() -> bool) -> bool {
    let mut tick = clock::tick_ns();
    if !COMPANY.is_good(tick) {
        return false;
    }
    let Some(cpu) = donee.begin_to_give_way() else { return false };
    let (mut times, mut brief) = (0, true);
    loop {
        // Before the look, so that no reply comes after that. A listener that was woken may have
        // had the processor, and given it back, already: who gave way then would find it standing
        // by, with nothing to do, and send it to sleep, so that the next call woke it again.
        let back = donee.is_back(cpu);
        if back || times > 0 {
            let found = look();
            if found || back || (!brief && times > 1) || times == DONOR {
                break;
            }
        }
        times += 1;
        brief = once(&mut tick);
    }
    donee.gave_way(times);
    true
}

/// *Stand by:* a listener that has just given processors back, and stays, gives way to their owners
/// once; then it looks who has given its processor again, as it does before it sleeps in any case.
pub fn stand_by() {
    let mut tick = clock::tick_ns();
    if COMPANY.is_good(tick) {
        once(&mut tick);
        tally().entered_kernel(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A peer that has the processor back after it was given way to so many times.
    struct Peer {
        needs: u32,
        asked: AtomicU32,
        /// Plus one.
        gave_way: AtomicU32,
        word: AtomicU32,
    }

    impl Line for Peer {
        fn begin_to_give_way(&self) -> Option<usize> {
            Some(0)
        }
        fn is_back(&self, _: usize) -> bool {
            self.asked.fetch_add(1, Ordering::Relaxed) >= self.needs
        }
        fn gave_way(&self, times: u32) {
            self.gave_way.store(times + 1, Ordering::Relaxed);
        }
        fn poll(&self) -> bool {
            false
        }
        fn pending(&self) -> bool {
            false
        }
        fn serve(&self, _: u64) -> bool {
            false
        }
        fn park(&self, _: bool) -> Option<u32> {
            None
        }
        fn spare(&self) -> Option<u32> {
            None
        }
        fn quiet(&self) -> bool {
            true
        }
        fn word(&self) -> &AtomicU32 {
            &self.word
        }
        fn look(&self) {}
        fn set_unpolled(&self) {}
        fn knock(&self) {}
        fn elsewhere(&self) -> bool {
            false
        }
        fn shares(&self) -> bool {
            true
        }
    }

    #[test]
    fn who_has_the_processor_back_already_gives_way_no_more() {
        for needs in 0..2 {
            let peer = Peer {
                needs,
                asked: AtomicU32::new(0),
                gave_way: AtomicU32::new(0),
                word: AtomicU32::new(0),
            };
            let mut looks = 0;
            let look = || {
                looks += 1;
                false
            };
            // Beside other programs it may be that it does not give way at all, for a while.
            if give_way(&peer, look) {
                assert_eq!((peer.gave_way.into_inner(), looks), (needs + 1, 1));
            }
        }
    }
}
