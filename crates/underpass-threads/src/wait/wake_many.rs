//! Waking several threads at once.

use crate::block::control::{Control, flag};
use crate::sched::scheduler::{self, Scheduler};
use underpass_processor::Pool;

/// Wakes several threads of the calling activation together. Each becomes ready at once. The
/// monitor hears of all of them at the end, when this is dropped. The calling thread is not
/// suspended meanwhile.
pub struct Wakes {
    own: Option<&'static Scheduler>,
    wake_monitor: bool,
}

impl Wakes {
    /// Begins without a thread.
    #[inline(always)]
    pub fn begin() -> Self {
        Self { own: scheduler::with(|own| own), wake_monitor: false }
    }

    /// As [`Control::wake`], if `thread` lives on the calling activation and stays there. Returns
    /// whether that is so. A few instructions, which wait for nothing.
    ///
    /// # Safety
    /// As [`Control::wake`]. The calling thread was not suspended since [`begin`](Self::begin).
    #[inline(always)]
    pub unsafe fn wake_here(&mut self, thread: &'static Control) -> bool {
        let Some(own) = self.own.filter(|own| thread.home() == Some(own.number())) else { return false };
        // A migrating thread may go on elsewhere, and an idle activation is woken for it.
        if thread.has(flag::MIGRATES) {
            return false;
        }
        self.wake_monitor |= own.put(thread);
        true
    }
}

impl Drop for Wakes {
    #[inline(always)]
    fn drop(&mut self) {
        if self.wake_monitor {
            Pool::wake_monitor();
        }
    }
}

impl std::fmt::Debug for Wakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wakes").field("wake_monitor", &self.wake_monitor).finish_non_exhaustive()
    }
}
