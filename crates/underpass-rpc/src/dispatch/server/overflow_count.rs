//! Counts the pages of overflow buffers that a user's channels keep.

use super::{Served, ServerEnd};
use crate::control::timer;
use std::time::Duration;
use underpass_os::clock;

/// How often the server counts them while there are any. The client gives pages back that it has
/// not used for one to two seconds.
const AGAIN: Duration = Duration::from_secs(1);

impl ServerEnd {
    /// A call has come or a reply was posted whose bytes lie in neither cell nor A-stack.
    #[cold]
    pub(super) fn was_large(&self) {
        self.kernel.entered(self.mailbox.entries());
        self.watch_overflow_buffers();
    }

    fn watch_overflow_buffers(&self) {
        if self.mailbox.overflow_buffers().begin_watch() {
            let own = self.own.clone();
            timer::set(clock::deadline_ns(AGAIN), move || {
                if let Some(end) = own.upgrade() {
                    end.count_overflow_buffers();
                }
            });
        }
    }

    pub(crate) fn count_overflow_buffers(&self) {
        let free = |slot: u16| {
            let _inside = self.lock.enter();
            !Served::is_busy(&self.slots[usize::from(slot)])
        };
        if self.mailbox.overflow_buffers().count(&self.channel, free) && !self.is_closed() {
            self.watch_overflow_buffers();
        }
    }
}
