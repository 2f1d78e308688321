//! Frees the pages of overflow buffers that the client no longer uses.

use super::ClientEnd;
use crate::control::timer;
use std::time::Duration;
use underpass_os::clock;

/// How long an overflow buffer keeps pages that nobody uses: at least so long, and at most twice as
/// long.
const IDLE: Duration = Duration::from_secs(1);

impl ClientEnd {
    /// A call was sent whose arguments lie in neither cell nor A-stack.
    #[cold]
    pub(super) fn was_large(&self) {
        self.kernel.entered(self.mailbox.entries());
        self.watch_overflow_buffers();
    }

    /// Sets a timer for the next sweep of the overflow buffers, unless one is set.
    pub(crate) fn watch_overflow_buffers(&self) {
        if self.mailbox.overflow_buffers().begin_watch() {
            let own = self.own.clone();
            timer::set(clock::deadline_ns(IDLE), move || {
                if let Some(end) = own.upgrade() {
                    end.sweep();
                }
            });
        }
    }

    /// Sweeps the overflow buffers of all channels at once. Of the first end.
    #[cfg(fuzzing)]
    pub(crate) fn sweep_all(&self) {
        self.sweep();
        self.further_ends().for_each(Self::sweep);
    }

    fn sweep(&self) {
        let free = |slot| {
            let _inside = self.lock();
            self.slots.is_free(slot)
        };
        if self.mailbox.overflow_buffers().sweep(&self.channel, free) {
            self.watch_overflow_buffers();
        }
    }
}
