//! A binding as its server has it: a row of a connection.

use crate::binding::family::{Family, RowNews};
use crate::binding::implementation::Implementation;
use crate::binding::limits::{ChannelQuota, InterfaceQuota};
use crate::binding::object::{Binding, TO_SERVERS};
use crate::binding::record::BindingRecord;
use crate::control::connection::Connection;
use crate::dispatch::incoming::Dispatch;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use underpass_channel::Tag;
use underpass_threads::critical;
use underpass_wire::Descriptor;

/// What a call over a row needs.
pub(crate) struct ServedRow {
    pub(crate) stub: Arc<dyn Dispatch>,
    pub(crate) binding: Arc<BindingRow>,
}

impl fmt::Debug for ServedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.binding.fmt(f)
    }
}

/// One binding of a connection.
pub(crate) struct BindingRow {
    /// The clerk's key of the export.
    export: u64,
    /// Which of the export's services it is a binding of. That of a value is the service whose call
    /// gave it.
    service: usize,
    record: Arc<BindingRecord>,
    /// Whether the client may pass the binding on.
    shareable: bool,
    /// Whether it was not imported, but passed as a value.
    is_value: bool,
    /// The descriptor of its interface; for display only.
    pub(crate) descriptor: &'static Descriptor,
    family: Weak<Family>,
    tag: OnceLock<Tag>,
    /// What keeps the binding from its end: one for the row until it is removed, and one while the
    /// clerk hands the binding to its client.
    holds: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// The tickets of this binding that may still be used.
    tickets: Vec<Weak<Connection>>,
    /// The charge to its user. `None` if that of the connection's first channel stands for it.
    charge: Option<ChannelQuota>,
    /// What is behind it, until the row is removed.
    implementation: Option<Implementation>,
    /// The charge of an interface that was passed as a value.
    interface: Option<InterfaceQuota>,
}

impl BindingRow {
    /// A binding of one service of an export over the connection `family`, without a row yet.
    pub(crate) fn new(
        (export, service): (u64, usize),
        record: Arc<BindingRecord>,
        shareable: bool,
        descriptor: &'static Descriptor,
        family: &Arc<Family>,
        charge: Option<ChannelQuota>,
    ) -> Arc<Self> {
        Arc::new(Self {
            export,
            service,
            record,
            shareable,
            is_value: false,
            descriptor,
            family: Arc::downgrade(family),
            tag: OnceLock::new(),
            holds: AtomicUsize::new(1),
            state: Mutex::new(State { charge, ..State::default() }),
        })
    }

    /// A binding to `implementation`, which is passed as a value over the connection `family`. If
    /// it is given by a call of the binding `parent`, it belongs to the same service.
    pub(crate) fn of_value(
        implementation: Implementation,
        record: Arc<BindingRecord>,
        parent: Option<&Self>,
        family: &Arc<Family>,
        charge: InterfaceQuota,
    ) -> Arc<Self> {
        let descriptor = implementation.descriptor;
        let state =
            State { implementation: Some(implementation), interface: Some(charge), ..State::default() };
        Arc::new(Self {
            export: parent.map_or(TO_SERVERS, Self::export),
            service: parent.map_or(0, Self::service),
            record,
            shareable: parent.is_some_and(Self::is_shareable),
            is_value: true,
            descriptor,
            family: Arc::downgrade(family),
            tag: OnceLock::new(),
            holds: AtomicUsize::new(1),
            state: Mutex::new(state),
        })
    }

    /// Whether it was passed as a value.
    pub(crate) fn is_value(&self) -> bool {
        self.is_value
    }

    /// What is behind it. Set once before the client knows of the row.
    pub(crate) fn has(&self, implementation: Implementation) {
        let _held = critical();
        self.state().implementation = Some(implementation);
    }

    /// What is behind it, unless it is closed.
    pub(crate) fn implementation(&self) -> Option<Implementation> {
        let _held = critical();
        let state = self.state();
        state.implementation.clone().filter(|_| !state.closed)
    }

