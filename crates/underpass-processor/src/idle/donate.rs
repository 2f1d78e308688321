//! Donating a processor by giving way. If donor and listener are both ready on one CPU, the kernel
//! switches between them without a wake-up and without a sleep. That costs two thirds as much
//! (decision 0022).
//!
//! Beside a thread that computes, donor and listener would get the processor once in a time slice.
//! Then they sleep and wake each other instead, for a while (see `yield_cost.rs`).

use crate::idle::yield_cost::{YIELD_COST, YieldCost};
use crate::{Line, metrics};
use underpass_os::{clock, cpu};

/// The most times that a donor gives way. From the second time on, nobody on this CPU wanted the
/// processor, or another thread did. Each costs at least 0.3 us.
const DONOR: u32 = 3;

/// Gives way once, and records in `cost` how long that took. Returns whether it took less than a
/// tick.
fn once(cost: &YieldCost, before: &mut u64) -> bool {
    cpu::give_way();
    let now = clock::tick_ns();
    let took = now - std::mem::replace(before, now);
    cost.record(took, now);
    took == 0
}

/// *Donate:* gives the calling kernel thread's processor to the peer of `donee`, at which calls are
/// owed. The peer's listener of this CPU takes it. The donor has the processor back when the calls
/// have replies, or soon.
///
/// Whenever it has the processor, it calls `look`, which takes replies, until `look` returns that
/// there is something to do. Returns whether the listener took the processor. If not, the peer was
/// notified, or the calls are still owed.
pub fn give_way(donee: &(impl Line + ?Sized), look: impl FnMut() -> bool) -> bool {
    give_way_at(&YIELD_COST, donee, look)
}

/// [`give_way`], where giving way costs what `cost` has recorded.
fn give_way_at(cost: &YieldCost, donee: &(impl Line + ?Sized), mut look: impl FnMut() -> bool) -> bool {
    let mut tick = clock::tick_ns();
    if !cost.worth_giving_way(tick) {
        return false;
    }
    let Some(cpu) = donee.begin_to_give_way() else { return false };
    let (mut times, mut brief) = (0, true);
    loop {
        // This is asked before `look`, so that no reply comes after `look`. A listener that was
        // woken may have had the processor, and given it back, already. If the donor gave way then,
        // the listener would find nothing to do and go to sleep, and the next call would have to
        // wake it again.
        let back = donee.is_back(cpu);
        if back || times > 0 {
            let found = look();
            if found || back || (!brief && times > 1) || times == DONOR {
                break;
            }
        }
        times += 1;
        brief = once(cost, &mut tick);
    }
    donee.gave_way(times);
    true
}

/// *Stand by:* a listener that has just given processors back, and stays, gives way to their owners
/// once. Then it checks which of them have donated again, as it does before any sleep.
pub fn stand_by() {
    let mut tick = clock::tick_ns();
    if YIELD_COST.worth_giving_way(tick) {
        once(&YIELD_COST, &mut tick);
        metrics().entered_kernel(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActiveLine, AwaitedLine, DonationLine, PolledLine, SleepLine};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A peer that has given the processor back after `needs` times.
    struct Peer {
        needs: u32,
        asked: AtomicU32,
        /// The number of times plus one.
        gave_way: AtomicU32,
        word: AtomicU32,
    }

    impl PolledLine for Peer {
        fn poll(&self) -> bool {
            false
        }

        fn pending(&self) -> bool {
            false
        }

        fn serve(&self, _: u64) -> bool {
            false
        }
    }

    impl SleepLine for Peer {
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
    }

    impl ActiveLine for Peer {}

    impl AwaitedLine for Peer {
        fn wake_spare(&self) {}
    }

    impl DonationLine for Peer {
        fn begin_to_give_way(&self) -> Option<usize> {
            Some(0)
        }

        fn is_back(&self, _: usize) -> bool {
            self.asked.fetch_add(1, Ordering::Relaxed) >= self.needs
        }

        fn gave_way(&self, times: u32) {
            self.gave_way.store(times + 1, Ordering::Relaxed);
        }
    }

    impl Line for Peer {
        fn elsewhere(&self) -> bool {
            false
        }

        fn shares(&self) -> bool {
            true
        }
    }

    impl Peer {
        fn that_needs(needs: u32) -> Self {
            let [asked, gave_way, word] = [const { AtomicU32::new(0) }; 3];
            Self { needs, asked, gave_way, word }
        }
    }

    #[test]
    fn a_donor_that_has_its_processor_back_stops_giving_way() {
        for needs in 0..DONOR {
            // A cost of its own: other programs can't have made giving way costly.
            let (cost, peer, mut looks) = (YieldCost::new(), Peer::that_needs(needs), 0);
            let look = || {
                looks += 1;
                false
            };
            assert!(give_way_at(&cost, &peer, look));
            assert_eq!((peer.gave_way.into_inner(), looks), (needs + 1, needs.max(1)));
        }
    }

    #[test]
    fn a_donor_to_which_giving_way_is_costly_asks_nobody() {
        let (cost, peer) = (YieldCost::new(), Peer::that_needs(0));
        // It took an hour, again and again.
        (0..10).for_each(|_| cost.record(3_600_000_000_000, clock::now_ns()));
        assert!(!give_way_at(&cost, &peer, || unreachable!("nothing is under way")));
        assert_eq!((peer.asked.into_inner(), peer.gave_way.into_inner()), (0, 0));
    }
}
