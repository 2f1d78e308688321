//! What a server does beside large calls: it counts for their user what memory they keep.

use super::{Served, ServerEnd};
use crate::control::timer;
use std::time::Duration;
use underpass_os::clock;

/// How often it looks which pages are left, as long as there are some: the client gives those back
/// that it has not used for a second or two.
const AGAIN: Duration = Duration::from_secs(1);

impl ServerEnd {
    /// A call has come or a reply gone out that lies in no cell and no A-stack.
    #[cold]
    pub(super) fn was_large(&self) {
        self.kernel.entered(self.mailbox.entries());
        self.watch_annexes();
    }

    fn watch_annexes(&self) {
        if self.mailbox.annexes().begin_watch() {
            let own = self.own.clone();
            timer::set(clock::deadline_ns(AGAIN), move || {
                if let Some(end) = own.upgrade() {
                    end.count_annexes();
                }
            });
        }
    }

    pub(crate) fn count_annexes(&self) {
        let free = |slot: u16| {
            let _inside = self.lock.enter();
            !Served::is_busy(&self.slots[usize::from(slot)])
        };
        if self.mailbox.annexes().count(&self.channel, free) && !self.is_closed() {
            self.watch_annexes();
        }
    }
}
