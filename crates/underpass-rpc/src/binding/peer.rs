//! Which process a client is: all of that comes from the kernel, and nothing from the client. Or
//! which client on another machine it is, as far as it has proved that.

use crate::binding::record::BindingRecord;
use crate::control::connection::BindingLink;
use crate::remote::peers::RemotePeer;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use underpass_os::{Credentials, process};
use underpass_threads::me;

/// The domain at the client's end of a binding, as the kernel recorded it when the binding's
/// connection was made (`SO_PEERCRED` and related options). Or a client on another machine:
/// [`remote`](Self::remote) tells the one from the other.
///
/// Only services that say how remote peers prove who they are meet such clients
/// ([`Service::remote_peers`](crate::Service::remote_peers)). They have neither process nor user
/// here. Code that asks for their user id has not thought of them, so that panics: `authorize` then
/// refuses the client, and a handler fails.
///
/// A program that changes its user afterwards keeps the bindings that it has, as it keeps its open
/// files.
///
/// # Examples
/// ```no_run
/// # fn allowed(peer: &underpass::Peer) -> bool {
/// // Root, and members of group 27.
/// peer.uid() == 0 || peer.is_in(27)
/// # }
/// ```
#[derive(Clone)]
pub struct Peer(Arc<PeerFacts>, u64);

/// The facts about the peer, which all its bindings share. Beside them a `Peer` has the number of
/// its binding.
pub(crate) struct PeerFacts {
    who: Credentials,
    groups: Vec<u32>,
    label: Option<String>,
    /// The link of the binding. It is gone when the binding is gone. `None` if the peer is this
    /// very process.
    link: Option<Weak<BindingLink>>,
    /// The client, if it is on another machine. Then the other facts mean nothing.
    remote: Option<RemotePeer>,
}

