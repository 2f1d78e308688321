//! What the monitor found out about threads that don't give way.

use crate::outside;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass_processor::Activation;

static BLOCKING: AtomicU64 = AtomicU64::new(0);
static COMPUTING: AtomicU64 = AtomicU64::new(0);

/// The thread that runs there blocks in the kernel without a bracket.
pub(crate) fn blocking(activation: &Activation) {
    note(activation, &BLOCKING);
}

/// The thread that runs there has used up its time slice.
pub(crate) fn computing(activation: &Activation) {
    note(activation, &COMPUTING);
}

fn note(activation: &Activation, count: &AtomicU64) {
    // Relaxed: statistics.
    count.fetch_add(1, Ordering::Relaxed);
    let outside = outside::if_begun(activation.number());
    if let Some(control) = outside.and_then(|outside| outside.current.get()) {
        control.found.fetch_add(1, Ordering::Relaxed);
    }
}
