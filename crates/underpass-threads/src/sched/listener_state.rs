//! What a listener remembers of the processors that it was lent.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use underpass_processor::{Line, ReturnPolicy};

/// A processor on loan.
pub(crate) struct Loan {
    /// The line whose peer has donated it.
    pub(crate) line: Rc<Arc<dyn Line>>,
    /// When it goes back.
    pub(crate) policy: ReturnPolicy,
}

/// The state of a listener. Only its own kernel thread uses it.
#[derive(Default)]
pub(crate) struct ListenerState {
    /// The loans of the processor on which it runs. Several clients may have lent it.
    pub(crate) lent: RefCell<Vec<Loan>>,
    /// The loans that have just ended.
    pub(crate) returned: RefCell<Vec<Loan>>,
    /// When a processor came last, and how many have come in a row within a short time.
    pub(crate) last: Cell<u64>,
    pub(crate) row: Cell<u32>,
}
