//! How a binding ends at its client: which event closes it, and what becomes of the calls.

use super::ClientEnd;
use crate::call::linkage::Delivered;
use crate::call::slot_queue::Who;
use crate::call::task_wakeup::wake_task;
use crate::call::waiting::wake;
use crate::control::mailbox::ChannelMailbox;
use crate::control::socket_events::{HandleEvents, SocketEvents};
use crate::control::watched_end::WatchedEnd;
use crate::error::{CallError, Outcome};
use std::iter;
use std::sync::PoisonError;
use underpass_os::barrier;
use underpass_seam::atomic::Ordering;

/// Why a binding is closed.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    why: CallError,
    /// It is certain that the server takes no more calls: it has said so, or is dead.
    pub(super) takes_no_more: bool,
}

impl Ending {
    /// The server has closed a row.
    pub(super) fn of_row(revoked: bool) -> Self {
        let why = if revoked { CallError::Revoked } else { CallError::Closed };
        Self { why: why(Outcome::Unknown), takes_no_more: true }
    }

    /// The server has captured too many calls of a row.
    pub(super) fn captured() -> Self {
        Self { why: CallError::Captured(Outcome::Unknown), takes_no_more: false }
    }

    /// The error of a call of which `outcome` is known.
    pub(super) fn error(&self, outcome: Outcome) -> CallError {
        match &self.why {
            CallError::ProtocolViolation(what) => CallError::ProtocolViolation(what.clone()),
            CallError::Closed(_) => CallError::Closed(outcome),
            CallError::Captured(_) => CallError::Captured(outcome),
            CallError::Revoked(_) => CallError::Revoked(outcome),
            _ => CallError::PeerDied(outcome),
        }
    }
}

impl HandleEvents for ClientEnd {
    fn handle(&self, events: SocketEvents) {
        self.forget_abandoned(events.out_of_band);
        if events.bell || events.gone {
            // What the server answered before it died counts.
            self.poll_all();
        }
        if events.bell && self.slots.leased() > 0 {
            // The doorbell was for one of the waiters. The others need theirs again.
            self.rearm();
        }
        if let Some((number, files)) = events.opened {
            self.opened(number, files);
        }
        if !self.handed(events.tickets) || !events.shares.is_empty() {
            self.violated("a ticket that nobody asked for");
        }
        let only_of_clients = events.asked > 0
            || events.unwanted != 0
            || !events.unwanted_late.is_empty()
            || !events.released.is_empty()
            || !events.reverse_asked.is_empty();
        if events.nonsense || only_of_clients {
            self.violated("nonsense over the socket");
        }
        let interfaces = self.mailbox.control().interfaces();
        events.home.into_iter().for_each(|tag| interfaces.has_come_home(tag));
        if let Some((files, ahead)) = events.reverse_opened
            && !interfaces.reverse_opened(self, files, ahead)
        {
            self.violated("a channel for interfaces that nobody asked for, or that is damaged");
        }
        for (tag, revoked) in events.rows_closed {
            self.row_closed(tag, revoked);
        }
        if events.closing {
            self.poll_all();
            self.end(CallError::Closed(Outcome::Unknown), true);
        }
        if events.gone {
            self.end(CallError::PeerDied(Outcome::Unknown), !events.unsure);
        }
    }
}

impl WatchedEnd for ClientEnd {
    fn mailbox(&self) -> &ChannelMailbox {
        &self.mailbox
    }

    fn is_further(&self) -> bool {
        Self::is_further(self)
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }

    fn is_unwatched(&self) -> Vec<u64> {
        if !Self::is_further(self) {
            self.mailbox.hang_up();
        }
        let mut keys = self.end_further();
        if WatchedEnd::has_socket(self) {
            self.mailbox.control().interfaces().end();
            keys.append(&mut self.mailbox.control().interfaces().take_keys());
        }
        keys
    }
}

impl ClientEnd {
    /// The peer broke the protocol: closes the binding.
    #[cold]
    pub(crate) fn violated(&self, what: &str) -> CallError {
        let why = CallError::ProtocolViolation(what.to_owned());
        self.end(why.clone(), false);
        why
    }

    /// Closes the connection with all of its channels and rows. Every call under way is lost, and
    /// no new one begins.
    pub(super) fn end(&self, why: CallError, takes_no_more: bool) {
        let ending = Ending { why, takes_no_more };
        // First, so that each caller finds the reason.
        self.shared.rows.end(&ending);
        if !self.close_alone(ending.clone()) {
            return;
        }
        let first = self.first_end();
        let first = first.as_deref().unwrap_or(self);
        for end in iter::once(first).chain(first.further_ends()).filter(|end| !end.is_closed()) {
            // What was answered before counts.
            end.poll_all();
            end.close_alone(ending.clone());
        }
        if !self.mailbox.is_reverse() {
            self.mailbox.control().interfaces().end();
        }
    }

    /// Of a reverse channel: the connection to which it belongs has ended.
    pub(crate) fn ends_with_connection(&self) {
        self.poll_all();
        self.end(CallError::PeerDied(Outcome::Unknown), false);
    }

    /// Closes this channel. Returns `false` if it was closed already.
    ///
    /// 1. A caller stores that it expects a reply, posts, and loads `closed`.
    /// 2. This function sets `closed`, and then looks which callers expect a reply.
    /// 3. The barrier in between reaches the caller's processor, or the caller fences at each post
    ///    (`Fence`).
    ///
    /// So the caller sees `closed`, or this function sees the caller.
    pub(super) fn close_alone(&self, ending: Ending) -> bool {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(ending);
        if self.closed.swap(true, Ordering::SeqCst) {
            return false;
        }
        barrier::heavy();
        self.lose_all();
        self.queue.take_all().iter().for_each(Who::call);
        self.lose_late_calls();
        self.shared.sharing.end();
        self.mailbox.hang_up();
        self.close_files();
        true
    }

    /// Closes the files of replies that nobody takes any more. Files of calls that were answered
    /// are left to their callers.
    fn close_files(&self) {
        self.mailbox.read();
        for (number, linkage) in (0..).zip(&self.linkage) {
            let inside = self.lock();
            let unwanted = self.slots.is_free(number) || linkage.is_lost();
            drop(inside);
            if unwanted {
                self.mailbox.forget(number);
                self.mailbox.overflow_buffers().forget(number);
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    #[cold]
    pub(super) fn lose_all(&self) {
        for (number, linkage) in self.linkage.iter().enumerate() {
            let inside = self.lock();
            let lost = linkage.lose();
            if let Delivered::Abandoned = lost {
                self.back_from_quarantine(number as u16);
            }
            let task =
                matches!(lost, Delivered::Watched).then(|| self.waker_table.take(number as u16)).flatten();
            drop(inside);
            if let Some(waker) = task {
                wake_task(waker);
            }
            if let Delivered::Taken(Some(who)) = lost {
                wake(who);
            }
        }
    }

    /// Why the channel is closed, once it is.
    pub(super) fn ending(&self) -> Option<Ending> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