/// A number that no other binding of this process has or had.
fn next_binding() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: a number.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Peer {
    /// The peer at the other end of `link`.
    pub(crate) fn of(link: &Arc<BindingLink>) -> io::Result<Self> {
        let facts = PeerFacts {
            who: link.peer()?,
            groups: link.peer_groups()?,
            label: link.peer_label()?,
            link: Some(Arc::downgrade(link)),
            remote: None,
        };
        Ok(Self(Arc::new(facts), next_binding()))
    }

    /// The same peer, with a binding of its own.
    pub(crate) fn with_new_binding(&self) -> Self {
        Self(self.0.clone(), next_binding())
    }

    /// The same peer and binding, over the connection that the binding joins.
    pub(crate) fn over(&self, link: &Arc<BindingLink>) -> Self {
        let PeerFacts { who, groups, label, .. } = &*self.0;
        let facts = PeerFacts {
            who: *who,
            groups: groups.clone(),
            label: label.clone(),
            link: Some(Arc::downgrade(link)),
            remote: None,
        };
        Self(Arc::new(facts), self.1)
    }

    /// Whether the kernel says the same of both: the same process, user, groups and label.
    pub(crate) fn is_same_client(&self, other: &Self) -> bool {
        let (one, other) = (&*self.0, &*other.0);
        (one.who, &one.groups, &one.label) == (other.who, &other.groups, &other.label)
    }

    /// This very process, as it is now.
    pub(crate) fn here() -> Self {
        let (who, groups) = (Credentials::own(), process::groups());
        Self(Arc::new(PeerFacts { who, groups, label: None, link: None, remote: None }), next_binding())
    }

    /// A client on another machine.
    pub(crate) fn elsewhere(remote: RemotePeer) -> Self {
        let nobody = Credentials { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let facts =
            PeerFacts { who: nobody, groups: Vec::new(), label: None, link: None, remote: Some(remote) };
        Self(Arc::new(facts), next_binding())
    }

    /// The client, if it is on another machine. `None` if it is a process of this one.
    pub fn remote(&self) -> Option<&RemotePeer> {
        self.0.remote.as_ref()
    }

    /// What the kernel says of the process.
    fn local(&self) -> &Credentials {
        assert!(self.0.remote.is_none(), "this peer is on another machine; ask `Peer::remote` first");
        &self.0.who
    }

    /// A process of another user.
    #[cfg(test)]
    pub(crate) fn of_user(uid: u32) -> Self {
        let (own, groups) = (Credentials::own(), Vec::new());
        let who = Credentials { uid, ..own };
        Self(Arc::new(PeerFacts { who, groups, label: None, link: None, remote: None }), next_binding())
    }

    /// The number of the peer's binding, the same as [`Binding::id`](crate::Binding::id).
    ///
    /// It is known when the server is first asked about the peer. No other binding of this process
    /// has or had it, so a server can use it as the owner of what it keeps for a client. All clones
    /// of a stub have one binding.
    pub fn binding_id(&self) -> u64 {
        self.1
    }

    /// The process id, or 0 if the process is on another machine or in a PID namespace that this
    /// domain can't see. The
    /// kernel may give the number to another process once the peer has ended. Use
    /// [`pidfd`](Self::pidfd) where a mistake would do harm.
    pub fn pid(&self) -> u32 {
        self.0.who.pid.unsigned_abs()
    }

    /// The effective user id.
    ///
    /// # Panics
    /// If the peer is on another machine: ask [`remote`](Self::remote) first.
    pub fn uid(&self) -> u32 {
        self.local().uid
    }

    /// The effective group id.
    ///
    /// # Panics
    /// As [`uid`](Self::uid).
    pub fn gid(&self) -> u32 {
        self.local().gid
    }

    /// The supplementary group ids. None of a peer on another machine.
    pub fn groups(&self) -> &[u32] {
        &self.0.groups
    }

    /// Whether `gid` is the effective group or one of the supplementary groups.
    ///
    /// # Panics
    /// As [`uid`](Self::uid).
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid() == gid || self.groups().contains(&gid)
    }

    /// The label that a security module gives the peer (SELinux's context, AppArmor's profile), if
    /// one labels sockets on this system. `None` for this very process.
    pub fn label(&self) -> Option<&str> {
        self.0.label.as_deref()
    }

    /// A descriptor of the peer's process, which never means another process. It is opened anew
    /// each time, so a binding needs no file for it.
    ///
    /// # Errors
    /// `NotConnected` if the binding is gone, or if the peer is on another machine. Other errors if
    /// Linux is older than 6.5 or too many files are open.
    pub fn pidfd(&self) -> io::Result<OwnedFd> {
        if self.0.remote.is_some() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        match &self.0.link {
            Some(link) => link.upgrade().ok_or(io::ErrorKind::NotConnected)?.peer_process(),
            None => process::own_pidfd(),
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(remote) = self.remote() {
            return f.debug_tuple("Peer").field(remote).finish();
        }
        f.debug_struct("Peer")
            .field("pid", &self.pid())
            .field("uid", &self.uid())
            .field("gid", &self.gid())
            .field("groups", &self.groups())
            .field("label", &self.label())
            .field("binding_id", &self.binding_id())
            .finish()
    }
}

underpass_threads::thread_local! {
    /// The binding whose async handler the thread polls, or over which the thread calls within this
    /// domain.
    static WITHIN: RefCell<Option<Arc<BindingRecord>>> = const { RefCell::new(None) };
}

/// Until it is dropped, the calling thread works for a call of a binding. Afterwards it works for
/// the previous one again, if there was one.
pub(crate) struct WithinBinding(Restores);

/// What the end of a [`WithinBinding`] restores.
enum Restores {
    /// The binding before, if there was one.
    Binding(Option<Arc<BindingRecord>>),
    /// Nothing: the thread's variables are gone.
    Nothing,
}

/// From now on the calling thread works for a call of this binding.
pub(crate) fn within_binding(record: &Arc<BindingRecord>) -> WithinBinding {
    let before = WITHIN.try_with(|within| within.replace(Some(record.clone())));
    WithinBinding(before.map_or(Restores::Nothing, Restores::Binding))
}

impl Drop for WithinBinding {
    fn drop(&mut self) {
        if let Restores::Binding(before) = &mut self.0 {
            let before = before.take();
            let _ = WITHIN.try_with(|within| within.replace(before));
        }
    }
}

/// Whether the calling thread runs a direct call within this domain.
pub(crate) fn calls_within_domain() -> bool {
    WITHIN.try_with(|within| within.borrow().is_some()).unwrap_or(true)
}

/// The binding over which the call came that the calling thread runs.
fn current() -> Option<Arc<BindingRecord>> {
    // Take the innermost one. A procedure may poll handlers of other calls and call within its
    // domain, and neither runs a procedure for another domain.
    let inner = WITHIN.try_with(|within| within.borrow().clone()).ok().flatten();
    inner.or_else(|| {
        let end = crate::dispatch::server::served()?;
        let row = end.binding_of(end.slot_of(me().id())?)?;
        Some(row.record().clone())
    })
}

/// In a procedure: its caller, that is the client's domain, as the kernel knows it, and its
/// binding.
///
/// The caller stays the same however often the thread pauses or an async handler awaits. It costs
/// nothing if it is not asked for.
///
/// In a direct call within a domain, the caller is the domain itself, with the binding of the stub
/// that made the call. If a procedure calls another interface of its own domain, its domain is the
/// caller there, as if the two were in different domains.
///
/// `None` where there is no caller: outside of procedures, in threads that a procedure has started,
/// and inside of `thread::blocking`.
///
/// # Examples
/// ```
/// assert!(underpass::caller().is_none(), "this is no procedure");
/// ```
pub fn caller() -> Option<Peer> {
    Some(current()?.binding().peer().clone())
}

/// In a procedure: the state of type `T` that this server keeps for the caller's binding, for
/// example its open transaction. `make` makes it the first time. Each type has one value for each
/// binding.
///
/// The state is dropped when the binding has ended for good, whatever the reason. That is after the
/// last call of the binding, and after the hook if there is one
/// ([`Service::on_binding_end`](crate::Service::on_binding_end), which names the thread too). So
/// state that must not outlive a client can clean up in its `Drop`. A clone of the `Arc` keeps the
/// value.
///
/// A `Drop` may ask for state as well, and what it makes is dropped next. After four such rounds
/// this function returns `None`, so state that makes state comes to an end.
///
/// Calls over one binding run at the same time, so state that changes needs a lock. If two calls
/// come first at the same time, both may run `make`. One of the two values is dropped at once, and
/// both calls get the other.
///
/// `None` wherever [`caller`] returns `None`.
///
/// # Examples
/// ```
/// use std::sync::Mutex;
///
/// /// What a client has changed and not committed.
/// #[derive(Default)]
/// struct Transaction(Mutex<Vec<String>>);
///
/// fn put(change: String) -> Option<()> {
///     let open = underpass::binding_state(Transaction::default)?;
///     open.0.lock().unwrap().push(change);
///     Some(())
/// }
/// assert_eq!(put("x = 1".into()), None, "this is no procedure");
/// ```
pub fn binding_state<T: Send + Sync + 'static>(make: impl FnOnce() -> T) -> Option<Arc<T>> {
    Some(current()?.state(make))
}
