//! Handing a processor over by giving way: where donor and listener are both ready on one CPU, the kernel switches between them without a wake-up and
//! without a sleep, at two thirds of the price (decision 0022).
//!
//! Who gives way goes behind all others that are ready on its CPU. So beside a thread that computes, both would get the processor once in a time slice; then they sleep and
//! wake each other instead, for a while.

use crate::{Line, tally};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use underpass_os::{clock, cpu};

/// A donor gives way so many times at most. Those after the first find that nobody on this CPU wanted it, or that another did, and cost 0.3 us each at the least.
const DONOR: u32 = 3;

/// What giving way has led to lately.
#[derive(Debug)]
struct Company {
    /// How many times in a row it took longer than a tick of the kernel's clock.
    long: AtomicU32,
    /// How many times in a row it did not.
    short: AtomicU32,
    /// Not before this, by that clock.
    again: AtomicU64,
    /// For how long not the next time, in ns.
    pause: AtomicU64,
}

/// So many times in a row have it stop.
const LONG: u32 = 3;
/// So many times in a row have it forget.
const SHORT: u32 = 64;
/// For how long it stops, in ns; twice as long each time.
const PAUSE: (u64, u64) = (20_000_000, 10_000_000_000);

static COMPANY: Company = Company::new();

// Relaxed throughout: a habit, of no consequence but time.
impl Company {
    const fn new() -> Self {
        Self {
            long: AtomicU32::new(0),
            short: AtomicU32::new(0),
            again: AtomicU64::new(0),
            pause: AtomicU64::new(PAUSE.0),
        }
    }

    /// Whether giving way is worth while.
    fn is_good(&self, now: u64) -> bool {
        let again = self.again.load(Ordering::Relaxed);
        again == 0 || now >= again
    }

    fn saw(&self, long: bool, now: u64) {
        if !long && self.again.load(Ordering::Relaxed) == 0 {
            if self.long.load(Ordering::Relaxed) != 0 {
                self.long.store(0, Ordering::Relaxed);
            }
        } else {
            self.weigh(long, now);
        }
    }

    #[cold]
    fn weigh(&self, long: bool, now: u64) {
        let on_trial = self.again.load(Ordering::Relaxed) != 0;
        if !long {
            if self.short.fetch_add(1, Ordering::Relaxed) >= SHORT {
                self.again.store(0, Ordering::Relaxed);
                self.pause.store(PAUSE.0, Ordering::Relaxed);
            }
            return;
        }
        self.short.store(0, Ordering::Relaxed);
        if !on_trial && self.long.fetch_add(1, Ordering::Relaxed) + 1 < LONG {
            return;
        }
        let pause = self.pause.load(Ordering::Relaxed);
        self.long.store(0, Ordering::Relaxed);
        self.pause.store((2 * pause).min(PAUSE.1), Ordering::Relaxed);
        self.again.store(now + pause, Ordering::Relaxed);
    }
}

/// Gives way once; says whether that took less than a tick.
fn once(before: &mut u64) -> bool {
    cpu::give_way();
    let now = clock::tick_ns();
    let long = now != std::mem::replace(before, now);
    COMPANY.saw(long, now);
    !long
}

/// *Donate:* gives the calling kernel thread's processor to the listener of this CPU of the peer of `donee`, where calls are owed, and has it back by the
/// time that they have replies, or soon. Calls `look` whenever it has it, which takes the replies, until that says that there is something to do. Says
/// whether the listener took the processor; if not, the peer has been called, or the calls are owed still.
pub fn give_way(donee: &(impl Line + ?Sized), mut look: impl FnMut() -> bool) -> bool {
    let mut tick = clock::tick_ns();
    if !COMPANY.is_good(tick) {
        return false;
    }
    let Some(cpu) = donee.begin_to_give_way() else { return false };
    let (mut times, mut brief) = (0, true);
    loop {
        // Before the look, so that no reply comes after that. A listener that was woken may have had the processor, and given it back, already: who
        // gave way then would find it standing by, with nothing to do, and send it to sleep, so that the next call woke it again.
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

/// *Stand by:* a listener that has just given processors back, and stays, gives way to their owners once; then it looks who has given its processor again, as it
/// does before it sleeps in any case.
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
        fn set_aside(&self) {}
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

    #[test]
    fn in_bad_company_it_stops_for_longer_and_longer_until_it_gets_better() {
        let company = Company::new();
        (0..LONG - 1).for_each(|_| company.saw(true, 1));
        company.saw(false, 1);
        (0..LONG - 1).for_each(|_| company.saw(true, 1));
        assert!(company.is_good(1), "only so many in a row count");
        company.saw(true, 1);
        assert!(!company.is_good(PAUSE.0));
        let mut now = PAUSE.0 + 1;
        assert!(company.is_good(now), "it tries again");
        for times in 1..20 {
            company.saw(true, now);
            let pause = (PAUSE.0 << times).min(PAUSE.1);
            assert!(!company.is_good(now + pause - 1), "one is enough on trial");
            now += pause;
            assert!(company.is_good(now));
        }
        (0..=SHORT).for_each(|_| company.saw(false, now));
        company.saw(true, now);
        assert!(company.is_good(now), "forgotten");
    }
}
