//! Waking a suspended thread.

use crate::block::control::Control;
use crate::sched::activations::at;
use crate::sched::scheduler;
use underpass_seam::atomic::Ordering;

impl Control {
    /// Ends the suspension of this thread. Called exactly once for each suspension that was not
    /// abandoned. It may come before the suspension.
    ///
    /// # Safety
    /// The caller has taken the thread out of the list into which it was put for one call of
    /// [`suspend`](crate::suspend()). That suspension was not abandoned, and nobody else wakes the
    /// thread for it. One wake too many would make the thread run twice at once.
    #[inline]
    pub unsafe fn wake(&'static self) {
        match self.home() {
            Some(home) => make_ready(self, home),
            None => {
                // SYNC with `woken` swap in `take_woken`: what the waker did before.
                self.woken.store(1, Ordering::Release);
                self.parker.unpark();
            }
        }
    }
}

/// Makes a suspended thread of activation `home` ready.
#[inline]
pub(crate) fn make_ready(control: &'static Control, home: usize) {
    let here = scheduler::with(|own| {
        own.number() == home && {
            own.push(control);
            true
        }
    });
    if here != Some(true) {
        wake_remotely(control, home);
    }
}

fn wake_remotely(control: &'static Control, home: usize) {
    let outside = at(home);
    outside.inbox.put(control);
    outside.look_up();
}
