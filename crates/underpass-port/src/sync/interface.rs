//! What travels between a sender and its owner: an interface whose types are those of the port.

use crate::__private::{CallError, CarriedError, ResultOf};
use crate::sync::message::SyncMessage;
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use underpass_macros::Wire;
use underpass_threads::critical;
use underpass_wire::{Descriptor, Encode, Schema, Sizes, astack};

/// The procedures.
pub(crate) const SEND: u16 = 0;
pub(crate) const OPEN: u16 = 1;
pub(crate) const SKIP: u16 = 2;

/// The number of messages without an order.
pub(crate) const NO_NUMBER: u64 = u64::MAX;

/// What a sender learns when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate)]
pub(crate) struct SyncPortSizes {
    pub(crate) lane: u64,
    pub(crate) messages: u64,
    pub(crate) longest: u64,
    /// Whether messages have an order, and so numbers.
    pub(crate) ordered: bool,
}

/// Why a message has no reply.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate)]
pub(crate) enum PortRefusal {
    Call(CallError),
    /// It is longer than the port allows.
    TooLong,
    /// No receiver has it, or will ever have it.
    NotReceived,
}

/// The marker of [`PortRefusal`].
#[derive(Debug)]
pub(crate) enum RefusalMark {}

impl CarriedError for RefusalMark {
    type Itself = PortRefusal;

    fn from_call_error(error: CallError) -> PortRefusal {
        PortRefusal::Call(error)
    }
}

/// The interface of a port with these types. Each pair of types has one, which is kept for ever.
pub(crate) fn descriptor<M: SyncMessage, R: Schema + Send + 'static>() -> &'static Descriptor {
    static KNOWN: Mutex<Option<HashMap<TypeId, &'static Descriptor>>> = Mutex::new(None);
    let key = TypeId::of::<(M, R)>();
    let find = || {
        let _held = critical();
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref()?.get(&key).copied()
    };
    if let Some(found) = find() {
        return found;
    }
    let made: &'static Descriptor = Box::leak(Box::new(make::<M, R>()));
    let _held = critical();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_default().entry(key).or_insert(made)
}

fn make<M: SyncMessage, R: Schema + Send + 'static>() -> Descriptor {
    let mut port = Descriptor::builder("SyncPort", "A synchronous port.");
    // A sender's numbers mean nothing to the next owner, and it has none if there may be one.
    port.stateless();
    let send = Sizes::of::<ResultOf<R, RefusalMark>>(&[u64::FIXED, M::Travels::FIXED], None);
    port.procedure("send", "Sends a message.", send)
        .argument::<u64>("number")
        .argument::<M::Travels>("message")
        .calls(astack::MOST_CALLS)
        .result::<ResultOf<R, RefusalMark>>();
    let open = Sizes::of::<ResultOf<SyncPortSizes, RefusalMark>>(&[], None);
    port.procedure("open", "The sizes of the port.", open).result::<ResultOf<SyncPortSizes, RefusalMark>>();
    let skip = Sizes::of::<ResultOf<(), RefusalMark>>(&[u64::FIXED], None);
    port.procedure("skip", "Gives a number up.", skip)
        .argument::<u64>("number")
        .result::<ResultOf<(), RefusalMark>>();
    port.finish()
}
