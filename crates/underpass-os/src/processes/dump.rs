//! Suppresses core dumps while a kernel thread of the process hangs in the kernel.
//!
//! For a signal that dumps core, the kernel waits for all threads of the process before it closes
//! any file. If one thread is lost in a system call, the process hangs with all its sockets open. A
//! process that is not dumpable ends at once.

use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// While at least one of these values exists, the process leaves no core dump. Other processes of
/// its user can then neither trace it nor look into its memory.
///
/// A child that is forked meanwhile stays undumpable until it executes a program.
///
/// # Examples
/// ```
/// use underpass_os::dump::{NoDump, leaves_dumps};
/// let none = NoDump::begin();
/// assert!(!leaves_dumps());
/// drop(none);
/// assert!(leaves_dumps());
/// ```
#[derive(Debug)]
pub struct NoDump(());

#[derive(Default)]
struct Forbidden {
    /// The number of values that exist.
    by: usize,
    /// The process left dumps before the first value was made.
    before: bool,
}

static FORBIDDEN: Mutex<Forbidden> = Mutex::new(Forbidden { by: 0, before: false });

fn forbidden() -> MutexGuard<'static, Forbidden> {
    FORBIDDEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process leaves a core dump when a core-dumping signal ends it.
pub fn leaves_dumps() -> bool {
    matches!(dumpable_behavior(), Ok(DumpableBehavior::Dumpable))
}

impl NoDump {
    /// Suppresses dumps from now on.
    pub fn begin() -> Self {
        let mut forbidden = forbidden();
        if forbidden.by == 0 {
            forbidden.before = leaves_dumps();
            if forbidden.before {
                // This is refused to no process that is dumpable.
                let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            }
        }
        forbidden.by += 1;
        Self(())
    }
}

impl Drop for NoDump {
    fn drop(&mut self) {
        let mut forbidden = forbidden();
        forbidden.by -= 1;
        if forbidden.by == 0 && forbidden.before {
            let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
        }
    }
}
