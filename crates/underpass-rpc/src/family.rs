//! What the channels of one binding have in common on the server's side: they are served, and closed, as one.

use crate::server::ServerEnd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use underpass_channel::layout::CHANNELS;
use underpass_threads::critical;

/// The server's ends of one binding.
#[derive(Debug)]
pub(crate) struct Family {
    /// The clerk's key of the export.
    export: u64,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    ends: Vec<Weak<ServerEnd>>,
    /// Channels that were asked for beside the first, whether they are there or not.
    asked: usize,
    closed: bool,
}

impl Family {
    /// That of a binding of `export`, without ends.
    pub(crate) fn new(export: u64) -> Arc<Self> {
        Arc::new(Self { export, members: Mutex::default() })
    }

    pub(crate) fn export(&self) -> u64 {
        self.export
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client asks for one more channel; `false` if no honest client asks for so many. Those that failed or have gone count too.
    pub(crate) fn grants(&self) -> bool {
        let _held = critical();
        let mut members = self.members();
        members.asked += 1;
        members.asked < CHANNELS
    }

    /// One more end; `false` if the binding is closed.
    pub(crate) fn join(&self, end: &Arc<ServerEnd>) -> bool {
        let _held = critical();
        let mut members = self.members();
        if !members.closed {
            members.ends.push(Arc::downgrade(end));
        }
        !members.closed
    }

    /// One end is closed: so are all. The clerk hears of it by their sockets.
    pub(crate) fn close(&self) {
        let held = critical();
        let mut members = self.members();
        members.closed = true;
        let ends = std::mem::take(&mut members.ends);
        drop(members);
        drop(held);
        let ends: Vec<_> = ends.iter().filter_map(Weak::upgrade).filter(|end| !end.is_closed()).collect();
        // All, before the client is told over any.
        ends.iter().for_each(|end| end.close());
        ends.iter().for_each(|end| end.mailbox().close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_channels_are_granted() {
        let family = Family::new(0);
        assert!((1..CHANNELS).all(|_| family.grants()));
        assert!(!family.grants() && !family.grants());
    }
}
