//! A process that was forked off has no part in its parent's bindings. See decision 0033.
//!
//! It has their sockets, and would end them by a hang-up; so it does nothing with them: it has no
//! clerk ([`fork::check`]). It has not their regions, which are not copied. Before it could touch
//! one it finds its bindings closed, because `fork` closes them in the child.

use crate::counters::{self, Ends};
use std::cell::Cell;
use std::io;
use std::sync::MutexGuard;
use underpass_os::fork;
use underpass_processor::lines;
use underpass_threads::{CriticalSection, critical};

/// What whoever forks holds meanwhile, so that the child finds it whole.
type Held = (MutexGuard<'static, Option<Ends>>, lines::LockedLines, CriticalSection);

thread_local! {
    static HELD: Cell<Option<Held>> = const { Cell::new(None) };
}

/// Has `fork` see to the bindings from now on. Once.
pub(crate) fn watch() -> io::Result<()> {
    fork::watch(before, parent, child)
}

extern "C" fn before() {
    let critical = critical();
    HELD.set(Some((counters::hold(), lines::hold(), critical)));
}

extern "C" fn parent() {
    HELD.set(None);
}

extern "C" fn child() {
    if let Some((ends, lines, _critical)) = HELD.take() {
        ends.iter().for_each(Ends::cut_off);
        lines.cut_off();
    }
}
