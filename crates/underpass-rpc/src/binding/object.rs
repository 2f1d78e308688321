//! The binding object, as its server sees it.
//!
//! A binding is an entry in a table of the server, under a number that no client learns and in
//! memory that no client can reach. A client holds one end of a connection, and the kernel knows
//! which. See decision 0024.

use crate::binding::peer::Peer;
use crate::control::clerk::clerk;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use underpass_os::clock;

/// A client's import of one interface, as its server sees it: LRPC's binding object.
#[derive(Clone)]
pub struct Binding {
    pub(crate) name: Arc<str>,
    pub(crate) peer: Peer,
    /// In ns of the monotonic clock.
    pub(crate) expires: Option<u64>,
}

impl Binding {
    /// A new binding.
    pub(crate) fn new(name: Arc<str>, peer: Peer, expires: Option<u64>) -> Self {
        Self { name, peer, expires }
    }

    /// A number that no other binding of this process has or had.
    pub fn id(&self) -> u64 {
        self.peer.binding_id()
    }

    /// The name under which the interface is exported.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// How long until the binding is revoked by itself, if it expires.
    pub fn expires_in(&self) -> Option<Duration> {
        let left = self.expires?.saturating_sub(clock::now_ns());
        Some(Duration::from_nanos(left))
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding")
            .field("id", &self.id())
            .field("name", &self.name)
            .field("peer", &self.peer)
            .field("expires_in", &self.expires_in())
            .finish()
    }
}

/// The bindings that a server has given to clients: lists and revokes them. It is cheap to clone,
/// so procedures can have a clone.
///
/// A revoked binding ends at once. Its callers get [`Revoked`](crate::CallError::Revoked), with the
/// outcome of their call. If it was the last binding of its connection, memory and files are freed.
/// The client can only import again, which
/// the server may refuse. Calls under way run on, and their results are dropped.
///
/// # Examples
/// ```no_run
/// # fn close(running: &underpass::Running) {
/// let bindings = running.bindings();
/// bindings.revoke(|binding| binding.peer().pid() == 4711); // one client's
/// bindings.revoke(|binding| binding.name() == "fs.cache"); // one interface's
/// bindings.revoke(|_| true); // all
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Bindings {
    pub(crate) exports: Arc<[u64]>,
}

impl Bindings {
    /// The bindings that exist now, oldest first.
    pub fn list(&self) -> Vec<Binding> {
        let mut found = match clerk() {
            Ok(clerk) => clerk.bindings(&self.exports),
            Err(_) => Vec::new(),
        };
        found.sort_by_key(|row| row.binding().id());
        found.iter().map(|row| row.binding().clone()).collect()
    }

    /// Revokes the bindings that `which` chooses, and returns their number.
    pub fn revoke(&self, mut which: impl FnMut(&Binding) -> bool) -> usize {
        let Ok(clerk) = clerk() else { return 0 };
        // No lock is held while the user's code runs.
        let chosen = clerk.bindings(&self.exports).into_iter().filter(|row| which(row.binding()));
        chosen.filter(|row| row.revoke()).count()
    }
}

/// The interfaces that this domain has passed to servers as values, in arguments: lists and revokes
/// them. Those that it has given to its own clients are among [`Running::bindings`].
///
/// [`Running::bindings`]: crate::Running::bindings
///
/// # Examples
/// ```no_run
/// // No server calls back any more.
/// underpass::given_interfaces().revoke(|_| true);
/// ```
pub fn given_interfaces() -> Bindings {
    Bindings { exports: Arc::from([TO_SERVERS]) }
}

/// In place of the key of an export: the binding was given to a server. No export has it.
pub(crate) const TO_SERVERS: u64 = 0;
