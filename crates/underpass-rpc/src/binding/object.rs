//! The binding object, as its server sees it.
//!
//! What stands for a binding is a table of the server's own that no client can reach, under a
//! number that no client is told: a client has its end of a connection, and the kernel knows which.
//! See decision 0024.

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
    /// By the monotonic clock, in ns.
    pub(crate) expires: Option<u64>,
}

impl Binding {
    /// A new one.
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

    /// How long until it is revoked by itself, if it is to be.
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

/// The bindings that a server has given out: to look at, and to take back. Cheap to clone, for
/// procedures that are to revoke too.
///
/// A revoked binding ends at once: its callers are told [`Revoked`](crate::CallError::Revoked),
/// with what became of their call, its memory and files are freed, and the client can only import
/// again, which the server may refuse. Calls under way run on; their results go nowhere.
///
/// # Examples
/// ```no_run
/// # fn close(running: &underpass_rpc::Running) {
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
    /// Those that there are at this moment, oldest first.
    pub fn list(&self) -> Vec<Binding> {
        let mut found = match clerk() {
            Ok(clerk) => clerk.bindings(&self.exports),
            Err(_) => Vec::new(),
        };
        found.sort_by_key(|family| family.binding().id());
        found.iter().map(|family| family.binding().clone()).collect()
    }

    /// Revokes those that `which` chooses; says how many.
    pub fn revoke(&self, mut which: impl FnMut(&Binding) -> bool) -> usize {
        let Ok(clerk) = clerk() else { return 0 };
        // Nothing is locked while a user's code runs.
        let chosen = clerk.bindings(&self.exports).into_iter().filter(|family| which(family.binding()));
        chosen.filter(|family| family.revoke()).count()
    }
}
