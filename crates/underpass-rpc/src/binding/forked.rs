//! A forked child does not use its parent's bindings. See decision 0033.
//!
//! The child shares the parent's sockets, and a hang-up by the child would end the parent's
//! bindings. So the child does nothing with the sockets: it has no clerk ([`fork::check`]). The
//! regions are not copied into the child. The child finds all bindings closed before it can touch a
//! region, because `fork` closes them in the child.

use crate::counters::{self, CountedEnds};
use std::cell::Cell;
use std::io;
use std::sync::MutexGuard;
use underpass_os::fork;
use underpass_processor::lines;
use underpass_threads::{CriticalSection, critical};

/// The locks that the forking thread holds during the fork, so that the child finds consistent
/// state.
type Held = (MutexGuard<'static, Option<CountedEnds>>, lines::LockedLines, CriticalSection);

thread_local! {
    static HELD: Cell<Option<Held>> = const { Cell::new(None) };
}

/// Registers the handlers that `fork` calls from now on. Called once.
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
        ends.iter().for_each(CountedEnds::cut_off);
        lines.cut_off();
    }
}
