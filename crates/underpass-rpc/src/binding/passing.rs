//! Interfaces that a domain gives as values: a row for each, and what becomes of the implementation
//! when the row ends. The design is in `interface_exchange/README.md`.

use crate::binding::family::Family;
use crate::binding::implementation::Implementation;
use crate::binding::limits::InterfaceQuota;
use crate::binding::object::Binding;
use crate::binding::record::{BindingRecord, CountedEnding};
use crate::binding::row::{BindingRow, ServedRow};
use crate::control::clerk::clerk;
use crate::dispatch::server::served;
use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, PoisonError};
use underpass_channel::Tag;
use underpass_os::failpoint;
use underpass_threads::{critical, me};

/// What was behind a row that was removed.
struct EndedValue {
    served: Option<ServedRow>,
    implementation: Option<Implementation>,
    _charge: Option<InterfaceQuota>,
    /// A shutdown of the server waits for it. Dropped last.
    _ending: CountedEnding,
}

/// The implementations of a connection that are still to be dropped.
#[derive(Default)]
pub(crate) struct EndedValues {
    values: Vec<EndedValue>,
    /// A thread drops them.
    dropping: bool,
}

underpass_threads::thread_local! {
    /// The binding of the late call whose reply the thread encodes.
    static REPLIES_FOR: RefCell<Option<Arc<BindingRow>>> = const { RefCell::new(None) };
}

/// Runs `encode` for a call of the binding `row` that has given its slot back.
pub(crate) fn replies_for<R>(row: &Arc<BindingRow>, encode: impl FnOnce() -> R) -> R {
    let set = |row| REPLIES_FOR.try_with(|of| of.replace(row)).ok().flatten();
    let before = set(Some(row.clone()));
    let encoded = catch_unwind(AssertUnwindSafe(encode));
    set(before);
    encoded.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Family {
    /// The binding that gives. What it gives belongs to the same export. A reply over `slot` of
    /// channel `number` answers a call of it. A callback is made by a handler of it, or by another
    /// thread.
    fn giver(&self, reply: Option<(u8, u16)>) -> Option<Arc<BindingRow>> {
        let of_thread = || REPLIES_FOR.try_with(|of| of.borrow().clone()).ok().flatten();
        let is_here = |row: &Arc<BindingRow>| row.family().is_some_and(|family| std::ptr::eq(&*family, self));
        let Some((number, slot)) = reply else {
            return row_of_own_call().filter(is_here).or_else(|| self.any_row());
        };
        // A slot that a late reply has is that of a call which collects, and uses no binding.
        let ends = self.ends();
        let of_slot = ends.iter().find(|end| end.mailbox().number() == number);
        of_slot.and_then(|end| end.binding_of(slot)).or_else(|| of_thread().filter(is_here))
    }

    /// Opens a row for `implementation`, which a reply over this slot of this channel gives, or
    /// else a request.
    pub(super) fn give(
        self: &Arc<Self>,
        implementation: Implementation,
        reply: Option<(u8, u16)>,
    ) -> io::Result<Tag> {
        let parent = if self.is_reverse() { None } else { self.giver(reply) };
        if parent.is_none() && !self.is_reverse() {
            return Err(io::Error::other("the call that gives an interface has ended"));
        }
        let ends = self.ends();
        let end = ends.first().ok_or_else(closed)?;
        let charge = end.quota().shared().interface().map_err(io::Error::other)?;
        let peer = self.client().peer.with_new_binding();
        let (name, expires, endings) = match &parent {
            Some(parent) => {
                let of = parent.binding();
                (of.name.clone(), of.expires, parent.record().endings().clone())
            }
            None => (implementation.descriptor.name.into(), None, Arc::default()),
        };
        let record = BindingRecord::new(Binding::new(name, peer, expires), None, endings);
        let served = implementation.stub.clone();
        let row = BindingRow::of_value(implementation, record, parent.as_deref(), self, charge);
        let served = ServedRow { stub: served, binding: row.clone() };
        failpoint!("interface-made");
        if self.add_row_of(served, parent.map(|parent| parent.tag())) {
            if expires.is_some() {
                clerk()?.expires(&row);
            }
            failpoint!("interface-given");
            return Ok(row.tag());
        }
        row.record().nobody_got_it();
        row.rests();
        Err(closed())
    }

    /// What is behind an open row that the peer sends home.
    pub(super) fn comes_home(&self, tag: Tag) -> Option<Implementation> {
        self.row(tag)?.implementation()
    }

    /// The row of a value was removed. A thread drops the implementation, because that runs the
    /// user's code.
    pub(super) fn drop_value_of(&self, served: Option<ServedRow>, row: &Arc<BindingRow>) {
        let ending = row.record().one_more_ending();
        let (implementation, charge) = row.take_implementation();
        let value = EndedValue { served, implementation, _charge: charge, _ending: ending };
        let held = critical();
        let mut ended = self.ended();
        ended.values.push(value);
        let starts = !std::mem::replace(&mut ended.dropping, true);
        drop(ended);
        drop(held);
        // A forked child has no threads.
        if starts
            && underpass_os::fork::check().is_ok()
            && let Some(own) = self.itself()
        {
            underpass_threads::spawn(move || own.drop_ended());
        }
    }

    /// The holder of this lock keeps its processor, and is critical.
    fn ended(&self) -> MutexGuard<'_, EndedValues> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what is behind removed rows, as long as there is any.
    fn drop_ended(&self) {
        loop {
            let held = critical();
            let mut ended = self.ended();
            let values = std::mem::take(&mut ended.values);
            ended.dropping = !values.is_empty();
            drop(ended);
            drop(held);
            if values.is_empty() {
                return;
            }
            for EndedValue { served, implementation, _charge, _ending } in values {
                // The panic hook has reported the panic.
                let _ = catch_unwind(AssertUnwindSafe(|| drop((served, implementation))));
                failpoint!("interface-dropped");
            }
        }
    }
}

/// The row of the call that the calling thread runs.
fn row_of_own_call() -> Option<Arc<BindingRow>> {
    let end = served()?;
    end.binding_of(end.slot_of(me().id())?)
}

fn closed() -> io::Error {
    io::Error::other("the binding is closed")
}
