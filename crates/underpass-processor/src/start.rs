//! Starts what a domain runs on: its activations, the monitor and the launcher.

use crate::monitor::Monitor;
use crate::pool::{POOL, Pool, Upcall, launcher};
use underpass_os::barrier;

impl Pool {
    /// The pool of this domain. The first call starts the activations, the monitor and the
    /// launcher.
    ///
    /// The maximum is the first of these that is there: what was [`configure`](Self::configure)d;
    /// `$UNDERPASS_PROCESSORS`; or the lesser of two numbers. These are the CPUs in the affinity of
    /// the kernel thread that calls this first, and what the control groups grant. Both are read
    /// again about once a second while there is more to do than processors.
    ///
    /// # Panics
    /// If the kernel gives no kernel thread.
    pub fn start(upcall: &'static dyn Upcall) -> &'static Pool {
        let mut new = false;
        let pool = POOL.get_or_init(|| {
            new = true;
            Pool::new(upcall)
        });
        if new {
            // Registered now, so that no later barrier has to do it where no lock may be taken.
            barrier::register();
            pool.fill();
            let begun = pool.registry.len() > 0
                && launcher::start("underpass-monitor", move || Monitor::new(pool, upcall).run())
                && launcher::start("underpass-launcher", move || launcher::run(pool));
            assert!(begun, "the kernel gives no kernel thread for an activation; see `ulimit -u`");
        }
        pool
    }
}
