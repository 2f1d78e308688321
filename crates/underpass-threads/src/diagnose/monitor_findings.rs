//! What the monitor has found out about threads that don't give way.

use crate::block::control::Control;
use crate::sched::activations;
use std::sync::atomic::Ordering;
use underpass_processor::Activation;

/// How often the monitor found a thread that did not give way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorFindings {
    /// Blocked in the kernel, without brackets or in a page fault.
    pub blocking: u32,
    /// Still running when its time slice had ended and others waited.
    pub computing: u32,
}

/// The layout in a control block: `blocking` in the low half, `computing` in the high one.
const COMPUTING: u32 = 1 << 16;

impl MonitorFindings {
    pub(crate) fn of(control: &Control) -> Self {
        // Relaxed, here and in `note`: statistics.
        let found = control.findings.load(Ordering::Relaxed);
        Self { blocking: found % COMPUTING, computing: found / COMPUTING }
    }
}

/// The thread that runs on `activation` blocks in the kernel without a bracket.
pub(crate) fn blocking(activation: &Activation) {
    note(activation, |found| found.blocking < COMPUTING - 1, 1);
    crate::diagnose::deadlock_watch::note_blocked(activation.number());
}

/// The thread that runs on `activation` has used up its time slice.
pub(crate) fn computing(activation: &Activation) {
    note(activation, |found| found.computing < COMPUTING - 1, COMPUTING);
}

fn note(activation: &Activation, has_room: fn(MonitorFindings) -> bool, one: u32) {
    let current = activations::if_begun(activation.number()).and_then(|outside| outside.current.get());
    // Only the monitor adds.
    if let Some(control) = current.filter(|control| has_room(MonitorFindings::of(control))) {
        control.findings.fetch_add(one, Ordering::Relaxed);
    }
}
