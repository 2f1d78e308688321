//! What a client does beside its large calls: it gives memory back that nobody uses.

use super::ClientEnd;
use crate::control::timer;
use std::time::Duration;
use underpass_os::clock;

/// How long an annex keeps the pages that nobody uses, at the least; twice as long at the most.
const IDLE: Duration = Duration::from_secs(1);

impl ClientEnd {
    /// A call has gone out whose arguments lie in no cell and no A-stack.
    #[cold]
    pub(super) fn was_large(&self) {
        self.kernel.entered(self.mailbox.entries());
        self.watch_annexes();
    }

    /// Has the clerk look after the annexes' pages, if it doesn't yet.
    pub(crate) fn watch_annexes(&self) {
        if self.mailbox.annexes().begin_watch() {
            let own = self.own.clone();
            timer::set(clock::deadline_ns(IDLE), move || {
                if let Some(end) = own.upgrade() {
                    end.sweep();
                }
            });
        }
    }

    /// Of the first end: all channels' annexes, at once.
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
        if self.mailbox.annexes().sweep(&self.channel, free) {
            self.watch_annexes();
        }
    }
}
