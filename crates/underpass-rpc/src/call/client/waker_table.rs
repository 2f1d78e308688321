//! The wakers of tasks that wait for replies, and how the clerk gets to deliver these replies.
//!
//! A task polls for its reply while its executor polls it. Before it returns to the executor it
//! stores its waker here, and *arms* the channel: the attention then says `UNPOLLED`, so that the
//! next reply rings the doorbell over the socket, where the clerk hears it. The steps and their
//! proof are in `underpass-channel/src/README.md`, *Tasks*.

use super::ClientEnd;
use crate::call::linkage::TaskWait;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use underpass_channel::layout::SLOTS;
use underpass_os::{barrier, clock};
use underpass_processor::{AwaitedLine, patience, prompt_patience};
use underpass_seam::TryLock;
use underpass_seam::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// The wakers of the calls over one channel for which tasks wait. *The lock* is that of the
/// client's end.
///
/// | field | who writes it, and when |
/// |---|---|
/// | `tasks` | a task that starts or stops waiting, and a thread that delivers or loses its call, under the lock |
/// | `wakers` | made by the first task; each entry under the lock |
/// | `paid` | tasks: a hint |
/// | `notifies_again` | the thread that sets the clerk's timer, and the clerk |
#[derive(Debug, Default)]
pub(super) struct WakerTable {
    /// How many tasks wait for the doorbell: for replies, or for a slot.
    tasks: AtomicU32,
    /// One for each slot. Set while its linkage record says that a task waits.
    wakers: OnceLock<Box<[TryLock<Option<Waker>>]>>,
    paid: AtomicU32,
    /// A timer is set, at which the clerk wakes the server if it has not answered.
    notifies_again: AtomicBool,
}

/// After so many vain polls by tasks, one after the other, tasks don't poll in a row for a while.
const TRUST: u32 = 4;

impl WakerTable {
    /// Whether any task waits for the doorbell. A thread that has cleared the bits of the attention
    /// calls this after a fence.
    pub(super) fn has_tasks(&self) -> bool {
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

    /// Takes the waker of a slot for which a task waited, under the lock. The caller wakes the task
    /// after the lock.
    #[cold]
    pub(super) fn take(&self, number: u16) -> Option<Waker> {
        self.end();
        self.waker(number).try_lock().and_then(|mut waker| waker.take())
    }

    /// Whether it pays to poll several times: polls in a row have found replies lately. After 64
    /// vain ones they are tried again.
    pub(super) fn trusts(&self) -> bool {
        // Relaxed, here and in `found`: a hint.
        self.paid.load(Ordering::Relaxed) < TRUST
    }

    /// Records whether a task's polls have found its reply.
    pub(super) fn found(&self, soon: bool) {
        let paid = self.paid.load(Ordering::Relaxed);
        let next = if soon { 0 } else { (paid + 1) % (16 * TRUST) };
        if next != paid {
            self.paid.store(next, Ordering::Relaxed);
        }
    }
}

impl ClientEnd {
    /// Stores `waker`, to be woken when the call of this slot is settled. Returns `false` if it is
    /// settled already.
    pub(super) fn watch(&self, number: u16, waker: &Waker) -> bool {
        let place = self.waker_table.waker(number);
        // The user's code runs outside the lock: the clone of the waker here, and the drop of the
        // one that it replaces.
        let mut waker = Some(waker.clone());
        let inside = self.lock();
        let wait = self.linkage(number).watch();
        if wait != TaskWait::Settled
            && let Some(mut kept) = place.try_lock()
        {
            std::mem::swap(&mut *kept, &mut waker);
        }
        if wait == TaskWait::Begun {
            self.waker_table.begin();
        }
        drop(inside);
        wait != TaskWait::Settled
    }

    /// The task that waited for the call of this slot waits no more.
    pub(super) fn unwatch(&self, number: u16) {
        let inside = self.lock();
        let watched = self.linkage(number).unwatch();
        let waker = watched.then(|| self.waker_table.take(number)).flatten();
        drop(inside);
        drop(waker);
    }

    /// A task waits for a slot. Replies concern it too, because they free slots.
    pub(super) fn attend(&self) {
        let _inside = self.lock();
        self.waker_table.begin();
    }

    /// The task waits for a slot no more.
    pub(super) fn attended(&self) {
        let _inside = self.lock();
        self.waker_table.end();
    }

    /// *Arm, W2 and W3:* to be called after `watch` or `attend`. The clerk is told of replies that
    /// come from now on, and this takes those that have come.
    pub(super) fn arm(&self) {
        // SYNC with the fences in `look` and `leave`: they see this task, or this thread sees that
        // they have cleared the bit.
        fence(Ordering::SeqCst);
        let attention = self.channel.own_attention();
        // The thread that sets `UNPOLLED` drains the ring afterwards. One that clears it asks the
        // clerk to drain it.
        if !attention.is_unpolled() {
            attention.set_unpolled();
            barrier::heavy();
            self.kernel.entered(1);
            self.poll_all();
        }
        AwaitedLine::wake_spare(self);
        if self.may_be_held_up() {
            self.notify_again_in_time();
        }
    }

    /// Whether the procedures that the server runs may hold up our calls: the server has no
    /// processor but this one, or has not taken all calls.
    fn may_be_held_up(&self) -> bool {
        self.placement.same_cpu_only || self.has_untaken()
    }

    /// The server's procedures may hold up our calls. If the server does not answer, the clerk
    /// wakes it again, as a sleeper would (N10).
    #[cold]
    fn notify_again_in_time(&self) {
        // SYNC with the store in `notify_again_now`: whichever comes first has set the timer.
        if !self.waker_table.notifies_again.swap(true, Ordering::AcqRel) {
            self.notify_again_after_pause(self.has_untaken());
        }
    }

    /// Sets the timer. The delay is short if the timer is for calls that were not taken.
    fn notify_again_after_pause(&self, untaken: bool) {
        let times = self.server.notify_retries.times(self.channel.posted());
        let after = if untaken { prompt_patience(times) } else { patience(times) };
        let own = self.own.clone();
        crate::control::timer::set(clock::now_ns() + after, move || {
            if let Some(own) = own.upgrade() {
                Self::notify_again_now(&own, untaken);
            }
        });
    }

    /// The timer has fired.
    fn notify_again_now(own: &Arc<Self>, untaken: bool) {
        let notifies_again =
            AwaitedLine::notify_again_after(&**own, false).is_some() && own.waker_table.has_tasks();
        match notifies_again && own.may_be_held_up() {
            // The calls for which the timer was set have been taken. It is set again for the
            // others.
            true if untaken && !own.has_untaken() => own.notify_again_after_pause(false),
            true => {
                own.notify_again_for_tasks();
                own.notify_again_after_pause(own.has_untaken());
            }
            false => {
                own.waker_table.notifies_again.store(false, Ordering::Release);
                // SYNC with `tasks` fetch_add in `begin`, and the fence in `arm`: a task that came
                // meanwhile and found the timer set is seen here.
                fence(Ordering::SeqCst);
                if own.waker_table.has_tasks() && own.may_be_held_up() {
                    own.notify_again_in_time();
                }
            }
        }
    }
}
