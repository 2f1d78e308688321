//! Servers that are upgraded in place: another domain takes the names over, and the one that had
//! them finishes what it has.
//!
//! The new domain tells the old one by a connection that it closes without a word
//! ([`Listening::replace`](underpass_os::Listening::replace)). The old domain's clerk accepts it
//! and gives a hint, and the waiter looks at the names. So anybody who may connect can have it
//! look, and nobody can deceive it.

use crate::binding::changes;
use crate::binding::running::Running;
use std::time::Duration;

/// How long to wait before looking again though there was no hint: the domain that took a name
/// over may not have been able to connect.
pub(crate) const GLANCE: Duration = Duration::from_secs(60);

impl Running {
    /// Waits until other domains have taken over all names of these exports, by
    /// [`Server::replace`](crate::Server::replace). Nobody comes here by them any more;
    /// [`shutdown`](Self::shutdown) has those who did go there. [`Server::run`](crate::Server::run)
    /// does both.
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
        changes::wait_for(GLANCE, || self.is_replaced().then_some(()));
    }

    /// Whether other domains have taken over all names of these exports.
    pub(crate) fn is_replaced(&self) -> bool {
        !self.standings.is_empty() && self.standings.iter().all(|standing| standing.is_replaced())
    }
}
