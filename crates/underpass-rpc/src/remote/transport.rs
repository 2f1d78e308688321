//! What carries calls to other machines.

use crate::error::ImportError;
use crate::remote::call::RemoteCall;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use underpass_os::process;
use underpass_threads::{blocking, critical};
use underpass_wire::Descriptor;

/// Carries calls to other machines. A crate such as `underpass-grpc` implements it.
pub trait RemoteTransport: Send + Sync + 'static {
    /// Finds the server at `address`, and checks that it exports `interface` in a version that fits
    /// and lets this client call. If there is no server yet, waits for one for at most `within`.
    ///
    /// It may block the kernel thread.
    ///
    /// # Errors
    /// There is no such server, or it does not let this client call.
    fn connect(
        &self,
        address: &str,
        interface: &'static Descriptor,
        within: Option<Duration>,
    ) -> Result<Arc<dyn RemoteBinding>, ImportError>;
}

/// An import of one interface from another machine. All clones of a stub share it.
pub trait RemoteBinding: Send + Sync + 'static {
    /// Makes a call, and answers it later on any thread. It must not block.
    ///
    /// It drops everything that the call holds when [`RemoteCall::unwanted`] has ended, and answers
    /// with [`CallError::Deadline`](crate::CallError::Deadline) when the call's time is over. If
    /// the call is dropped, it is answered with [`CallError::Dropped`](crate::CallError::Dropped).
    fn start(&self, call: RemoteCall);

    /// Whether calls can't succeed any more: the server is another one now, and the interface is
    /// not stateless.
    fn has_ended(&self) -> bool;

    /// Where the server is.
    fn address(&self) -> &str;
}

/// The transport of addresses, if one was installed.
static INSTALLED: RwLock<Option<Arc<dyn RemoteTransport>>> = RwLock::new(None);

/// How many connections a listener for other machines may have at once: a quarter of the files that
/// this process may open.
///
/// # Examples
/// ```
/// assert!(underpass::remote::most_connections() > 0);
/// ```
pub fn most_connections() -> usize {
    (process::files() as usize / 4).max(1)
}

/// From now on imports of addresses (`https://host:port/name`) go by this transport. Returns the
/// one that was installed before. Bindings that it has made stay with it.
pub fn install(transport: Arc<dyn RemoteTransport>) -> Option<Arc<dyn RemoteTransport>> {
    let _held = critical();
    INSTALLED.write().unwrap_or_else(PoisonError::into_inner).replace(transport)
}

/// Whether a name that is imported is the address of another machine. No exported name has a `/`.
pub(crate) fn is_address(name: &str) -> bool {
    name.contains("://")
}

/// Imports an interface from another machine by the transport that was installed.
///
/// # Errors
/// As of [`RemoteTransport::connect`], or no transport was installed.
pub(crate) fn import(
    address: &str,
    interface: &'static Descriptor,
    within: Option<Duration>,
) -> Result<Arc<dyn RemoteBinding>, ImportError> {
    let held = critical();
    let installed = INSTALLED.read().unwrap_or_else(PoisonError::into_inner).clone();
    drop(held);
    let transport = installed.ok_or_else(|| {
        let why =
            "this program has no transport to other machines; call underpass_grpc::remote::install() first";
        ImportError::Remote(address.to_owned(), why.to_owned())
    })?;
    import_by(&*transport, address, interface, within)
}

/// Imports an interface from another machine by this transport.
///
/// # Errors
/// As of [`RemoteTransport::connect`], or the interface can't leave its machine.
pub(crate) fn import_by(
    transport: &dyn RemoteTransport,
    address: &str,
    interface: &'static Descriptor,
    within: Option<Duration>,
) -> Result<Arc<dyn RemoteBinding>, ImportError> {
    if let Some(why) = interface.stays_on_machine() {
        return Err(ImportError::Remote(address.to_owned(), why));
    }
    blocking(|| transport.connect(address, interface, within))
}
