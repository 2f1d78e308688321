//! Async calls, as their handlers and the server's end share them: how a call gives its slot back,
//! and how its handler learns that nobody wants the result any more.
#![doc = include_str!("late/README.md")]

pub(crate) mod signal;

use self::signal::Signal;
use crate::binding::row::BindingRow;
use std::sync::Arc;
use underpass_seam::atomic::{AtomicBool, Ordering};
use underpass_sync::CallTurn;

/// A call whose reply comes from an executor, or from the holder of its deferred reply.
#[derive(Debug)]
pub(crate) struct AsyncCall {
    /// The binding does not end before the call: it has a hold until `ServerEnd` ends the call.
    row: Arc<BindingRow>,
    slot: u16,
    /// How many calls over the slot had ended before it. With the slot this names the call.
    before: u64,
    /// Its handler reads in the slot's A-stack or overflow buffer, so the slot stays its own.
    keeps_slot: bool,
    /// The sweep has seen it before.
    swept: AtomicBool,
    pub(crate) turn: CallTurn,
    pub(crate) signal: Signal,
}

impl AsyncCall {
    /// A call of the binding `row` that has come over `slot`, after `before` others.
    pub(crate) fn new(row: Arc<BindingRow>, slot: u16, before: u64, keeps_slot: bool) -> Self {
        row.begins();
        let (turn, signal) = (CallTurn::default(), Signal::default());
        Self { row, slot, before, keeps_slot, swept: AtomicBool::new(false), turn, signal }
    }

    /// The binding.
    pub(crate) fn row(&self) -> &Arc<BindingRow> {
        &self.row
    }

    /// The slot over which it came.
    pub(crate) fn slot(&self) -> u16 {
        self.slot
    }

    /// The slot and the number of calls over it that had ended before: no other call of the channel
    /// has the same.
    pub(crate) fn origin(&self) -> (u16, u64) {
        (self.slot, self.before)
    }

    pub(crate) fn keeps_slot(&self) -> bool {
        self.keeps_slot
    }

    /// Whether a sweep has seen it before; the next one finds that this one has.
    pub(crate) fn was_swept(&self) -> bool {
        // Relaxed: only sweeps use it, one at a time.
        self.swept.swap(true, Ordering::Relaxed)
    }
}
