//! Decides whether a call may start. A binding that ends starts none. A user who has as many calls
//! under way as he may has to wait.

use super::{Served, ServerEnd};
use underpass_seam::atomic::{Ordering, fence};
use underpass_sync::SpinGuard;

/// What the server does with calls that come. `CLOSED` never changes.
pub(super) mod gate {
    /// It runs them.
    pub(crate) const OPEN: u32 = 0;
    /// It leaves them where they are, until other calls of the same user have ended.
    pub(crate) const HELD: u32 = 2;
    /// It takes none of them.
    pub(crate) const CLOSED: u32 = 3;
}

/// How many calls under way over a channel are not counted for its user. So if a call overlaps no
/// other call of its channel, no shared count is written for it.
const FREE: u32 = 1;
/// This bit is added to their number once the channel is closed. Then each call that ends takes the
/// cold path, as a counted call does, and the hot path needs no check of its own.
const CLOSED: u32 = 1 << 31;
/// This bit is added while a row is closed that a call under way uses.
const ROW_WAITS: u32 = 1 << 30;
/// The number itself.
const CALLS: u32 = !(CLOSED | ROW_WAITS);

// The gate changes, and is loaded, under the lock wherever it matters which calls began before.
// Relaxed everywhere, since the lock orders it.
impl ServerEnd {
    /// Whether calls that have come are processed: run, or turned away.
    #[inline]
    pub(super) fn takes_calls(&self) -> bool {
        self.gate.load(Ordering::Relaxed) < gate::HELD
    }

    /// Whether no call waits that is to be processed. `false` if the lock is taken and this can't
    /// be told now.
    pub(super) fn has_none(&self) -> bool {
        !self.takes_calls()
            || self.lock.try_enter().is_some_and(|_inside| !self.channel.receiving().pending())
    }

    /// Whether every call that has come has its reply. Under the lock, because a call that a thread
    /// has taken counts as under way only a moment later. `false` if the lock is taken.
    pub(super) fn has_answered_all(&self) -> bool {
        self.lock.try_enter().is_some_and(|_inside| {
            !self.channel.receiving().pending() && self.under_way.load(Ordering::Relaxed) & !CLOSED == 0
        })
    }

    /// Whether a call may begin. Under the lock. If it returns `true`, `one_more_under_way` or
    /// `began_nothing` must follow there.
    #[inline]
    pub(super) fn may_begin(&self) -> bool {
        // One load: if the gate opened between two loads, an uncounted call would be taken for a
        // counted one.
        let free = || self.under_way.load(Ordering::Relaxed) < FREE;
        self.gate.load(Ordering::Relaxed) == gate::OPEN && (free() || self.is_counted())
    }

    #[cold]
    fn is_counted(&self) -> bool {
        let account = self.quota.account();
        self.under_way.load(Ordering::Relaxed) & CALLS < FREE
            || account.enters()
            || (self.late.overdraws() && account.enters_anyway())
    }

    #[inline]
    pub(super) fn one_more_under_way(&self) {
        self.under_way.store(self.under_way.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// No call has begun. Leaves the lock first.
    #[cold]
    pub(super) fn began_nothing(&self, inside: SpinGuard<'_>) {
        let counted = self.under_way.load(Ordering::Relaxed) & CALLS >= FREE;
        drop(inside);
        if counted {
            self.quota.account().leaves();
        }
    }

    /// A call has ended. Under the lock. The returned value is passed to
    /// [`call_ended`](Self::call_ended) afterwards.
    #[inline]
    pub(super) fn one_less_under_way(&self) -> u32 {
        let left = self.under_way.load(Ordering::Relaxed) - 1;
        self.under_way.store(left, Ordering::Relaxed);
        left
    }

    /// A call has ended, and `left` calls are left.
    #[inline]
    pub(super) fn call_ended(&self, left: u32) {
        if left >= FREE {
            self.call_ended_apart(left);
        }
    }

    /// The call was counted for its user, or it may have used a row that is closed.
    #[cold]
    fn call_ended_apart(&self, left: u32) {
        if left & CALLS >= FREE {
            self.quota.account().leaves();
        }
        if left & (CLOSED | ROW_WAITS) != 0 {
            // E2.
            self.family.sweep();
        }
    }

    /// The gate is closed, and this takes the lock after that: no call begins any more.
    pub(super) fn no_more_begin(&self) {
        let _inside = self.lock.enter();
        let left = self.under_way.load(Ordering::Relaxed);
        self.under_way.store(left | CLOSED, Ordering::Relaxed);
    }

    /// Notes whether a call under way uses a row that is closed. Under the lock.
    pub(super) fn set_row_waits(&self, waits: bool) {
        let left = self.under_way.load(Ordering::Relaxed) & !ROW_WAITS;
        self.under_way.store(left | if waits { ROW_WAITS } else { 0 }, Ordering::Relaxed);
    }

    /// A call that had come ends without a reply, as the client broke the protocol.
    #[cold]
    pub(super) fn ends_unanswered(&self, slot: &Served) {
        let inside = self.lock.enter();
        slot.ends();
        let left = self.one_less_under_way();
        drop(inside);
        self.call_ended(left);
    }

    /// No call may begin, and one has come, or may have. Returns whether something was done about
    /// it.
    #[cold]
    pub(super) fn does_not_begin(&self) -> bool {
        match self.gate.load(Ordering::Relaxed) {
            gate::OPEN => {
                // The user has too many under way. It does no harm if calls have come since.
                self.quota.account().hold(self.own.clone(), || self.pass(gate::OPEN, gate::HELD));
                false
            }
            _ => false,
        }
    }

    fn pass(&self, from: u32, to: u32) {
        // If the gate has moved further, it stays there.
        let _ = self.gate.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Holds calls back if too many of the user's calls block; else lets them go. Other threads may
    /// do so at the same time, and the user's account may change meanwhile.
    ///
    /// 1. This function moves the gate, and then loads the account again.
    /// 2. A thread that changes the account does so before it calls this function.
    ///
    /// So the last move of the gate agrees with the account.
    pub(crate) fn follow(&self) {
        loop {
            let shut = self.quota.account().is_shut();
            match shut {
                true => self.pass(gate::OPEN, gate::HELD),
                false => self.pass(gate::HELD, gate::OPEN),
            }
            // SYNC with `shut` swap in `set_blocked`: either this load sees the account's change,
            // or that thread sees our move.
            fence(Ordering::SeqCst);
            if self.quota.account().is_shut() == shut {
                return;
            }
        }
    }

    /// Lets held calls begin if the user's account allows it, and has a processor poll this line.
    /// Called when the user is below his limit of calls under way again, or of blocked ones.
    pub(crate) fn let_go(&self) {
        self.follow();
        self.heard();
    }

    /// Lets held calls begin, because an answer waits for a request that may lie behind them.
    #[cold]
    pub(super) fn let_go_if_held(&self) {
        if self.gate.load(Ordering::Relaxed) == gate::HELD {
            self.let_go();
        }
    }

    /// Returns after every thread that held the lock before has left it.
    pub(crate) fn wait_for_lock(&self) {
        drop(self.lock.enter());
    }
}
