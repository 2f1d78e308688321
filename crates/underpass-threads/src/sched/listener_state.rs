//! What a listener remembers of the processors that it was lent.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use underpass_processor::Line;

/// The state of a listener. Only its own kernel thread uses it.
#[derive(Default)]
pub(crate) struct ListenerState {
    /// The lines whose peers have donated the processor on which it runs.
    pub(crate) lent: RefCell<Vec<Rc<Arc<dyn Line>>>>,
    /// The lines whose peers have just got their processor back.
    pub(crate) returned: RefCell<Vec<Rc<Arc<dyn Line>>>>,
    /// When a processor came last, and how many have come in a row within a short time.
    pub(crate) last: Cell<u64>,
    pub(crate) row: Cell<u32>,
}
