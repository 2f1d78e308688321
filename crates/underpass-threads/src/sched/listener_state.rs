//! What a listener remembers of the processors that it was lent.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use underpass_processor::Line;

/// What a listener knows. Its own.
#[derive(Default)]
pub(crate) struct ListenerState {
    /// Lines whose peers have donated the processor that it runs on.
    pub(crate) lent: RefCell<Vec<Rc<Arc<dyn Line>>>>,
    /// Lines whose peers have just got it back.
    pub(crate) returned: RefCell<Vec<Rc<Arc<dyn Line>>>>,
    /// When a processor came last, and how many have come in a row.
    pub(crate) last: Cell<u64>,
    pub(crate) row: Cell<u32>,
}
