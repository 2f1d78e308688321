//! The channels of one binding, on the server's side: they are served, and closed, together.

use crate::binding::clock_offset::ClockOffset;
use crate::binding::object::Binding;
use crate::binding::record::BindingRecord;
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
    /// Which of the export's services it is a binding of.
    service: usize,
    record: Arc<BindingRecord>,
    /// Whether the client may pass the binding on.
    shareable: bool,
    /// Turns times of the client's clock into times of this domain's clock.
    clock_offset: ClockOffset,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    ends: Vec<Weak<ServerEnd>>,
    /// The clerk's keys of the channels beside the first.
    keys: Vec<u64>,
    /// The tickets of this binding that may still be used.
    tickets: Vec<Weak<Connection>>,
    /// Channels beside the first that the client asked for, whether they were made or not.
    asked: usize,
    closed: bool,
    /// Channels that are open or have a call under way. One more while the clerk hands the binding
    /// to its client.
    active: usize,
    /// The binding has ended for good.
    over: bool,
}

impl Members {
    /// Whether this call ends the binding for good.
    fn end_for_good(&mut self) -> bool {
        self.closed && self.active == 0 && !std::mem::replace(&mut self.over, true)
    }
}

impl Family {
    /// The group of a binding of one `service` of `export`, without channels.
    pub(crate) fn new(
        export: u64,
        service: usize,
        record: Arc<BindingRecord>,
        shareable: bool,
        clock_offset: ClockOffset,
    ) -> Arc<Self> {
        Arc::new(Self { export, service, record, shareable, clock_offset, members: Mutex::default() })
    }

    pub(crate) fn is_shareable(&self) -> bool {
        self.shareable
    }

    /// The offset that turns times of the client's clock into times of this domain's clock.
    pub(crate) fn clock_offset(&self) -> ClockOffset {
        self.clock_offset
    }

    pub(crate) fn binding(&self) -> &Binding {
        self.record.binding()
    }

    pub(crate) fn record(&self) -> &Arc<BindingRecord> {
        &self.record
    }

    /// A channel's end is made, or the clerk begins to hand the binding to its client.
    pub(crate) fn begins(&self) {
        let _held = critical();
        self.members().active += 1;
    }

    /// A closed channel has no call under way any more, or it is known whether the client got the
    /// binding. Called once for each [`begins`](Self::begins).
    ///
    /// That may happen before [`disband`](Self::disband) marks the group as closed. Whichever of
    /// the two calls comes second finds that the binding has ended.
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

    pub(crate) fn service(&self) -> usize {
        self.service
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the further channel that the client asks for. `None` if the client has asked
    /// for more channels than an honest client does; requests that failed count too.
    pub(crate) fn next_channel_number(&self) -> Option<u8> {
        let _held = critical();
        let mut members = self.members();
        members.asked += 1;
        u8::try_from(members.asked).ok().filter(|&number| usize::from(number) < CHANNELS)
    }

    /// Adds an end. Returns `false` if the binding is closed.
    pub(crate) fn join(&self, end: &Arc<ServerEnd>) -> bool {
        let _held = critical();
        let mut members = self.members();
        if !members.closed {
            members.ends.push(Arc::downgrade(end));
        }
        !members.closed
    }

    /// The clerk has this key for one of the further channels.
    pub(crate) fn add_key(&self, key: u64) {
        let _held = critical();
        self.members().keys.push(key);
    }

    /// Takes the clerk's keys of the further channels, which the clerk then ends.
    pub(crate) fn take_keys(&self) -> Vec<u64> {
        let _held = critical();
        std::mem::take(&mut self.members().keys)
    }

    /// Adds a ticket, which ends when the binding ends.
    pub(crate) fn add_ticket(&self, ticket: Weak<Connection>) {
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

    /// Closes the group for good and takes the ends out: no further end can join.
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

    /// Ends all channels. `tell` notifies the client, over each channel. Returns `false` if no
    /// channel was open.
    fn end(&self, tell: impl Fn(&ServerEnd)) -> bool {
        let ends: Vec<_> = self.disband().into_iter().filter(|end| !end.is_closed()).collect();
        // Close all ends before the client is notified over any of them.
        ends.iter().for_each(|end| end.close());
        ends.iter().for_each(|end| tell(end));
        !ends.is_empty()
    }

    /// One end is closed, so this closes all. The clerk learns of it by their sockets.
    pub(crate) fn close(&self) {
        self.end(|end| end.mailbox().close());
    }

    /// The same as [`close`](Self::close), and tells the client that the binding is revoked.
    /// Returns `false` if it was closed.
    pub(crate) fn revoke(&self) -> bool {
        self.end(|end| end.mailbox().revoke())
    }

    /// Begins no more calls: refuses all that come.
    pub(crate) fn drain(&self) {
        self.ends().iter().for_each(|end| end.drain());
    }

    /// Whether no call is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.ends().iter().all(|end| end.is_idle())
    }

    fn ends(&self) -> Vec<Arc<ServerEnd>> {
        let _held = critical();
        self.members().ends.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Hangs up tickets. The clerk sees the hang-ups and removes the tickets from its table.
fn hang_up(tickets: &[Weak<Connection>]) {
    tickets.iter().filter_map(Weak::upgrade).for_each(|ticket| ticket.hang_up());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::peer::Peer;
    use crate::binding::record::{Endings, OnEnd};
    use crate::control::connection::BindingLink;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use underpass_os::Socket;

    #[test]
    fn a_binding_gets_a_bounded_number_of_channels() {
        let (ours, _theirs) = Socket::pair().unwrap();
        let peer = Peer::of(&BindingLink::new(Connection::new(ours))).unwrap();
        let record = BindingRecord::new(Binding::new("name".into(), peer, None), None, Arc::default());
        let family = Family::new(0, 0, record, false, ClockOffset::default());
        assert!((1..CHANNELS).all(|number| family.next_channel_number() == Some(number as u8)));
        assert!(family.next_channel_number().is_none() && family.next_channel_number().is_none());
    }

    #[test]
    fn a_closed_binding_ends_for_good_after_its_last_call() {
        let (endings, hooks) = (Arc::<Endings>::default(), Arc::new(AtomicUsize::new(0)));
        let counted = hooks.clone();
        let on_end: Arc<OnEnd> = Arc::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        for (on_end, expected) in [(Some(on_end), 1), (None, 1)] {
            let binding = Binding::new("name".into(), Peer::here(), None);
            let record = BindingRecord::new(binding, on_end, endings.clone());
            let family = Family::new(0, 0, record, false, ClockOffset::default());
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
