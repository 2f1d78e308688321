//! Replies whose out-of-band part found the socket full. They are posted when it has room.
#![doc = include_str!("held_replies/README.md")]

use super::{ServerEnd, by};
use crate::binding::limits::LateQuota;
use crate::control::control_socket::PATIENCE;
use crate::control::timer;
use crate::dispatch::incoming::Status;
use crate::payload::held_out_of_band::PassedHeld;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use underpass_channel::{Cell, PayloadPlace};
use underpass_os::clock;
use underpass_seam::atomic::Ordering;
use underpass_threads::critical;

/// How soon the clerk tries again.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The same, at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);
/// The error text of a client that does not read its socket.
const UNREAD: &str = "the socket of the connection is full, and the caller's process does not read it";

/// The replies of one channel that wait for room in the socket.
#[derive(Default)]
pub(super) struct HeldReplies(Mutex<HeldState>);

#[derive(Default)]
struct HeldState {
    replies: Vec<HeldReply>,
    /// A timer is set, or the clerk tries right now.
    retries: bool,
}

struct HeldReply {
    reply: Cell,
    /// When it is given up.
    until_ns: u64,
    /// It answers a late call, over the slot of the call that collects.
    late: Option<LateQuota>,
}

impl HeldReplies {
    /// The holder of this lock keeps its processor.
    fn state(&self) -> MutexGuard<'_, HeldState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerEnd {
    /// A reply with bytes in neither cell nor A-stack, or with files, is about to be posted. *F2:*
    /// if its out-of-band part is held, holds the reply too, and returns `true`.
    #[cold]
    #[inline(never)]
    pub(super) fn holds_large(&self, reply: &Cell) -> bool {
        self.was_large();
        if !self.waits_for_room(reply) {
            return false;
        }
        // The thread that ran the call takes other ones from now on.
        self.runs_later(reply.slot());
        self.hold_reply(*reply, None);
        true
    }

    /// Whether the out-of-band part of the reply is held.
    pub(super) fn waits_for_room(&self, reply: &Cell) -> bool {
        reply.place == PayloadPlace::OutOfBand && self.mailbox.holds(reply.slot())
    }

    /// *F2.*
    #[cold]
    pub(super) fn hold_reply(&self, reply: Cell, late: Option<LateQuota>) {
        let held = HeldReply { reply, until_ns: clock::deadline_ns(PATIENCE), late };
        let _held = critical();
        let mut state = self.late.held.state();
        state.replies.push(held);
        let starts = !mem::replace(&mut state.retries, true);
        drop(state);
        if starts && let Some(own) = self.own() {
            own.retry_after(FIRST_PAUSE);
        }
    }

    fn retry_after(self: Arc<Self>, pause: Duration) {
        timer::set(clock::deadline_ns(pause), move || self.retry(pause));
    }

    /// *F3 to F5:* runs on the clerk's thread.
    fn retry(self: Arc<Self>, pause: Duration) {
        let take = |with: &mut HeldState| mem::take(&mut with.replies);
        let tried = {
            let _held = critical();
            take(&mut self.late.held.state())
        };
        let count = tried.len();
        let (mut left, mut full) = (Vec::new(), false);
        let now = clock::now_ns();
        for held in tried {
            left.extend(self.retry_one(held, now, &mut full));
        }
        let next = if left.len() < count { FIRST_PAUSE } else { LONGEST_PAUSE.min(2 * pause) };
        let again = {
            let _held = critical();
            let mut state = self.late.held.state();
            // Those that have come meanwhile wait the shortest.
            left.append(&mut state.replies);
            state.replies = left;
            state.retries = !state.replies.is_empty();
            state.retries
        };
        if again {
            self.retry_after(next);
        }
    }

    /// Tries to send one held reply, unless the socket is known to be `full`. Returns it if it
    /// stays held.
    fn retry_one(&self, held: HeldReply, now_ns: u64, full: &mut bool) -> Option<HeldReply> {
        let slot = held.reply.slot();
        if self.is_closed() {
            self.mailbox.forget_held(slot);
            self.drop_reply(held);
            return None;
        }
        let passed = match *full {
            true => PassedHeld::Full,
            false => self.mailbox.pass_held(slot),
        };
        match passed {
            PassedHeld::Sent => self.post_held(held.reply, held.late),
            PassedHeld::Full if now_ns < held.until_ns => {
                *full = true;
                return Some(held);
            }
            PassedHeld::Full => self.refuse_held(held, UNREAD),
            PassedHeld::Failed(e) => self.refuse_held(held, &e.to_string()),
            // It has been forgotten since, as the channel ends.
            PassedHeld::NotHeld => self.drop_reply(held),
        }
        None
    }

    /// *F4.*
    fn refuse_held(&self, held: HeldReply, why: &str) {
        let reply = self.refuse(held.reply.slot(), Status::NoRoomForResult, why);
        self.post_held(reply, held.late);
    }

    fn post_held(&self, reply: Cell, late: Option<LateQuota>) {
        match late {
            None => self.answer(&reply),
            Some(quota) => self.post_held_late(&reply, quota),
        }
    }

    /// *F5.*
    fn drop_reply(&self, held: HeldReply) {
        let slot = &self.slots[usize::from(held.reply.slot())];
        match held.late {
            None => self.ends_unanswered(slot),
            Some(quota) => {
                slot.by.store(by::NOBODY, Ordering::Relaxed);
                self.late_was_posted(quota);
            }
        }
    }
}
