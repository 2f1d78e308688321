//! Calls for which nobody waits any more, as their client says. Their handlers are told, and calls
//! that these handlers make and wait for are ended.
//!
//! The server tells the call's async handler, the calls that are made on its behalf, and the tasks
//! that asked to be told.
//!
//! The client has written this into the slot's cancel word before it tells over the socket. The
//! thread that runs the call is asked, on its own activation, to end its waits. Calls that other
//! threads or an async handler make on behalf of this call are in `nested`. A call that has not
//! been taken yet is refused when it is taken.

use super::{ServerEnd, by};
use crate::call::abandon::Abandon;
use crate::dispatch::late::signal::Signal;
use crate::dispatch::rows_in_use;
use std::sync::{Arc, MutexGuard, PoisonError};
use underpass_channel::{Cell, Head, Payload, Tag};
use underpass_seam::atomic::Ordering;
use underpass_sync::SpinGuard;
use underpass_threads::critical;

/// What is told when nobody waits for a call any more.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// Frees calls that are made on behalf of the call.
    Nested(Abandon),
    /// Wakes tasks.
    Tasks(Arc<Signal>),
}

impl Told {
    fn tell(&self) {
        match self {
            Self::Nested(by) => by.abandon(),
            Self::Tasks(signal) => signal.give_up(),
        }
    }

    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nested(one), Self::Nested(other)) => one.is(other),
            (Self::Tasks(one), Self::Tasks(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// One of those to tell about the `number`th call over `slot`.
#[derive(Debug)]
struct Nested {
    slot: u16,
    number: u64,
    by: Told,
}

/// What the server keeps for calls for which nobody waits any more.
#[derive(Debug, Default)]
pub(super) struct Unwanted {
    /// Those to tell about calls: calls made on behalf of them, by other threads than the ones that
    /// run them, and tasks.
    nested: Vec<Nested>,
    /// For each slot whose thread was asked to end its call's waits: how many calls over the slot
    /// had ended before that call.
    asked: Vec<(u16, u64)>,
}

impl Unwanted {
    /// Whether to ask the thread of this call: once only, however often the client says it, because
    /// it may take long until the thread's activation does it.
    fn asks(&mut self, slot: u16, number: u64) -> bool {
        match self.asked.iter_mut().find(|asked| asked.0 == slot) {
            Some(asked) => std::mem::replace(&mut asked.1, number) != number,
            None => {
                self.asked.push((slot, number));
                true
            }
        }
    }
}

/// The end whose call the calling thread runs.
pub(crate) fn served() -> Option<Arc<ServerEnd>> {
    underpass_threads::served()?.itself()?.downcast().ok()
}

impl ServerEnd {
    /// The client says that nobody waits any more for the calls of these slots.
    #[cold]
    pub(super) fn unwanted(&self, mut slots: u64) {
        while slots != 0 {
            self.is_unwanted(slots.trailing_zeros() as u16);
            slots &= slots - 1;
        }
    }

    fn is_unwanted(&self, number: u16) {
        let slot = &self.slots[usize::from(number)];
        let inside = self.lock.enter();
        if !self.channel.cancel_word(number).read().is_cancelled() {
            // The client has its reply by now, and the slot belongs to another call.
            return;
        }
        let (who, calls) = (slot.by.load(Ordering::Relaxed), slot.count.sent());
        if who == by::NOBODY {
            slot.by.store(by::WARY, Ordering::Relaxed);
        }
        drop(inside);
        if matches!(who, by::NOBODY | by::WARY | by::COLLECT) {
            return;
        }
        let held = critical();
        let asks = who != by::LATER && self.told().asks(number, calls);
        drop(held);
        if asks {
            // The closure has no hold on the binding: it runs outside of any thread, where the
            // user's values must not be dropped.
            let slots = self.slots.clone();
            // If this call has not ended, the thread can have begun no other one since.
            underpass_threads::unwanted(who, move || slots[usize::from(number)].is_at(calls, who));
        }
        if who == by::LATER
            && let Some(call) = self.late.in_slot(number, calls)
        {
            call.signal.give_up();
        }
        self.tell_nested(number, calls);
    }

    /// Tells all that are to be told when nobody waits for the `number`th call over `slot`.
    pub(super) fn tell_nested(&self, slot: u16, number: u64) {
        let held = critical();
        let nested: Vec<_> = self
            .told()
            .nested
            .iter()
            .filter(|one| (one.slot, one.number) == (slot, number))
            .map(|one| one.by.clone())
            .collect();
        drop(held);
        nested.iter().for_each(Told::tell);
    }

    /// The connection has ended: wakes the tasks that asked to be told, and the async handlers.
    #[cold]
    pub(super) fn tells_of_end(&self) {
        self.wake_tasks();
        self.late.close();
    }

    /// A row is closed: wakes the tasks that asked to be told, and the async handlers of the row's
    /// calls. Tasks of other rows' calls find theirs wanted, and wait on.
    #[cold]
    pub(crate) fn tells_of_closed_row(&self, tag: Tag) {
        self.wake_tasks();
        self.late.wake_handlers_of(tag);
    }

    fn wake_tasks(&self) {
        let held = critical();
        let tasks = |told: &Nested| match &told.by {
            Told::Tasks(signal) => Some(signal.clone()),
            Told::Nested(_) => None,
        };
        let signals: Vec<_> = self.told().nested.iter().filter_map(tasks).collect();
        drop(held);
        signals.iter().for_each(|signal| signal.wake());
    }

    /// A cell has come that no honest client writes. Leaves the lock. Returns that nothing was
    /// served.
    #[cold]
    pub(super) fn takes_nonsense(&self, inside: SpinGuard<'_>) -> bool {
        self.began_nothing(inside);
        self.violated();
        false
    }

    /// A call has come over a slot that is not simply free. Leaves the lock.
    #[cold]
    pub(super) fn takes_odd(&self, inside: SpinGuard<'_>, head: Head, payload: Payload, by: u64) -> bool {
        let Some(slot) = self.slots.get(usize::from(head.slot())).filter(|slot| !slot.is_busy()) else {
            // There is no such slot, or it has a call under way.
            return self.takes_nonsense(inside);
        };
        let mut cell = Cell::from_parts(head, payload);
        let row = rows_in_use::begin(&inside, &slot.row, &self.rows, cell.tag(), cell.what());
        slot.begins(by);
        self.one_more_under_way();
        drop(inside);
        // Refused like a bounded call, after what came along with it is taken.
        cell.bounded |= self.channel.cancel_word(cell.slot()).read().is_cancelled();
        self.run_other(&cell, slot, row);
        true
    }

    /// From now on an executor runs the call of `number`.
    pub(crate) fn runs_later(&self, number: u16) {
        // Relaxed: the slot belongs to this call, until the executor replies.
        self.slots[usize::from(number)].by.store(by::LATER, Ordering::Relaxed);
    }

    /// The slot whose call thread `who` runs.
    pub(crate) fn slot_of(&self, who: u64) -> Option<u16> {
        // Relaxed: the thread has stored its number itself.
        let place = self.slots.iter().position(|slot| slot.by.load(Ordering::Relaxed) == who)?;
        Some(place as u16)
    }

    /// How many calls over slot `number` have ended.
    pub(crate) fn calls_ended(&self, number: u16) -> u64 {
        self.slots[usize::from(number)].count.sent()
    }

    /// The holder of this lock keeps its processor.
    fn told(&self) -> MutexGuard<'_, Unwanted> {
        self.unwanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `by` is told when nobody waits any more for the `number`th call over `slot`.
    pub(crate) fn nests(&self, slot: u16, number: u64, by: Told) {
        let _held = critical();
        self.told().nested.push(Nested { slot, number, by });
    }

    /// It need not be told any more.
    pub(crate) fn nests_no_more(&self, by: &Told) {
        let held = critical();
        let mut told = self.told();
        let place = told.nested.iter().position(|one| one.by.is(by));
        let gone = place.map(|place| told.nested.swap_remove(place));
        drop(told);
        drop(held);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::family::{Client, Family};
    use crate::binding::handshake::CpuPlacement;
    use crate::binding::limits::{Limits, Quotas};
    use crate::binding::peer::Peer;
    use crate::control::connection::{BindingLink, Connection};
    use crate::control::control_socket::ControlSocket;
    use crate::control::mailbox::ChannelMailbox;
    use crate::dispatch::deadline::{begin, cancelled};
    use crate::dispatch::section_numbers::SectionNumbers;
    use std::collections::HashMap;
    use std::pin::pin;
    use std::sync::mpsc::channel;
    use std::task::{Context, Wake, Waker};
    use underpass_channel::layout::{STACK, region};
    use underpass_channel::{Channel, Fence};
    use underpass_os::Socket;

    fn end() -> Arc<ServerEnd> {
        let (channel, _file) = Channel::create(Fence::Full, STACK).unwrap();
        let (ours, _theirs) = Socket::pair().unwrap();
        let ours = BindingLink::new(Connection::new(ours));
        let quota = Quotas::new(Limits::NONE, HashMap::new()).admit(0, region(STACK) as u64).unwrap();
        let family = Family::new(0, Arc::downgrade(&ours), Client::of(Peer::of(&ours).unwrap()));
        let placement = CpuPlacement { may_overlap: false, may_share_cpu: false, same_cpu_only: false };
        let mailbox = ChannelMailbox::of_server(ControlSocket::new(ours, Some(&quota)), &quota);
        ServerEnd::new(channel, mailbox, placement, family, quota)
    }

    #[derive(Default)]
    struct Count(std::sync::atomic::AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_learns_that_nobody_wants_a_blocking_call() {
        let end = end();
        type Tell = fn(&ServerEnd);
        let tells: [(u16, Tell); 2] = [
            (5, |end| {
                end.channel.cancel_word(5).cancel();
                end.unwanted(1 << 5);
            }),
            (6, |end| end.close()),
        ];
        for (slot, tell) in tells {
            // No thread is to be asked.
            end.slots[usize::from(slot)].by.store(by::LATER, Ordering::Relaxed);
            let serving = begin(end.clone(), slot, None, SectionNumbers::default());
            let mut cancelled = pin!(cancelled());
            drop(serving);
            let count = Arc::new(Count::default());
            let waker = Waker::from(count.clone());
            let mut poll = || cancelled.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            assert!(!poll() && !poll());
            tell(&end);
            assert!(poll() && count.0.load(std::sync::atomic::Ordering::Relaxed) == 1);
        }
        assert!(end.told().nested.is_empty(), "the futures are gone, and nobody is to be told");
    }

    #[test]
    fn repeated_cancellations_leave_one_injected_task_for_each_call() {
        let end = end();
        let ((tell, told), (release, released)) = (channel(), channel::<()>());
        // A handler that keeps its processor.
        let handler = underpass_threads::spawn(move || {
            let _held = critical();
            tell.send(underpass_threads::me().id()).unwrap();
            released.recv().unwrap();
        });
        let slot = &end.slots[3];
        slot.by.store(told.recv().unwrap(), Ordering::Relaxed);
        end.channel.cancel_word(3).cancel();
        for call in 1..=2 {
            (0..1000).for_each(|_| end.unwanted(1 << 3));
            assert_eq!(Arc::strong_count(&end.slots), 1 + call, "tasks that wait hold the slots");
            assert_eq!((Arc::strong_count(&end), Arc::weak_count(&end)), (1, 2), "and nothing else");
            slot.count.out(0);
        }
        release.send(()).unwrap();
        handler.join().unwrap();
    }
}
