//! Telling a program when its server is ready, and when it stops.

use std::fmt;
use std::sync::Arc;

/// What a server has come to in [`Server::run`](crate::Server::run).
///
/// # Examples
/// ```no_run
/// # fn run(service: underpass::Service) -> Result<(), underpass::Error> {
/// let server = underpass::Server::new().export("fs.cache", service);
/// server.on_phase(|phase| println!("{phase:?}")).run()
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunPhase {
    /// Clients can import from now on.
    Ready,
    /// A signal, or another server in its place, ends it. It answers the calls that it has begun.
    Stopping,
}

type Told = Arc<dyn Fn(RunPhase) + Send + Sync>;

/// What is called at each phase, in order.
#[derive(Clone, Default)]
pub(crate) struct PhaseHook(Vec<Told>);

impl PhaseHook {
    pub(crate) fn add(&mut self, told: impl Fn(RunPhase) + Send + Sync + 'static) {
        self.0.push(Arc::new(told));
    }

    pub(crate) fn tell(&self, phase: RunPhase) {
        self.0.iter().for_each(|told| told(phase));
    }
}

impl fmt::Debug for PhaseHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PhaseHook").field(&self.0.len()).finish()
    }
}
