//! Who a client is: what the kernel says of it, and nothing that it says itself.

use crate::connection::Link;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use underpass_os::Credentials;

/// The domain at the client's end of a binding, as the kernel recorded it when the binding's connection was made (`SO_PEERCRED` and its kin).
///
/// A program that becomes another user afterwards keeps the bindings that it has, as it keeps its open files.
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
    /// Of the binding: nothing once that is gone.
    link: Weak<Link>,
}

impl Peer {
    /// Who is at the other end of `link`.
    pub(crate) fn of(link: &Arc<Link>) -> io::Result<Self> {
        Ok(Self(Arc::new(Known {
            who: link.peer()?,
            groups: link.peer_groups()?,
            label: link.peer_label()?,
            link: Arc::downgrade(link),
        })))
    }

    /// Its process' number; 0 if that is in a namespace where this domain can't see it. Another process may have it once the peer has
    /// ended: what must not be mistaken takes [`pidfd`](Self::pidfd).
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

    /// What a security module calls it (SELinux' context, AppArmor's profile), if one labels sockets on this system.
    pub fn label(&self) -> Option<&str> {
        self.0.label.as_deref()
    }

    /// A descriptor of its process, which means that process for ever. Opened anew each time, so that a binding needs no file for it.
    ///
    /// # Errors
    /// `NotConnected` if the binding is gone; Linux before 6.5 has none; too many open files.
    pub fn pidfd(&self) -> io::Result<OwnedFd> {
        self.0.link.upgrade().ok_or(io::ErrorKind::NotConnected)?.peer_process()
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
            .finish()
    }
}

underpass_threads::thread_local! {
    /// Who has called the async handler that the thread polls.
    static POLLED_FOR: RefCell<Option<Peer>> = const { RefCell::new(None) };
}

/// Who was polled for before, until dropped.
struct Within(Option<Peer>);

impl Drop for Within {
    fn drop(&mut self) {
        let before = self.0.take();
        let _ = POLLED_FOR.try_with(|polled_for| polled_for.replace(before));
    }
}

impl Peer {
    /// Runs `poll` on behalf of this caller.
    pub(crate) fn scope<R>(&self, poll: impl FnOnce() -> R) -> R {
        let before = POLLED_FOR.try_with(|polled_for| polled_for.replace(Some(self.clone())));
        let _within = Within(before.ok().flatten());
        poll()
    }
}

/// Who has called the procedure that the calling thread runs: the client's domain, as the kernel knows it. It stays the same however often
/// the thread pauses, or an async handler awaits, and costs nothing where nobody asks.
///
/// Nothing where no other domain has called: outside of procedures, in threads that a procedure has started, inside of
/// `thread::blocking`, and in direct calls within a domain, unless they are made by a procedure that another domain has called. Then it is that one.
///
/// # Examples
/// ```
/// assert!(underpass_rpc::caller().is_none(), "nobody has called this");
/// ```
pub fn caller() -> Option<Peer> {
    // The inner one: a procedure may poll handlers of other calls, and no poll runs a procedure for another domain.
    if let Some(peer) = POLLED_FOR.try_with(|polled_for| polled_for.borrow().clone()).ok().flatten() {
        return Some(peer);
    }
    Some(crate::server::served()?.family().binding().peer().clone())
}
