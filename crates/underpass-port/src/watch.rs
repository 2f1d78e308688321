//! Waiting for a port among other things.

use crate::owner::PortCore;
use crate::waiters::Waiting;
use std::fmt;
use underpass_os::fork;
use underpass_sync::mpmc::Receiver;

/// Lets a [`Select`](underpass_sync::Select) wait for a port: a case that is ready when something
/// may have come. The program then calls [`try_recv`](crate::PortReceiver::try_recv), which may
/// find nothing, since another receiver was faster. It comes from
/// [`PortReceiver::watch`](crate::PortReceiver::watch), and is for one wait.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use underpass::port::PortOptions;
/// use underpass::sync::{Select, mpmc};
///
/// let (service, receiver) = PortOptions::new().open::<u32>()?;
/// let (send, orders) = mpmc::unbounded();
/// send.send("stop").unwrap();
/// let order = Select::new()
///     .recv(&receiver.watch(), |_| None)
///     .recv(&orders, |order| order.ok())
///     .timeout(Duration::from_secs(60), || None)
///     .wait();
/// assert_eq!(order.unwrap(), Some("stop"));
/// # drop(service);
/// # Ok::<(), underpass::port::BadLaneSizes>(())
/// ```
#[must_use = "a select waits for it"]
pub struct PortWatch<'a> {
    port: &'a PortCore,
    _waiting: Waiting<'a>,
}

impl<'a> PortWatch<'a> {
    pub(crate) fn new(port: &'a PortCore) -> Self {
        let mut lanes = port.lanes();
        let waiting = port.waiters.enter();
        let has_something = fork::is_forked() || lanes.is_over() || lanes.announce_wait();
        drop(lanes);
        if has_something {
            port.waiters.ring();
        }
        Self { port, _waiting: waiting }
    }
}

impl AsRef<Receiver<()>> for PortWatch<'_> {
    fn as_ref(&self) -> &Receiver<()> {
        self.port.waiters.tokens()
    }
}

impl Drop for PortWatch<'_> {
    fn drop(&mut self) {
        if fork::is_forked() {
            return;
        }
        // The select may have taken a token, and the program may not look. This one counts still.
        let mut lanes = self.port.lanes();
        let token = self.port.hand_on(&mut lanes);
        drop(lanes);
        if token {
            self.port.waiters.ring();
        }
    }
}

impl fmt::Debug for PortWatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortWatch").finish_non_exhaustive()
    }
}
