//! The values of a thread's own variables.

use crate::block::control::Control;
use std::any::Any;
use std::rc::Rc;

/// The values of one thread, by key.
pub(crate) struct Locals {
    pub(crate) values: Vec<Option<Rc<dyn Any>>>,
    /// The thread has ended, and its values were dropped.
    pub(crate) gone: bool,
}

impl Locals {
    pub(crate) const fn new() -> Self {
        Self { values: Vec::new(), gone: false }
    }
}

/// Destructors may make new values. After this many rounds of dropping, the rest is leaked.
const ROUNDS: usize = 16;

/// Drops the thread's values, on the thread itself: it ends, or nobody is left that could use them.
#[inline]
pub(crate) fn end(control: &'static Control) {
    // SAFETY: the value is the calling thread's own, and no reference outlives the statement.
    if !unsafe { control.locals.get() }.values.is_empty() {
        drop_all(control);
    }
}

#[cold]
fn drop_all(control: &'static Control) {
    for _ in 0..ROUNDS {
        // SAFETY: as above.
        let values = std::mem::take(&mut unsafe { control.locals.get() }.values);
        if values.is_empty() {
            break;
        }
        for value in values {
            let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(value)));
            if dropped.is_err() {
                eprintln!("underpass: a thread-local variable's destructor panicked; aborting");
                std::process::abort();
            }
        }
    }
    // SAFETY: as above.
    let locals = unsafe { control.locals.get() };
    locals.gone = true;
    // What destructors have made after the last round is leaked, as with `std`.
    std::mem::forget(std::mem::take(&mut locals.values));
}

/// The block is about to stand for another thread, and the caller is its owner.
#[inline]
pub(crate) fn begin(control: &'static Control) {
    // SAFETY: the caller owns it.
    unsafe { control.locals.get() }.gone = false;
}
