//! A domain that runs in a sandbox, as its starter sees it.

use crate::ended::Blow;
use crate::supervisor::SupervisorState;
use crate::{Ended, Report};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use underpass_os::clock;

/// A domain that serves in a sandbox. Dropping it ends the domain.
///
/// When the domain ends, its callers learn [`PeerDied`](underpass_rpc::CallError::PeerDied);
/// [`wait`](Self::wait) tells why.
pub struct Domain {
    shared: Arc<SupervisorState>,
    pid: u32,
    report: Report,
}

impl Domain {
    pub(crate) fn new(shared: Arc<SupervisorState>, pid: u32, report: Report) -> Self {
        Self { shared, pid, report }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What holds of its sandbox on this system.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.shared.ended()
    }

    /// Waits until it ends. Blocks the calling thread and no other.
    pub fn wait(&self) -> Ended {
        self.shared.wait()
    }

    /// Ends it, if it hasn't ended before, and waits until it has. What it had is freed then, and
    /// its names are gone.
    pub fn end(&self) -> Ended {
        self.shared.strike(Blow::Killed);
        self.wait()
    }

    /// Runs `call`; if that takes longer than `time`, ends the domain, so that calls to it return
    /// with [`PeerDied`](underpass_rpc::CallError::PeerDied), and [`wait`](Self::wait) says
    /// [`Ended::Late`]. Calls of other callers end then too.
    ///
    /// # Examples
    /// ```no_run
    /// # use std::time::Duration;
    /// # use underpass::sandbox::Domain;
    /// # fn decode() -> Result<Vec<u8>, underpass::CallError> { Ok(Vec::new()) }
    /// fn try_one(domain: &Domain) {
    ///     match domain.within(Duration::from_secs(2), || decode()) {
    ///         Ok(image) => println!("{} bytes", image.len()),
    ///         Err(e) => println!("{e}"),
    ///     }
    /// }
    /// ```
    pub fn within<R>(&self, time: Duration, call: impl FnOnce() -> R) -> R {
        let _armed = Armed { shared: &self.shared, key: self.shared.arm(clock::deadline_ns(time), time) };
        call()
    }
}

/// A call that has a deadline.
struct Armed<'a> {
    shared: &'a SupervisorState,
    key: (u64, u64),
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        self.shared.disarm(self.key);
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").field("pid", &self.pid).field("ended", &self.ended()).finish_non_exhaustive()
    }
}
