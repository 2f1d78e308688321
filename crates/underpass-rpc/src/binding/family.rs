//! What the channels of one binding have in common on the server's side: they are served, and
//! closed, as one.

use crate::binding::clocks::Shift;
use crate::binding::object::Binding;
use crate::binding::record::Record;
use crate::control::connection::Connection;
use crate::dispatch::server::ServerEnd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use underpass_channel::layout::CHANNELS;
use underpass_threads::critical;

/// The server's ends of one binding.
#[derive(Debug)]
pub(crate) struct Family {
    /// The clerk's key of the export.
    export: u64,
    record: Arc<Record>,
    /// Whether the client may pass it on.
    shareable: bool,
    /// From its client's clock.
    shift: Shift,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    ends: Vec<Weak<ServerEnd>>,
    /// The clerk's keys of the further channels.
    keys: Vec<u64>,
    /// Those by which it may be passed on, while it lasts.
    tickets: Vec<Weak<Connection>>,
    /// Channels that were asked for beside the first, whether they are there or not.
    asked: usize,
    closed: bool,
    /// Channels that are not closed, or have a call under way; and one more while the binding is
    /// given to its client.
    active: usize,
    /// The binding has ended for good.
    over: bool,
}

impl Members {
    /// Whether the binding ends for good just now.
    fn end_for_good(&mut self) -> bool {
        self.closed && self.active == 0 && !std::mem::replace(&mut self.over, true)
    }
}

impl Family {
    /// That of a binding of `export`, without ends.
    pub(crate) fn new(export: u64, record: Arc<Record>, shareable: bool, shift: Shift) -> Arc<Self> {
        Arc::new(Self { export, record, shareable, shift, members: Mutex::default() })
    }

    pub(crate) fn is_shareable(&self) -> bool {
        self.shareable
    }

    /// What makes times of this domain's clock out of the client's.
    pub(crate) fn shift(&self) -> Shift {
        self.shift
    }

    pub(crate) fn binding(&self) -> &Binding {
        self.record.binding()
    }

    pub(crate) fn record(&self) -> &Arc<Record> {
        &self.record
    }

    /// An end of one of its channels is made, or the binding is about to be given to its client.
    pub(crate) fn begins(&self) {
        let _held = critical();
        self.members().active += 1;
    }

    /// One that is closed has no call under way any more, or it is known whether the client got the
    /// binding. Once for each [`begins`](Self::begins).
    ///
    /// That may be before the family is told that it is closed. The second of this call and
    /// [`disband`](Self::disband) finds that the binding has ended.
    pub(crate) fn rests(&self) {
        let held = critical();
        let mut members = self.members();
        members.active -= 1;
        let over = members.end_for_good();
        drop(members);
        drop(held);
        if over {
            self.record.end();
        }
    }

    pub(crate) fn export(&self) -> u64 {
        self.export
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client asks for one more channel: its number. Nothing if no honest client asks for so
    /// many; those that failed count too.
    pub(crate) fn grants(&self) -> Option<u8> {
        let _held = critical();
        let mut members = self.members();
        members.asked += 1;
        u8::try_from(members.asked).ok().filter(|&number| usize::from(number) < CHANNELS)
    }

    /// One more end; `false` if the binding is closed.
    pub(crate) fn join(&self, end: &Arc<ServerEnd>) -> bool {
        let _held = critical();
        let mut members = self.members();
        if !members.closed {
            members.ends.push(Arc::downgrade(end));
        }
        !members.closed
    }

    /// The clerk has this key for one of its further channels.
    pub(crate) fn has_key(&self, key: u64) {
        let _held = critical();
        self.members().keys.push(key);
    }

    /// The clerk's keys of its further channels, which end.
    pub(crate) fn take_keys(&self) -> Vec<u64> {
        let _held = critical();
        std::mem::take(&mut self.members().keys)
    }

    /// It may be passed on by `ticket` as well, which ends with it.
    pub(crate) fn shared(&self, ticket: Weak<Connection>) {
        let _held = critical();
        let mut members = self.members();
        members.tickets.retain(|ticket| ticket.strong_count() > 0);
        match members.closed {
            true => hang_up(&[ticket]),
            false => members.tickets.push(ticket),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        let _held = critical();
        self.members().closed
    }

    /// Takes the ends out for good: no more join.
    fn disband(&self) -> Vec<Arc<ServerEnd>> {
        let held = critical();
        let mut members = self.members();
        members.closed = true;
        hang_up(&std::mem::take(&mut members.tickets));
        let ends = std::mem::take(&mut members.ends).iter().filter_map(Weak::upgrade).collect();
        let over = members.end_for_good();
        drop(members);
        drop(held);
        if over {
            self.record.end();
        }
        ends
    }

    /// Ends all of it; `tell` tells the client, over each channel.
    fn end(&self, tell: impl Fn(&ServerEnd)) -> bool {
        let ends: Vec<_> = self.disband().into_iter().filter(|end| !end.is_closed()).collect();
        // All, before the client is told over any.
        ends.iter().for_each(|end| end.close());
        ends.iter().for_each(|end| tell(end));
        !ends.is_empty()
    }

    /// One end is closed: so are all. The clerk hears of it by their sockets.
    pub(crate) fn close(&self) {
        self.end(|end| end.mailbox().close());
    }

    /// As [`close`](Self::close), and the client is to have no more of it; `false` if it was
    /// closed.
    pub(crate) fn revoke(&self) -> bool {
        self.end(|end| end.mailbox().revoke())
    }

    /// Begins no more calls: all that come are turned away.
    pub(crate) fn drain(&self) {
        self.ends().iter().for_each(|end| end.drain());
    }

    /// Whether no call is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.ends().iter().all(|end| end.under_way() == 0)
    }

    fn ends(&self) -> Vec<Arc<ServerEnd>> {
        let _held = critical();
        self.members().ends.iter().filter_map(Weak::upgrade).collect()
    }
}

/// The clerk hears of it, and clears them away.
fn hang_up(tickets: &[Weak<Connection>]) {
    tickets.iter().filter_map(Weak::upgrade).for_each(|ticket| ticket.hang_up());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::peer::Peer;
    use crate::binding::record::{Endings, OnEnd};
    use crate::control::connection::Link;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use underpass_os::Socket;

    #[test]
    fn so_many_channels_are_granted() {
        let (ours, _theirs) = Socket::pair().unwrap();
        let peer = Peer::of(&Link::new(Connection::new(ours))).unwrap();
        let record = Record::new(Binding::new("name".into(), peer, None), None, Arc::default());
        let family = Family::new(0, record, false, Shift::default());
        assert!((1..CHANNELS).all(|number| family.grants() == Some(number as u8)));
        assert!(family.grants().is_none() && family.grants().is_none());
    }

    #[test]
    fn the_end_of_a_binding_that_is_closed_is_to_come_while_a_call_of_it_runs() {
        let (endings, hooks) = (Arc::<Endings>::default(), Arc::new(AtomicUsize::new(0)));
        let counted = hooks.clone();
        let on_end: Arc<OnEnd> = Arc::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        for (on_end, expected) in [(Some(on_end), 1), (None, 1)] {
            let binding = Binding::new("name".into(), Peer::here(), None);
            let record = Record::new(binding, on_end, endings.clone());
            let family = Family::new(0, record, false, Shift::default());
            // A channel with a call under way.
            family.begins();
            assert!(!endings.are_over(), "an open binding has its end before it");
            family.close();
            assert!(!endings.are_over());
            family.rests();
            while !endings.are_over() {
                std::thread::yield_now();
            }
            assert_eq!(hooks.load(Ordering::SeqCst), expected);
        }
    }
}
