//! Starts what a domain runs on: its activations, the monitor and the launcher.

use crate::monitor::Monitor;
use crate::pool::{POOL, Pool, Upcall, launcher};
use underpass_os::barrier;

impl Pool {
    /// This domain's; starts the activations, the monitor and the steward if they aren't yet.
    ///
    /// The maximum is [`configure`](Self::configure)d, else `$UNDERPASS_PROCESSORS`, else that of
    /// the CPUs in the affinity of the kernel thread that comes here first, or what the control
    /// groups grant if that is less; the last two are read again about once a second while there is
    /// more to do than processors.
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
            // Nobody has to do this later, where there may be no locks.
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