    /// Takes out what is behind it, and the charge, because the row is removed.
    pub(crate) fn take_implementation(&self) -> (Option<Implementation>, Option<InterfaceQuota>) {
        let _held = critical();
        let mut state = self.state();
        (state.implementation.take(), state.interface.take())
    }

    /// The row has this tag from now on.
    pub(crate) fn is_at(&self, tag: Tag) {
        self.tag.get_or_init(|| tag);
    }

    /// The tag of the row. The row has one before anybody else has the binding.
    pub(crate) fn tag(&self) -> Tag {
        self.tag.get().copied().unwrap_or(Tag::NONE)
    }

    pub(crate) fn export(&self) -> u64 {
        self.export
    }

    pub(crate) fn service(&self) -> usize {
        self.service
    }

    pub(crate) fn is_shareable(&self) -> bool {
        self.shareable
    }

    pub(crate) fn binding(&self) -> &Binding {
        self.record.binding()
    }

    pub(crate) fn record(&self) -> &Arc<BindingRecord> {
        &self.record
    }

    /// The connection, while it exists.
    pub(crate) fn family(&self) -> Option<Arc<Family>> {
        self.family.upgrade()
    }

    /// Something that belongs to the binding begins, and [`rests`](Self::rests) later. The binding
    /// has not ended yet.
    pub(crate) fn begins(&self) {
        // Relaxed: the caller has a hold, or the binding is not known yet.
        self.holds.fetch_add(1, Ordering::Relaxed);
    }

    /// The end of what [`begins`](Self::begins) began. The last one ends the binding for good.
    pub(crate) fn rests(&self) {
        // SYNC with the other calls of this function: the end comes after all that was held.
        if self.holds.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.record.end();
        }
    }

    /// The holder of this lock keeps its processor, and is critical.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        let _held = critical();
        self.state().closed
    }

    /// Adds a ticket, which ends when the binding ends.
    pub(crate) fn add_ticket(&self, ticket: Weak<Connection>) {
        let _held = critical();
        let mut state = self.state();
        state.tickets.retain(|ticket| ticket.strong_count() > 0);
        match state.closed {
            true => hang_up(&[ticket]),
            false => state.tickets.push(ticket),
        }
    }

    /// The row is closed: hangs up its tickets, and returns its charge. Called once.
    pub(crate) fn was_closed(&self) -> Option<ChannelQuota> {
        let held = critical();
        let mut state = self.state();
        state.closed = true;
        hang_up(&std::mem::take(&mut state.tickets));
        let charge = state.charge.take();
        drop(state);
        drop(held);
        charge
    }

    /// Takes the charge, if it is to the same account as `quota`.
    pub(crate) fn take_charge_to(&self, quota: &ChannelQuota) -> Option<ChannelQuota> {
        let _held = critical();
        let mut state = self.state();
        state.charge.take_if(|charge| Arc::ptr_eq(charge.shared(), quota.shared()))
    }

    /// Revokes the binding, and tells its client. Returns `false` if it was closed.
    pub(crate) fn revoke(&self) -> bool {
        self.family().is_some_and(|family| family.close_row(self.tag(), RowNews::Revoked))
    }

    /// Closes the binding, and tells its client.
    pub(crate) fn close(&self) {
        if let Some(family) = self.family() {
            family.close_row(self.tag(), RowNews::Closed);
        }
    }

    /// Begins no more calls: refuses all that come.
    pub(crate) fn drain(&self) {
        if let Some(family) = self.family() {
            family.drain(self.tag());
        }
    }

    /// Whether no call is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.family().is_none_or(|family| family.is_idle(self.tag()))
    }
}

/// Hangs up tickets. The clerk sees the hang-ups and removes the tickets from its table.
fn hang_up(tickets: &[Weak<Connection>]) {
    tickets.iter().filter_map(Weak::upgrade).for_each(|ticket| ticket.hang_up());
}

impl fmt::Debug for BindingRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record.fmt(f)
    }
}
