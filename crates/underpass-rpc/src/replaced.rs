//! Servers that are upgraded in place: another domain takes the names over, and the one that had them finishes what it has.

use crate::running::Running;
use std::time::Duration;
use underpass_os::Watch;
use underpass_threads::{on_user_thread, sleep};

/// How long to wait before looking again though nothing was heard, in ns.
const GLANCE: u64 = 3_600_000_000_000;
/// The same, where there is nothing to hear by.
const STEP: Duration = Duration::from_millis(500);

impl Running {
    /// Waits until other domains have taken over all names of these exports, by [`Server::replace`](crate::Server::replace). Nobody comes here by them any more;
    /// [`shutdown`](Self::shutdown) has those who did go there. [`Server::run`](crate::Server::run) does both.
    ///
    /// # Examples
    /// ```no_run
    /// # fn serve(server: underpass_rpc::Server) -> Result<(), underpass_rpc::Error> {
    /// let running = server.start()?;
    /// running.until_replaced();
    /// running.shutdown(std::time::Duration::from_secs(60));
    /// # Ok(())
    /// # }
    /// ```
    pub fn until_replaced(&self) {
        // Before the look, so that no change is missed. Names of one domain stand in one directory.
        let watch = self.standings.first().and_then(|standing| Watch::new(standing.directory()).ok());
        while self.standings.is_empty() || self.standings.iter().any(|standing| !standing.is_replaced()) {
            match &watch {
                Some(watch) if !on_user_thread() => watch.wait(GLANCE),
                // Other threads of this activation must not wait.
                _ => sleep(STEP),
            }
        }
    }
}
