//! What comes back over a binding: replies are taken, delivered to their callers, and not lost on a sleeper.

use super::ClientEnd;
use crate::linkage::Delivered;
use crate::summons::wake_task;
use crate::waiting::wake;
use underpass_channel::layout::SLOTS;
use underpass_channel::{Cell, Place};
use underpass_os::{barrier, failpoint};
use underpass_seam::atomic::Ordering;
use underpass_sync::Inside;

/// Replies that are taken under the lock before those who wait for them are woken.
const BATCH: usize = 16;

impl ClientEnd {
    /// Parcels have come for the slots that are bits of `slots`. Those of calls that were given up are closed at once: it may be long until somebody looks for
    /// their replies.
    pub(super) fn parcels(&self, mut slots: u64) {
        while slots != 0 {
            let number = slots.trailing_zeros() as u16;
            slots &= slots - 1;
            drop(self.mailbox.forget_if(number, || self.linkage(number).is_abandoned()));
        }
    }

    /// Takes all that has come, also if another thread is about to stop taking.
    pub(super) fn poll_all(&self) {
        self.take_replies(|| Some(self.lock()));
    }

    /// Takes replies as long as there are some and `enter` gives the lock; says whether any came.
    #[inline]
    pub(super) fn take_replies<'a>(&'a self, enter: impl Fn() -> Option<Inside<'a>>) -> bool {
        let (mut taken, mut more) = (0, !self.is_closed());
        let mut cell = Cell::new(0, 0);
        // An honest server has no more to say than there are slots.
        while more && taken < SLOTS {
            let Some(inside) = enter() else { break };
            let mut woken = [None; BATCH];
            let (mut abandoned, mut damaged, mut task) = (false, None, None);
            for one in &mut woken {
                match self.channel.receiving().take(&mut cell) {
                    Ok(true) => {}
                    Ok(false) => {
                        more = false;
                        break;
                    }
                    Err(_) => {
                        damaged = Some("a reply that no honest server writes");
                        break;
                    }
                }
                taken += 1;
                match self.linkage.get(usize::from(cell.slot)).map(|linkage| linkage.deliver(&cell)) {
                    Some(Delivered::Taken(who)) => *one = who,
                    Some(Delivered::Watched) => {
                        task = self.vigil.take(cell.slot);
                        break;
                    }
                    Some(Delivered::Abandoned) => {
                        abandoned = true;
                        break;
                    }
                    Some(Delivered::Unexpected) | None => {
                        damaged = Some("a reply to no call");
                        break;
                    }
                }
            }
            drop(inside);
            failpoint!("client-delivered");
            woken.into_iter().flatten().for_each(wake);
            if let Some(waker) = task {
                wake_task(waker);
            }
            if abandoned {
                self.reclaim(&cell);
            }
            if let Some(what) = damaged {
                self.violated(what);
                break;
            }
        }
        taken > 0
    }

    /// The reply to a call that was given up has come.
    #[cold]
    fn reclaim(&self, cell: &Cell) {
        if cell.place == Place::Aside {
            drop(self.mailbox.take(cell.slot, |news| self.news(news)));
        }
        let inside = self.lock();
        self.back_from_quarantine(cell.slot);
        drop(inside);
        self.queue.next(|| self.slots.leased());
    }

    /// Announces a sleep on behalf of those that sleep already, after a bell of theirs may have gone elsewhere.
    pub(super) fn rearm(&self) {
        if self.aside.load(Ordering::Relaxed) || self.vigil.is_kept() {
            self.channel.own_attention().set_aside();
        }
        self.channel.own_attention().park(false);
        barrier::heavy();
        self.kernel.entered(1);
        self.poll_all();
    }
}
