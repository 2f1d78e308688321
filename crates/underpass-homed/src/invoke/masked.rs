//! Whether incoming invocations are disabled for the calling thread, and what it may invoke.

use crate::invoke::errors::InvokeError;
use std::cell::Cell;
use underpass_threads::thread_local;

thread_local! {
    /// Critical sections and handlers in which the thread is.
    static MASKED: Cell<u32> = Cell::new(0);
    /// The home whose handler the thread runs, by its address, or 0.
    static HANDLING: Cell<usize> = Cell::new(0);
    /// Hybrid locks of other domains' objects that the thread holds.
    static HOLDING: Cell<u32> = Cell::new(0);
}

/// Whether they are. A thread that is ending invokes nothing.
pub(crate) fn is_masked() -> bool {
    MASKED.try_with(Cell::get) != Ok(0)
}

/// Whether the thread may invoke another home. Not while incoming invocations are disabled, and
/// not while it holds a lock that the handlers of that home could want.
pub(crate) fn outgoing() -> Result<(), InvokeError> {
    match (is_masked(), HOLDING.try_with(Cell::get)) {
        (true, _) => Err(InvokeError::Masked),
        (false, Ok(0)) => Ok(()),
        (false, _) => Err(InvokeError::HoldsLock),
    }
}

/// The thread has taken a hybrid lock of another domain's object.
pub(crate) fn hold() {
    let _ = HOLDING.try_with(|holding| holding.set(holding.get() + 1));
}

/// It has released it.
pub(crate) fn let_go() {
    let _ = HOLDING.try_with(|holding| holding.set(holding.get() - 1));
}

/// The thread enters a section.
pub(crate) fn enter() {
    let _ = MASKED.try_with(|masked| masked.set(masked.get() + 1));
}

/// The thread leaves a section.
pub(crate) fn leave() {
    let _ = MASKED.try_with(|masked| masked.set(masked.get() - 1));
}

/// The home whose handler the thread runs, or 0.
pub(crate) fn handling() -> usize {
    HANDLING.try_with(Cell::get).unwrap_or(0)
}

/// The thread runs a handler of the home at `address` while this lives.
#[derive(Debug)]
pub(crate) struct Handling;

impl Handling {
    pub(crate) fn of(address: usize) -> Self {
        enter();
        let _ = HANDLING.try_with(|handling| handling.set(address));
        Self
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        let _ = HANDLING.try_with(|handling| handling.set(0));
        leave();
    }
}
