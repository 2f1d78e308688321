//! Passing a binding on: the client's part.

use super::{ClientEnd, ClientRow};
use crate::control::socket_events::{NoTicket, Ticket};
use crate::error::{Outcome, ShareError};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use underpass_sync::mpsc::{Sender, channel};
use underpass_threads::critical;

/// How long a server may take to answer. A fuzzed one answers at once or never.
const PATIENCE: Duration = Duration::from_millis(if cfg!(fuzzing) { 5 } else { 5_000 });

/// The callers that wait for tickets, first come, first served.
#[derive(Debug, Default)]
pub(super) struct Sharing(Mutex<VecDeque<Sender<Ticket>>>);

impl Sharing {
    fn with<R>(&self, ask: impl FnOnce(&mut VecDeque<Sender<Ticket>>) -> R) -> R {
        let _held = critical();
        ask(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The binding is closed: nobody gets a ticket any more.
    pub(super) fn end(&self) {
        drop(self.with(std::mem::take));
    }
}

impl ClientEnd {
    /// Asks the server for a ticket, which gives its user a binding of its own. Of the first end.
    pub(crate) fn share(&self, row: &ClientRow) -> Result<OwnedFd, ShareError> {
        let (asker, answer) = channel();
        let closed = || ShareError::Call(*row.reason(Outcome::NotStarted));
        // Queued in the order of the questions. A thread that closes the binding sets `closed`
        // before it looks for askers.
        let asked = self.shared.sharing.with(|askers| {
            (!self.is_over(row)).then(|| {
                self.mailbox.share(row.tag())?;
                // The answer comes after this, as the clerk needs the lock that is held here.
                askers.push_back(asker);
                Ok(())
            })
        });
        asked.ok_or_else(closed)?.map_err(ShareError::System)?;
        match answer.recv_timeout(PATIENCE) {
            Ok(Ok(mut ticket)) => ticket.take().and_then(Result::ok).ok_or(ShareError::NoRoom),
            Ok(Err(NoTicket::NotAllowed)) if row.is_closed() => Err(closed()),
            Ok(Err(NoTicket::NotAllowed)) => Err(ShareError::NotAllowed),
            Ok(Err(NoTicket::NoRoom)) => Err(ShareError::NoRoom),
            Err(_) if self.is_over(row) => Err(closed()),
            Err(_) => Err(ShareError::System(std::io::ErrorKind::TimedOut.into())),
        }
    }

    /// The server has answered. Returns `false` if nobody has asked.
    pub(super) fn handed(&self, tickets: Vec<Ticket>) -> bool {
        tickets.into_iter().all(|ticket| {
            let asker = self.shared.sharing.with(|askers| askers.pop_front());
            // The asker may have stopped waiting.
            asker.is_some_and(|asker| {
                let _ = asker.send(ticket);
                true
            })
        })
    }
}
