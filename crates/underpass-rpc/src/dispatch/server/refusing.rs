//! Calls that are not begun: those of a binding that ends, and those of a user who has as many
//! under way as he may.

use super::{Served, ServerEnd, by};
use crate::dispatch::incoming::Status;
use underpass_channel::{Cell, Payload};
use underpass_seam::atomic::{Ordering, fence};
use underpass_sync::Inside;

/// What the server does with calls that come. Who drains never opens again, and who is closed does
/// nothing else any more.
pub(super) mod gate {
    /// It runs them.
    pub(crate) const OPEN: u32 = 0;
    /// It turns them away.
    pub(crate) const DRAINS: u32 = 1;
    /// It leaves them where they are, until others of the same user have ended.
    pub(crate) const HELD: u32 = 2;
    /// It looks at them no more.
    pub(crate) const CLOSED: u32 = 3;
}

/// Calls under way over a channel that are not counted for its user. So a call that nothing else of
/// its client overlaps is counted by nobody.
const FREE: u32 = 1;
/// Beside their number, once the channel is closed. So each call that ends then ends apart, as one
/// that is counted for its user does, and nothing is asked where calls end as usual.
const CLOSED: u32 = 1 << 31;

// The gate changes, and is looked at, under the lock where what was begun before matters; relaxed
// everywhere, since the lock orders it.
impl ServerEnd {
    /// Whether calls that have come are seen to, one way or the other.
    #[inline]
    pub(super) fn takes_calls(&self) -> bool {
        self.gate.load(Ordering::Relaxed) < gate::HELD
    }

    /// Whether no call waits that is to be seen to. `false` if that can't be told now.
    pub(super) fn has_none(&self) -> bool {
        !self.takes_calls()
            || self.lock.try_enter().is_some_and(|_inside| !self.channel.receiving().pending())
    }

    /// Whether a call may begin. Under the lock; if so, `one_more_under_way` or `began_nothing`
    /// follows there.
    #[inline]
    pub(super) fn may_begin(&self) -> bool {
        // One load: a gate that opens between two would have a call counted that is none of those counted.
        let free = || self.under_way.load(Ordering::Relaxed) < FREE;
        self.gate.load(Ordering::Relaxed) == gate::OPEN && (free() || self.is_counted())
    }

    /// Whether the next call may begin and is counted for nobody: without the lock, a hint.
    #[inline]
    pub(super) fn begins_freely(&self) -> bool {
        self.gate.load(Ordering::Relaxed) == gate::OPEN && self.under_way.load(Ordering::Relaxed) < FREE
    }

    #[cold]
    fn is_counted(&self) -> bool {
        self.quota.account().enters()
    }

    #[inline]
    pub(super) fn one_more_under_way(&self) {
        self.under_way.store(self.under_way.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// None has begun. Leaves the lock first.
    #[cold]
    pub(super) fn began_nothing(&self, inside: Inside<'_>) {
        let counted = self.under_way.load(Ordering::Relaxed) >= FREE;
        drop(inside);
        if counted {
            self.quota.account().leaves();
        }
    }

    /// A call has ended. Under the lock; what is returned goes to [`call_ended`](Self::call_ended)
    /// afterwards.
    #[inline]
    pub(super) fn one_less_under_way(&self) -> u32 {
        let left = self.under_way.load(Ordering::Relaxed) - 1;
        self.under_way.store(left, Ordering::Relaxed);
        left
    }

    /// A call has ended, and so many are left.
    #[inline]
    pub(super) fn call_ended(&self, left: u32) {
        if left >= FREE {
            self.call_ended_apart(left);
        }
    }

    /// It was counted for its user, or the channel is closed.
    #[cold]
    fn call_ended_apart(&self, left: u32) {
        if left & !CLOSED >= FREE {
            self.quota.account().leaves();
        }
        if left == CLOSED {
            self.family.rests();
        }
    }

    /// The gate is closed, and the lock has been free since: no call begins any more. Says whether
    /// none is under way; if not, the last one says so when it ends.
    pub(super) fn no_more_begin(&self) -> bool {
        let _inside = self.lock.enter();
        let left = self.under_way.load(Ordering::Relaxed);
        self.under_way.store(left | CLOSED, Ordering::Relaxed);
        left == 0
    }

    /// A call that had come ends without a reply, as the client broke the rules.
    #[cold]
    pub(super) fn ends_unanswered(&self, slot: &Served) {
        let inside = self.lock.enter();
        slot.by.store(by::NOBODY, Ordering::Relaxed);
        let left = self.one_less_under_way();
        drop(inside);
        self.call_ended(left);
    }

    /// No call may begin, and one has come, or may have; says whether something was done about it.
    #[cold]
    pub(super) fn does_not_begin(&self) -> bool {
        match self.gate.load(Ordering::Relaxed) {
            gate::OPEN => {
                // It had too many. What else has come since does no harm.
                self.quota.account().hold(self.own.clone(), || self.pass(gate::OPEN, gate::HELD));
                false
            }
            gate::DRAINS => self.turn_one_away(),
            _ => false,
        }
    }

    fn pass(&self, from: u32, to: u32) {
        // One that is further on stays there.
        let _ = self.gate.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Holds calls back if too many of its user's block, else lets them go. Others may do so at the
    /// same time, and the user's account may change.
    ///
    /// This moves the gate and then looks at the account again; whoever changes the account does so
    /// before this. So the last move is the one that the account says.
    pub(crate) fn follow(&self) {
        loop {
            let shut = self.quota.account().is_shut();
            match shut {
                true => self.pass(gate::OPEN, gate::HELD),
                false => self.pass(gate::HELD, gate::OPEN),
            }
            // SYNC with `shut` swap in `set_blocked`: the account's change, or our move, is seen by
            // the other.
            fence(Ordering::SeqCst);
            if self.quota.account().is_shut() == shut {
                return;
            }
        }
    }

    /// Its user has fewer calls under way than he may, or fewer of them block.
    pub(crate) fn let_go(&self) {
        self.follow();
        self.heard();
    }

    /// From now on calls that come are turned away; those under way go on.
    pub(crate) fn drain(&self) {
        let inside = self.lock.enter();
        let further = |now| (now != gate::CLOSED).then_some(gate::DRAINS);
        let _ = self.gate.fetch_update(Ordering::Relaxed, Ordering::Relaxed, further);
        drop(inside);
        // Some may have waited.
        self.heard();
    }

    /// How many calls are under way.
    pub(crate) fn under_way(&self) -> u32 {
        let _inside = self.lock.enter();
        self.under_way.load(Ordering::Relaxed) & !CLOSED
    }

    /// Answers the next call, if one has come, without having begun it.
    fn turn_one_away(&self) -> bool {
        let inside = self.lock.enter();
        let number = match self.channel.take(&mut Payload::new()) {
            Ok(None) => return false,
            Ok(Some(head)) => Some(head.slot()),
            Err(_) => None,
        };
        let is_free = |&number: &u16| self.slots.get(usize::from(number)).is_some_and(|slot| !slot.is_busy());
        let Some(number) = number.filter(is_free) else {
            drop(inside);
            self.violated();
            return false;
        };
        let bell = self.post(&Cell::new(number, Status::Closed as u16));
        drop(inside);
        self.posted(bell);
        true
    }
}
