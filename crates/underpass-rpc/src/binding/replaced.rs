//! In-place upgrades: another domain takes over the names, and the old domain finishes its calls.
//!
//! The new domain notifies the old one by a connection that it closes without a message
//! ([`Listening::replace`](underpass_os::Listening::replace)). The old domain's clerk accepts the
//! connection and gives a hint, and the waiter checks the names. So anybody who may connect can
//! make the waiter check, and nobody can deceive it.

use crate::binding::exit_events;
use crate::binding::running::Running;
use std::time::Duration;

/// How long to wait before checking again without a hint: the domain that took a name over may not
/// have been able to connect.
pub(crate) const GLANCE: Duration = Duration::from_secs(60);

impl Running {
    /// Waits until other domains have taken over all names of these exports, by
    /// [`Server::replace`](crate::Server::replace).
    ///
    /// New importers no longer come here. [`shutdown`](Self::shutdown) then makes the existing
    /// clients go to the new domain. [`Server::run`](crate::Server::run) does both.
    ///
    /// # Examples
    /// ```no_run
    /// # fn serve(server: underpass::Server) -> Result<(), underpass::Error> {
    /// let running = server.start()?;
    /// running.until_replaced();
    /// running.shutdown(std::time::Duration::from_secs(60));
    /// # Ok(())
    /// # }
    /// ```
    pub fn until_replaced(&self) {
        exit_events::wait_for(GLANCE, || self.is_replaced().then_some(()));
    }

    /// Whether other domains have taken over all names of these exports.
    pub(crate) fn is_replaced(&self) -> bool {
        !self.standings.is_empty() && self.standings.iter().all(|standing| standing.is_replaced())
    }
}
