//! The streams of a server that end with a binding.

use crate::guard::lock;
use std::sync::{Arc, Weak};
use underpass_rpc::binding_state;
use underpass_sync::Mutex;

/// An end of a stream that belongs to a binding.
pub(crate) trait EndsWithBinding: Send + Sync {
    /// The binding has ended for good.
    fn binding_ended(&self);
}

/// The ends of streams that belong to one binding, as the binding's state.
#[derive(Default)]
struct BindingStreams(Mutex<Ends>);

#[derive(Default)]
struct Ends {
    ends: Vec<Weak<dyn EndsWithBinding>>,
    /// At this length those that are gone are removed.
    sweep_at: usize,
}

/// In a procedure: `end` ends with the caller's binding. Elsewhere it does not.
pub(crate) fn ends_with_binding<R: EndsWithBinding + 'static>(end: &Arc<R>) {
    let Some(streams) = binding_state(BindingStreams::default) else { return };
    let mut ends = lock(&streams.0);
    if ends.ends.len() >= ends.sweep_at {
        ends.ends.retain(|end| end.strong_count() > 0);
        ends.sweep_at = 2 * ends.ends.len() + 8;
    }
    let end: Weak<dyn EndsWithBinding> = Arc::downgrade(end) as Weak<dyn EndsWithBinding>;
    ends.ends.push(end);
}

impl Drop for BindingStreams {
    fn drop(&mut self) {
        let ends = std::mem::take(&mut lock(&self.0).ends);
        ends.iter().filter_map(Weak::upgrade).for_each(|end| end.binding_ended());
    }
}
