//! Calls for which nobody waits any more, as their client says: the handler learns of it, and calls
//! of its own that it waits for end.
//!
//! The client has said so in the slot's word before it tells over the socket. The thread that runs
//! the call is asked at its home to end its waits; calls that are made for this one by other
//! threads, or by an async handler, are in `nested`. A call that has not been taken yet is refused
//! when it is.

use super::{ServerEnd, by};
use crate::call::abandon::Abandon;
use std::sync::{Arc, MutexGuard, PoisonError};
use underpass_channel::{Cell, Head, Payload};
use underpass_seam::atomic::Ordering;
use underpass_sync::Inside;
use underpass_threads::critical;

/// What frees the calls that are made for the call of `slot`, the `number`th over it.
#[derive(Debug)]
struct Nested {
    slot: u16,
    number: u64,
    by: Abandon,
}

/// What there is to do for calls that nobody waits for any more.
#[derive(Debug, Default)]
pub(super) struct Unwanted {
    /// Calls that are made for calls, other than by the threads that run these.
    nested: Vec<Nested>,
    /// Of each slot for whose call the thread was asked that ran it, how many calls had ended
    /// before that one.
    asked: Vec<(u16, u64)>,
}

impl Unwanted {
    /// Whether to ask for this call: once, however often its client says it, as the thread's home
    /// may be long in coming to it.
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
        if self.channel.wanted(number).ask().is_some() {
            // It has had its reply meanwhile, and the slot is another's.
            return;
        }
        let (who, calls) = (slot.by.load(Ordering::Relaxed), slot.count.sent());
        if who == by::NOBODY {
            slot.by.store(by::WARY, Ordering::Relaxed);
        }
        drop(inside);
        if matches!(who, by::NOBODY | by::WARY) {
            return;
        }
        let held = critical();
        let asks = who != by::LATER && self.told().asks(number, calls);
        drop(held);
        if asks {
            // Without a hold on the binding: what is done there runs on no thread, where nothing of
            // the user's may come to its end.
            let slots = self.slots.clone();
            // Where that thread runs no other call can have begun since, if this one has not ended.
            underpass_threads::unwanted(who, move || slots[usize::from(number)].is_at(calls, who));
        }
        let held = critical();
        let nested: Vec<_> = self
            .told()
            .nested
            .iter()
            .filter(|one| (one.slot, one.number) == (number, calls))
            .map(|one| one.by.clone())
            .collect();
        drop(held);
        nested.iter().for_each(Abandon::abandon);
    }

    /// A cell has come that no honest client writes. Leaves the lock; says that nothing was served.
    #[cold]
    pub(super) fn takes_nonsense(&self, inside: Inside<'_>) -> bool {
        self.began_nothing(inside);
        self.violated();
        false
    }

    /// A call has come over a slot that is not simply free. Leaves the lock.
    #[cold]
    pub(super) fn takes_odd(&self, inside: Inside<'_>, head: Head, payload: Payload, by: u64) -> bool {
        let Some(slot) = self.slots.get(usize::from(head.slot())).filter(|slot| !slot.is_busy()) else {
            // A slot that there isn't, or that has a call under way.
            return self.takes_nonsense(inside);
        };
        slot.begins(by, head.ids().what());
        self.one_more_under_way();
        drop(inside);
        let mut cell = Cell::came(head, payload);
        // Refused like a bounded one, once what came along with it is taken.
        cell.bounded |= self.channel.wanted(cell.slot()).ask().is_none();
        self.run_other(&cell, slot);
        true
    }

    /// The call of `number` is an executor's to run, from now on.
    pub(crate) fn runs_later(&self, number: u16) {
        // Relaxed: the slot is this call's, until the executor answers.
        self.slots[usize::from(number)].by.store(by::LATER, Ordering::Relaxed);
    }

    /// The slot whose call the thread `who` runs.
    pub(crate) fn slot_of(&self, who: u64) -> Option<u16> {
        // Relaxed: it has stored its number itself.
        let place = self.slots.iter().position(|slot| slot.by.load(Ordering::Relaxed) == who)?;
        Some(place as u16)
    }

    /// How many calls over slot `number` have ended.
    pub(crate) fn calls_ended(&self, number: u16) -> u64 {
        self.slots[usize::from(number)].count.sent()
    }

    /// Whoever holds it keeps its processor.
    fn told(&self) -> MutexGuard<'_, Unwanted> {
        self.unwanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls are made for the call of `slot`, the `number`th over it, that are freed `by` this when
    /// nobody waits for that any more.
    pub(crate) fn nests(&self, slot: u16, number: u64, by: Abandon) {
        let _held = critical();
        self.told().nested.push(Nested { slot, number, by });
    }

    /// No more are.
    pub(crate) fn nests_no_more(&self, by: &Abandon) {
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
    use crate::binding::clock_offset::ClockOffset;
    use crate::binding::family::Family;
    use crate::binding::handshake::CpuPlacement;
    use crate::binding::limits::{Limits, Quotas};
    use crate::binding::object::Binding;
    use crate::binding::peer::Peer;
    use crate::binding::record::BindingRecord;
    use crate::binding::service::Service;
    use crate::control::connection::{BindingLink, Connection};
    use crate::control::control_socket::ControlSocket;
    use crate::control::mailbox::ChannelMailbox;
    use crate::dispatch::incoming::{Dispatch, Incoming, Refused};
    use std::collections::HashMap;
    use std::sync::mpsc::channel;
    use underpass_channel::layout::{STACK, region};
    use underpass_channel::{Channel, Fence};
    use underpass_os::Socket;
    use underpass_wire::Descriptor;

    struct Nothing;

    impl Dispatch for Nothing {
        fn dispatch(&self, call: &mut Incoming<'_>) -> Result<(), Refused> {
            call.unknown()
        }
    }

    fn end() -> Arc<ServerEnd> {
        let (channel, _file) = Channel::create(Fence::Full, STACK).unwrap();
        let (ours, _theirs) = Socket::pair().unwrap();
        let ours = BindingLink::new(Connection::new(ours));
        let binding = Binding::new("unwanted".into(), Peer::of(&ours).unwrap(), None);
        let quota = Quotas::new(Limits::NONE, HashMap::new()).admit(0, region(STACK) as u64).unwrap();
        let record = BindingRecord::new(binding, None, Arc::default());
        let family = Family::new(0, record, false, ClockOffset::default());
        let placement = CpuPlacement { may_overlap: false, may_share_cpu: false, same_cpu_only: false };
        let descriptor = Box::leak(Box::new(Descriptor::builder("Nothing", "").finish()));
        let service = Service::new(descriptor, Arc::new(Nothing), Arc::new(()));
        let mailbox = ChannelMailbox::of_server(ControlSocket::new(ours, Some(&quota)), &quota);
        ServerEnd::new(channel, mailbox, &service, placement, family, quota)
    }

    #[test]
    fn a_client_that_says_it_again_and_again_leaves_one_errand_for_each_call() {
        let end = end();
        let ((tell, told), (release, released)) = (channel(), channel::<()>());
        // A handler that its processor does not get away from.
        let handler = underpass_threads::spawn(move || {
            let _held = critical();
            tell.send(underpass_threads::me().id()).unwrap();
            released.recv().unwrap();
        });
        let slot = &end.slots[3];
        slot.by.store(told.recv().unwrap(), Ordering::Relaxed);
        end.channel.wanted(3).no_more();
        for call in 1..=2 {
            (0..1000).for_each(|_| end.unwanted(1 << 3));
            assert_eq!(Arc::strong_count(&end.slots), 1 + call, "errands that wait hold on to the slots");
            assert_eq!((Arc::strong_count(&end), Arc::weak_count(&end)), (1, 2), "and to nothing else");
            slot.count.out(0);
        }
        release.send(()).unwrap();
        handler.join().unwrap();
    }
}
