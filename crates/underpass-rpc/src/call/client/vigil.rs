//! Who hears of the replies that only tasks wait for, and which task is to be woken.
//!
//! A task looks for itself while it is polled. Before it lets its executor's thread go it has its
//! waker kept here, and the channel *armed*: its attention says `ASIDE`, so that the next reply
//! rings over the socket, where the clerk hears it. The steps and their proof are in
//! `underpass-channel/src/README.md`, *Tasks*.

use super::ClientEnd;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use underpass_channel::layout::SLOTS;
use underpass_os::{barrier, clock};
use underpass_processor::{Line, patience, prompt_patience};
use underpass_seam::TryLock;
use underpass_seam::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// The wakers of the calls over one channel that tasks wait for. *The lock* is that of the client's
/// end.
///
/// | field | who writes it, and when |
/// |---|---|
/// | `tasks` | who watches, delivers, loses or gives up, under the lock |
/// | `wakers` | made by the first task; each the same ones, under the lock |
/// | `paid` | tasks: a hint |
/// | `insists` | who sets the clerk's timer, and the clerk |
#[derive(Debug, Default)]
pub(super) struct Vigil {
    /// How many tasks wait for the bell: for replies, or for a slot.
    tasks: AtomicU32,
    /// One for each slot; there while its linkage record is watched.
    wakers: OnceLock<Box<[TryLock<Option<Waker>>]>>,
    paid: AtomicU32,
    /// The clerk is to call the server if it keeps silent.
    insists: AtomicBool,
}

/// Looks of tasks for their replies, one after the other, that end in vain before it is not tried
/// for a while.
const TRUST: u32 = 4;

impl Vigil {
    /// Whether any task waits for the bell. After a fence, for who has cleared the bits of the
    /// attention.
    pub(super) fn is_kept(&self) -> bool {
        // SYNC with `tasks` fetch_add in `begin`, by the fences on both sides.
        self.tasks.load(Ordering::SeqCst) > 0
    }

    /// Under the lock.
    fn begin(&self) {
        self.tasks.fetch_add(1, Ordering::SeqCst);
    }

    /// Under the lock.
    fn end(&self) {
        self.tasks.fetch_sub(1, Ordering::SeqCst);
    }

    fn waker(&self, number: u16) -> &TryLock<Option<Waker>> {
        let wakers = self.wakers.get_or_init(|| (0..SLOTS).map(|_| TryLock::new(None)).collect());
        &wakers[usize::from(number)]
    }

    /// Takes the waker of a slot that was watched, under the lock; the caller wakes it after that.
    #[cold]
    pub(super) fn take(&self, number: u16) -> Option<Waker> {
        self.end();
        self.waker(number).try_lock().and_then(|mut waker| waker.take())
    }

    /// Whether it is worth while to look for more than a moment: the looks of late have found
    /// something. Now and then it is tried again.
    pub(super) fn trusts(&self) -> bool {
        // Relaxed, here and in `found`: a hint.
        self.paid.load(Ordering::Relaxed) < TRUST
    }

    /// A task's looks have found its reply, or have not.
    pub(super) fn found(&self, soon: bool) {
        let paid = self.paid.load(Ordering::Relaxed);
        let next = if soon { 0 } else { (paid + 1) % (16 * TRUST) };
        if next != paid {
            self.paid.store(next, Ordering::Relaxed);
        }
    }
}

impl ClientEnd {
    /// Has `waker` woken when the call of this slot is settled; `false` if it is by now.
    pub(super) fn watch(&self, number: u16, waker: &Waker) -> bool {
        let place = self.vigil.waker(number);
        // What a user has made runs outside the lock: its clone here, and the drop of the one that
        // it takes the place of.
        let mut waker = Some(waker.clone());
        let inside = self.lock();
        let watched = self.linkage(number).watch();
        if let Some(first) = watched {
            if let Some(mut kept) = place.try_lock() {
                std::mem::swap(&mut *kept, &mut waker);
            }
            if first {
                self.vigil.begin();
            }
        }
        drop(inside);
        watched.is_some()
    }

    /// The task that waits for the call of this slot waits no more.
    pub(super) fn unwatch(&self, number: u16) {
        let inside = self.lock();
        let watched = self.linkage(number).unwatch();
        let waker = watched.then(|| self.vigil.take(number)).flatten();
        drop(inside);
        drop(waker);
    }

    /// A task waits for a slot: replies are its affair too, as slots come free by them.
    pub(super) fn attend(&self) {
        let _inside = self.lock();
        self.vigil.begin();
    }

    /// It doesn't wait any more.
    pub(super) fn attended(&self) {
        let _inside = self.lock();
        self.vigil.end();
    }

    /// *Arm, W2 and W3:* after `watch` or `attend` has the clerk hear of what comes from now on,
    /// and takes what has come.
    pub(super) fn arm(&self) {
        // SYNC with the fences in `look` and `leave`: they see this task, or this sees that they
        // have cleared the bit.
        fence(Ordering::SeqCst);
        let attention = self.channel.own_attention();
        // Who has set it takes what has come afterwards, and so has whoever clears it the clerk do.
        if !attention.is_aside() {
            attention.set_aside();
            barrier::heavy();
            self.kernel.entered(1);
            self.poll_all();
        }
        Line::knock(self);
        if self.may_be_held_up() {
            self.insist_in_time();
        }
    }

    /// Whether what the server runs may hold up calls of ours: it has no processor but this one, or
    /// has not taken all.
    fn may_be_held_up(&self) -> bool {
        self.placement.same_cpu_only || self.has_untaken()
    }

    /// What the server runs may be held up: if it keeps silent it is called again, as who sleeps
    /// calls it (N10).
    #[cold]
    fn insist_in_time(&self) {
        // SYNC with the store in `insist`: whichever comes first has set the timer.
        if !self.vigil.insists.swap(true, Ordering::AcqRel) {
            self.insist_after(self.has_untaken());
        }
    }

    /// Sets the timer: promptly, if that is for calls that were not taken.
    fn insist_after(&self, untaken: bool) {
        let times = self.insisted.times(self.channel.posted());
        let after = if untaken { prompt_patience(times) } else { patience(times) };
        let own = self.own.clone();
        crate::control::timer::set(clock::now_ns() + after, move || {
            if let Some(own) = own.upgrade() {
                Self::insist_now(&own, untaken);
            }
        });
    }

    /// The timer's time has come.
    fn insist_now(own: &Arc<Self>, untaken: bool) {
        let insists = Line::insists(&**own, false).is_some() && own.vigil.is_kept();
        match insists && own.may_be_held_up() {
            // What the timer was set for has been taken: it is set anew for what else there is.
            true if untaken && !own.has_untaken() => own.insist_after(false),
            true => {
                Line::insist(&**own);
                own.insist_after(own.has_untaken());
            }
            false => {
                own.vigil.insists.store(false, Ordering::Release);
                // SYNC with `tasks` fetch_add in `begin`, and the fence in `arm`: who came
                // meanwhile and found the timer set is seen here.
                fence(Ordering::SeqCst);
                if own.vigil.is_kept() && own.may_be_held_up() {
                    own.insist_in_time();
                }
            }
        }
    }
}
