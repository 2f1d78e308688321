//! The right to reply to one message.

use crate::sync::interface::PortRefusal;
use std::fmt;
use underpass_os::{clock, failpoint, fork};
use underpass_rpc::{Cancellation, DeferredReply};
use underpass_wire::Schema;

/// The right to reply to one message, for any thread and at any time. If it is dropped, that one
/// sender gets [`SyncSendError::Dropped`](crate::sync::SyncSendError::Dropped).
///
/// It belongs to one message, whatever slot that has used: a reply never reaches another one. If
/// the sender has given up or died meanwhile, the reply is discarded.
#[must_use = "a sender waits for the reply; if this is dropped, it gets an error"]
pub struct Reply<R: Schema + Send + 'static> {
    /// `None` once it was given.
    right: Option<DeferredReply<Result<R, PortRefusal>>>,
    /// The receiver has the message.
    received: bool,
    /// When the message came, in ms of the clock.
    came_ms: u32,
}

/// The clock by which messages get old.
pub(crate) fn now_ms() -> u32 {
    (clock::tick_ns() / 1_000_000) as u32
}

impl<R: Schema + Send + 'static> Reply<R> {
    pub(crate) fn new(right: DeferredReply<Result<R, PortRefusal>>) -> Self {
        Self { right: Some(right), received: false, came_ms: now_ms() }
    }

    /// When the message came, in ms of the clock modulo 2³².
    pub(crate) fn came_ms(&self) -> u32 {
        self.came_ms
    }

    /// R1.
    pub(crate) fn received(&mut self) {
        self.received = true;
    }

    /// Replies.
    pub fn give(mut self, reply: R) {
        self.end(Ok(reply));
    }

    fn end(&mut self, reply: Result<R, PortRefusal>) {
        if let Some(right) = self.right.take() {
            match fork::is_forked() {
                // A child has no bindings, and must not write into its parent's.
                true => std::mem::forget(right),
                false => {
                    right.give(reply);
                    failpoint!("sync-owner-given");
                }
            }
        }
    }

    /// Whether the sender still waits: it has not given up or died, and its deadline has not
    /// passed. Takes a few ns.
    pub fn is_wanted(&self) -> bool {
        self.cancellation().is_some_and(|cancellation| !cancellation.is_cancelled())
    }

    /// How long the sender waits: its deadline, and a future that completes when it gives up. A
    /// clone of it can outlive this.
    pub fn cancellation(&self) -> Option<&Cancellation> {
        Some(self.right.as_ref()?.cancellation())
    }
}

impl<R: Schema + Send + 'static> Drop for Reply<R> {
    fn drop(&mut self) {
        match self.received && !fork::is_forked() {
            // Its own drop tells the sender.
            true => self.right = None,
            false => self.end(Err(PortRefusal::NotReceived)),
        }
    }
}

impl<R: Schema + Send + 'static> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("is_wanted", &self.is_wanted()).finish_non_exhaustive()
    }
}
