//! A client that floods gets its share, and no more.

use crate::common::with_processors;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use underpass_processor::{ActiveLine, AwaitedLine, DonationLine, Line, PolledLine, SleepLine, lines};
use underpass_threads::{SHARE, wake_all_idle, yield_now};

/// One client that always has calls waiting until `left` is used up, and another that makes a call
/// now and then.
struct Both {
    left: AtomicU64,
    /// How many calls of the flood were begun.
    flood: AtomicU64,
    /// The value of `flood` when the other client's call came, or `NONE`.
    came: AtomicU64,
    served: AtomicU64,
    /// The most calls of the flood that were begun while one call of the other waited.
    most: AtomicU64,
    pauses: bool,
}

const NONE: u64 = u64::MAX;

impl Both {
    /// The other's call comes while a call of the flood is served.
    fn serve_flood(&self) -> bool {
        if self.left.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() {
            return false;
        }
        let number = self.flood.fetch_add(1, Ordering::AcqRel) + 1;
        if number.is_multiple_of(5) {
            let _ = self.came.compare_exchange(NONE, number, Ordering::AcqRel, Ordering::Relaxed);
        }
        if self.pauses {
            yield_now();
        }
        true
    }

    fn serve_other(&self) -> bool {
        let came = self.came.swap(NONE, Ordering::AcqRel);
        if came != NONE {
            let waited = self.flood.load(Ordering::Acquire).saturating_sub(came);
            self.most.fetch_max(waited, Ordering::AcqRel);
            self.served.fetch_add(1, Ordering::AcqRel);
        }
        came != NONE
    }
}

struct End {
    both: Arc<Both>,
    floods: bool,
    word: AtomicU32,
}

impl PolledLine for End {
    fn poll(&self) -> bool {
        false
    }

    fn pending(&self) -> bool {
        match self.floods {
            true => self.both.left.load(Ordering::Acquire) > 0,
            false => self.both.came.load(Ordering::Acquire) != NONE,
        }
    }

    fn serve(&self, _: u64) -> bool {
        if self.floods { self.both.serve_flood() } else { self.both.serve_other() }
    }
}

impl SleepLine for End {
    fn park(&self, _: bool) -> Option<u32> {
        None
    }

    fn spare(&self) -> Option<u32> {
        None
    }

    fn quiet(&self) -> bool {
        !self.pending()
    }

    fn word(&self) -> &AtomicU32 {
        &self.word
    }

    fn look(&self) {}

    fn set_unpolled(&self) {}
}

impl ActiveLine for End {}

impl AwaitedLine for End {
    fn wake_spare(&self) {}
}

impl DonationLine for End {}

impl Line for End {
    fn elsewhere(&self) -> bool {
        false
    }

    fn shares(&self) -> bool {
        false
    }
}

/// Floods with many calls, and returns the most of them that the other's call waited for.
fn flood(pauses: bool) -> u64 {
    const CALLS: u64 = 20_000;
    let both = Arc::new(Both {
        left: AtomicU64::new(CALLS),
        flood: AtomicU64::new(0),
        came: AtomicU64::new(NONE),
        served: AtomicU64::new(0),
        most: AtomicU64::new(0),
        pauses,
    });
    // The flood's line first: a dispatcher that always began with the first line would never come
    // to the other.
    let ends = [true, false].map(|floods| {
        let line: Arc<dyn Line> = Arc::new(End { both: both.clone(), floods, word: AtomicU32::new(0) });
        lines::add(line.clone());
        line
    });
    wake_all_idle();
    while ends.iter().any(|line| line.pending()) {
        std::thread::yield_now();
    }
    assert!(ends.iter().all(lines::remove));
    wake_all_idle();
    assert!(both.served.load(Ordering::Acquire) > CALLS / 100, "the other was served all the time");
    both.most.load(Ordering::Acquire)
}

#[test]
fn a_flood_delays_anothers_call_by_its_share() {
    with_processors(&[1], || {
        underpass_threads::spawn(|| ()).join().unwrap();
        assert!(flood(false) <= u64::from(SHARE));
    });
}

#[test]
fn a_flood_of_procedures_that_pause_does_not_either() {
    with_processors(&[1], || {
        underpass_threads::spawn(|| ()).join().unwrap();
        // Each call that pauses has a dispatcher of its own, and the next dispatcher goes on with
        // the next line.
        let waited = flood(true);
        assert!(waited <= u64::from(SHARE), "{waited}");
    });
}
