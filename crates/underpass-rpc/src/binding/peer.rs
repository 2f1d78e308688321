//! Who a client is: what the kernel says of it, and nothing that it says itself.

use crate::binding::record::Record;
use crate::control::connection::Link;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use underpass_os::{Credentials, process};

/// The domain at the client's end of a binding, as the kernel recorded it when the binding's
/// connection was made (`SO_PEERCRED` and its kin).
///
/// A program that becomes another user afterwards keeps the bindings that it has, as it keeps its
/// open files.
///
/// # Examples
/// ```no_run
/// # fn allowed(peer: &underpass_rpc::Peer) -> bool {
/// // Root, and who is in group 27.
/// peer.uid() == 0 || peer.is_in(27)
/// # }
/// ```
#[derive(Clone)]
pub struct Peer(Arc<Known>);

/// What is known of it.
pub(crate) struct Known {
    who: Credentials,
    groups: Vec<u32>,
    label: Option<String>,
    /// Of the binding: nothing once that is gone, and nothing for this very process.
    link: Option<Weak<Link>>,
    binding: u64,
}

/// A number that no other binding of this process has or had.
fn next_binding() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: a number.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Peer {
    /// Who is at the other end of `link`.
    pub(crate) fn of(link: &Arc<Link>) -> io::Result<Self> {
        Ok(Self(Arc::new(Known {
            who: link.peer()?,
            groups: link.peer_groups()?,
            label: link.peer_label()?,
            link: Some(Arc::downgrade(link)),
            binding: next_binding(),
        })))
    }

    /// This very process, as it is now.
    pub(crate) fn here() -> Self {
        let (who, groups) = (Credentials::own(), process::groups());
        Self(Arc::new(Known { who, groups, label: None, link: None, binding: next_binding() }))
    }

    /// The number of its binding ([`Binding::id`](crate::Binding::id)), from the moment at which it
    /// is asked about on. No other binding of this process has or had it, so it can stand for the
    /// owner of what a server keeps for a client. All clones of a stub have one binding.
    pub fn binding_id(&self) -> u64 {
        self.0.binding
    }

    /// Its process' number; 0 if that is in a namespace where this domain can't see it. Another
    /// process may have it once the peer has ended: what must not be mistaken takes
    /// [`pidfd`](Self::pidfd).
    pub fn pid(&self) -> u32 {
        self.0.who.pid.unsigned_abs()
    }

    /// Its effective user.
    pub fn uid(&self) -> u32 {
        self.0.who.uid
    }

    /// Its effective group.
    pub fn gid(&self) -> u32 {
        self.0.who.gid
    }

    /// Its supplementary groups.
    pub fn groups(&self) -> &[u32] {
        &self.0.groups
    }

    /// Whether `gid` is its effective group or one of the supplementary ones.
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid() == gid || self.groups().contains(&gid)
    }

    /// What a security module calls it (SELinux' context, AppArmor's profile), if one labels
    /// sockets on this system. Nothing of this very process.
    pub fn label(&self) -> Option<&str> {
        self.0.label.as_deref()
    }

    /// A descriptor of its process, which means that process for ever. Opened anew each time, so
    /// that a binding needs no file for it.
    ///
    /// # Errors
    /// `NotConnected` if the binding is gone; Linux before 6.5 has none; too many open files.
    pub fn pidfd(&self) -> io::Result<OwnedFd> {
        match &self.0.link {
            Some(link) => link.upgrade().ok_or(io::ErrorKind::NotConnected)?.peer_process(),
            None => process::own_pidfd(),
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    /// The binding for which the thread polls an async handler, or over which it calls within this
    /// domain.
    static WITHIN: RefCell<Option<Arc<Record>>> = const { RefCell::new(None) };
}

/// Until dropped, the calling thread works for a call of a binding; then for the one before, if
/// any.
pub(crate) struct Within(Option<Option<Arc<Record>>>);

/// From now on the calling thread works for a call of this binding.
pub(crate) fn within(record: &Arc<Record>) -> Within {
    // Not where the thread's variables are gone.
    Within(WITHIN.try_with(|within| within.replace(Some(record.clone()))).ok())
}

impl Drop for Within {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            let _ = WITHIN.try_with(|within| within.replace(before));
        }
    }
}

/// The binding over which the call came that the calling thread runs.
fn current() -> Option<Arc<Record>> {
    // The inner one: a procedure may poll handlers of other calls and call within its domain, and
    // neither runs a procedure for another domain.
    let inner = WITHIN.try_with(|within| within.borrow().clone()).ok().flatten();
    inner.or_else(|| Some(crate::dispatch::server::served()?.family().record().clone()))
}

/// The caller of the procedure that the calling thread runs: the client's domain, as the kernel
/// knows it, and its binding. It stays the same however often the thread pauses, or an async
/// handler awaits, and costs nothing where nobody asks.
///
/// In a direct call within a domain that is the domain itself, with the binding of the stub that
/// made the call. A procedure that calls another interface of its domain is that one's caller, as
/// if the two were in different domains.
///
/// Nothing where nobody has called: outside of procedures, in threads that a procedure has started,
/// and inside of `thread::blocking`.
///
/// # Examples
/// ```
/// assert!(underpass_rpc::caller().is_none(), "nobody has called this");
/// ```
pub fn caller() -> Option<Peer> {
    Some(current()?.binding().peer().clone())
}

/// In a procedure: the state of type `T` that this server keeps of the caller's binding, such as
/// its open transaction. `make` makes it the first time. Each type has one value for each binding.
///
/// It is dropped when the binding has ended for good, whatever the reason: after the last call of
/// the binding, and after the hook, if there is one
/// ([`Service::on_binding_end`](crate::Service::on_binding_end), which says on which thread). So what
/// must not outlive a client can clean up in its `Drop`. A clone of the `Arc` keeps the value.
///
/// A `Drop` may ask for state, too, and what it makes is dropped next. After four such rounds
/// nothing is given any more, so that state that makes state comes to an end.
///
/// Calls over one binding run at the same time: what changes needs a lock. Two that come first may
/// both run `make`; one of the two values is dropped at once, and both calls get the other.
///
/// Nothing where [`caller`] gives nothing.
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
///     let open = underpass_rpc::binding_state(Transaction::default)?;
///     open.0.lock().unwrap().push(change);
///     Some(())
/// }
/// assert_eq!(put("x = 1".into()), None, "nobody has called this");
/// ```
pub fn binding_state<T: Send + Sync + 'static>(make: impl FnOnce() -> T) -> Option<Arc<T>> {
    Some(current()?.state(make))
}
