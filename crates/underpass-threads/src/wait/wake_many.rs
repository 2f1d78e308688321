//! Waking several threads at once.

use crate::block::control::{Control, flag};
use crate::sched::scheduler::{self, Scheduler};
use underpass_processor::Pool;

/// Threads of the calling activation that are woken together: each can go on as soon as it is told
/// to, and other processors hear of all of them in the end, when this is dropped. Meanwhile the
/// calling thread is not suspended.
pub struct Wakes {
    own: Option<&'static Scheduler>,
    wake_monitor: bool,
}

impl Wakes {
    /// None so far.
    #[inline(always)]
    pub fn begin() -> Self {
        Self { own: scheduler::with(|own| own), wake_monitor: false }
    }

    /// As [`Control::wake`], if `who` lives on the calling activation and is to stay there; says
    /// whether that is so. A few instructions, which wait for nothing.
    ///
    /// # Safety
    /// As [`Control::wake`]; and the calling thread was not suspended since [`begin`](Self::begin).
    #[inline(always)]
    pub unsafe fn wake_here(&mut self, who: &'static Control) -> bool {
        let Some(own) = self.own.filter(|own| who.home() == Some(own.number())) else { return false };
        // One that may go elsewhere is everybody's, and others are called for it.
        if who.has(flag::MIGRATES) {
            return false;
        }
        self.wake_monitor |= own.put(who);
        true
    }
}

impl Drop for Wakes {
    #[inline(always)]
    fn drop(&mut self) {
        if self.wake_monitor {
            Pool::heed();
        }
    }
}

impl std::fmt::Debug for Wakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wakes").field("wake_monitor", &self.wake_monitor).finish_non_exhaustive()
    }
}
