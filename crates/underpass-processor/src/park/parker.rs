//! The private word of one kernel thread, by which others of its domain call it.

#[cfg(not(underpass_loom))]
use underpass_os::WakeTimestamp;
use underpass_seam::atomic::{AtomicU32, Ordering};

/// Runs, and nobody has called since the last sleep.
const RUNNING: u32 = 0;
/// Somebody called.
const UNPARKED: u32 = 1;
/// Sleeps, or is about to.
pub(crate) const ASLEEP: u32 = 2;

/// Where one kernel thread sleeps.
///
/// Owned by its sleeper, which alone sets `ASLEEP`; anybody sets `UNPARKED`. A call before the sleep
/// makes `prepare` fail; a call after it changes the word that the sleep expects, and wakes it.
#[derive(Debug)]
pub struct Parker {
    word: AtomicU32,
    /// When its sleeper was called, and from which CPU, until that one wakes. Anybody's: a
    /// measurement.
    #[cfg(not(underpass_loom))]
    called: std::sync::atomic::AtomicU64,
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl Parker {
    /// Nobody has called.
    pub fn new() -> Self {
        Self {
            word: AtomicU32::new(RUNNING),
            #[cfg(not(underpass_loom))]
            called: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Calls the sleeper; says whether it sleeps, or is about to, and nobody had called yet: then
    /// it is to be woken.
    #[must_use = "wake the sleeper if this is true"]
    pub fn announce(&self) -> bool {
        // SYNC with `word` compare_exchange in `prepare` and swap in `wake_up`: what the caller did
        // before it called.
        self.word.swap(UNPARKED, Ordering::AcqRel) == ASLEEP
    }

    /// Whether it sleeps, or is about to: a hint.
    pub fn asleep(&self) -> bool {
        self.word.load(Ordering::Relaxed) == ASLEEP
    }

    /// Announces a sleep; `false` if somebody called in the meantime, which this consumes.
    pub fn prepare(&self) -> bool {
        // SYNC with `word` swap in `announce`: what the caller did.
        let free = self.word.compare_exchange(RUNNING, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !free {
            self.wake_up();
        }
        free
    }

    /// The sleep is over, and calls until now are answered.
    pub fn wake_up(&self) {
        // SYNC with `word` swap in `announce`: what the caller did.
        self.word.swap(RUNNING, Ordering::AcqRel);
        #[cfg(not(underpass_loom))]
        self.measure();
    }

    /// The word to sleep on while it says that its owner sleeps.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// What the word holds then.
    pub const SLEEPS: u32 = ASLEEP;
}

#[cfg(not(underpass_loom))]
impl Parker {
    /// Calls the sleeper: its sleep ends, or its next one doesn't begin. Says whether it was
    /// asleep.
    pub fn unpark(&self) -> bool {
        use underpass_os::futex::{self, Scope};
        let asleep = self.announce();
        if asleep {
            crate::metrics().woke();
            // Relaxed, here and in `measure`: if it wakes by itself meanwhile, its next sleep is
            // measured too long.
            self.called.store(WakeTimestamp::now().bits(), Ordering::Relaxed);
            futex::wake(&self.word, Scope::Private, 1);
        }
        asleep
    }

    /// Notes how long the wake-up took that ended this sleep, if one did, and came from another
    /// CPU: on one CPU it costs a tenth, and nobody polls there.
    fn measure(&self) {
        let called = self.called.load(Ordering::Relaxed);
        if called != 0 {
            self.called.store(0, Ordering::Relaxed);
            let called = WakeTimestamp::of(called);
            if let Some(ns) = WakeTimestamp::now().after(called, called) {
                crate::park::wake_up_cost::record_wake_up(ns);
            }
        }
    }

    /// Sleeps until called or `deadline_ns`, or does not begin to if called already. May return for
    /// no reason.
    ///
    /// For who is called for everything that it waits for, and needs no barrier therefore; others
    /// [`sleep`](crate::sleep()).
    pub fn sleep(&self, deadline_ns: Option<u64>) {
        use underpass_os::futex::{self, Scope, Watched};
        if self.prepare() {
            crate::metrics().slept();
            let watched = Watched { word: &self.word, expected: ASLEEP, scope: Scope::Private };
            futex::wait(watched, deadline_ns);
            self.wake_up();
        }
    }
}
