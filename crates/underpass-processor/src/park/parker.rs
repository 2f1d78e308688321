//! The private word of one kernel thread, by which others of its domain wake it.

use underpass_seam::atomic::{AtomicU32, Ordering};

/// Runs, and nobody has unparked it since its last sleep.
const RUNNING: u32 = 0;
/// Somebody has unparked it.
const UNPARKED: u32 = 1;
/// Sleeps, or is about to.
pub(crate) const ASLEEP: u32 = 2;

/// Where one kernel thread sleeps.
///
/// Only its owner, the sleeper, sets `ASLEEP`. Anybody sets `UNPARKED`. An unpark before the sleep
/// makes `prepare` fail. An unpark after it changes the word that the sleep expects, and wakes the
/// sleeper.
#[derive(Debug)]
pub struct Parker {
    word: AtomicU32,
    /// When the sleeper was unparked, and from which CPU, until it wakes. Anybody writes it, since
    /// it is a measurement.
    #[cfg(not(underpass_loom))]
    called: std::sync::atomic::AtomicU64,
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl Parker {
    /// A parker that nobody has unparked.
    pub fn new() -> Self {
        Self {
            word: AtomicU32::new(RUNNING),
            #[cfg(not(underpass_loom))]
            called: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Unparks the sleeper, except for the wake-up. Returns whether the caller has to wake it: it
    /// sleeps or is about to, and nobody else has unparked it yet.
    #[must_use = "wake the sleeper if this is true"]
    pub fn announce(&self) -> bool {
        // SYNC with `word` compare_exchange in `prepare` and swap in `wake_up`: what the caller did
        // before it unparked the sleeper.
        self.word.swap(UNPARKED, Ordering::AcqRel) == ASLEEP
    }

    /// Whether it sleeps, or is about to: a hint.
    pub fn asleep(&self) -> bool {
        self.word.load(Ordering::Relaxed) == ASLEEP
    }

    /// Announces a sleep. Returns `false`, and consumes the unpark, if somebody has unparked it in
    /// the meantime.
    pub fn prepare(&self) -> bool {
        // SYNC with `word` swap in `announce`: what the caller did.
        let free = self.word.compare_exchange(RUNNING, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !free {
            self.wake_up();
        }
        free
    }

    /// Ends the announcement, and consumes all unparks until now.
    pub fn wake_up(&self) {
        // SYNC with `word` swap in `announce`: what the caller did.
        self.word.swap(RUNNING, Ordering::AcqRel);
        #[cfg(not(underpass_loom))]
        self.measure();
    }

    /// The word to sleep on. The owner may sleep while it is [`SLEEPS`](Self::SLEEPS).
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// The value of the word between [`prepare`](Self::prepare) and the next unpark.
    pub const SLEEPS: u32 = ASLEEP;
}

#[cfg(not(underpass_loom))]
impl Parker {
    /// Ends the sleep, or keeps the next one from beginning. Returns whether the owner was asleep.
    pub fn unpark(&self) -> bool {
        use underpass_os::futex::{self, FutexScope};
        let asleep = self.announce();
        if asleep {
            crate::metrics().woke();
            // Relaxed, here and in `measure`: if it wakes by itself meanwhile, its next sleep is
            // measured too long.
            self.called.store(Timestamp::now().0, Ordering::Relaxed);
            futex::wake(&self.word, FutexScope::Private, 1);
        }
        asleep
    }

    /// If a wake-up from another CPU ended this sleep, records how long the wake-up took. On the
    /// same CPU a wake-up costs a tenth, and nobody polls there.
    fn measure(&self) {
        let called = self.called.load(Ordering::Relaxed);
        if called != 0 {
            self.called.store(0, Ordering::Relaxed);
            if let Some(ns) = Timestamp::now().after(Timestamp(called)) {
                crate::park::wake_up_cost::record_wake_up(ns);
            }
        }
    }

    /// Sleeps until unparked, or until `deadline_ns`. Does not begin to if it was unparked already.
    /// May return spuriously.
    ///
    /// This has no barrier. It is for a thread that is unparked for everything that it waits for.
    /// Others use [`sleep`](crate::sleep()).
    pub fn sleep(&self, deadline_ns: Option<u64>) {
        use underpass_os::futex::{self, FutexScope, Watched};
        if self.prepare() {
            crate::metrics().slept();
            let watched = Watched { word: &self.word, expected: ASLEEP, scope: FutexScope::Private };
            futex::wait(watched, deadline_ns);
            self.wake_up();
        }
    }
}

/// A moment in steps of 4,096 ns, and in the low bits the CPU on which it was taken. Never 0.
#[cfg(not(underpass_loom))]
#[derive(Clone, Copy)]
struct Timestamp(u64);

#[cfg(not(underpass_loom))]
impl Timestamp {
    /// The bits that hold the CPU.
    const CPU: u64 = (1 << 12) - 1;

    fn now() -> Self {
        use underpass_os::{clock, cpu};
        Self((clock::now_ns() & !Self::CPU) | (cpu::current() as u64 & Self::CPU))
    }

    /// The ns from `called`, when the sleeper was unparked, to this moment, when it runs. `None` if
    /// both were on one CPU, or if `called` lies after this moment.
    fn after(self, called: Self) -> Option<u64> {
        let crosses = (called.0 ^ self.0) & Self::CPU != 0;
        (self.0 & !Self::CPU).checked_sub(called.0 & !Self::CPU).filter(|_| crosses)
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_is_measured_if_it_crosses_cpus() {
        let at = |steps: u64, cpu: u64| Timestamp((steps << 12) | cpu);
        assert_eq!(at(9, 1).after(at(5, 0)), Some(4 << 12));
        assert_eq!(at(9, 1).after(at(9, 0)), Some(0));
        assert_eq!(at(9, 1).after(at(5, 1)), None, "on one CPU");
        assert_eq!(at(9, 1).after(at(10, 0)), None, "for a later sleep");
    }
}
