//! An implementation, ready to be exported, with the options of its export.

use crate::binding::grant::Grant;
use crate::binding::object::Binding;
use crate::binding::peer::Peer;
use crate::binding::record::OnEnd;
use crate::dispatch::incoming::Dispatch;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use underpass_wire::Descriptor;

/// Decides who may have a binding.
pub(crate) type Authorize = dyn Fn(&Peer) -> Grant + Send + Sync;

/// What a server says about one export.
#[derive(Clone, Default)]
pub(crate) struct ExportOptions {
    /// Without it, everybody may import whom the name's mode lets connect.
    pub(crate) authorize: Option<Arc<Authorize>>,
    /// How long a binding lasts, if not for ever.
    pub(crate) expires: Option<Duration>,
    /// Whether clients may pass their bindings on.
    pub(crate) shareable: bool,
    /// Called when a binding has ended.
    pub(crate) on_end: Option<Arc<OnEnd>>,
    /// Bytes of stack that each call has at least, if not as many as usual.
    pub(crate) stack: Option<usize>,
    /// The name of the state that is served, if its server gives it one.
    pub(crate) state: Option<u128>,
}

/// An implementation of an interface with its server stub, ready to be exported. The interface's
/// `serve` makes it. Its methods set the options of the export; [`Server::export`] gives it a name.
///
/// A clone has the same implementation and options of its own, so one implementation can be
/// exported under two names with different options.
///
/// [`Server::export`]: crate::Server::export
///
/// # Examples
/// ```no_run
/// # use std::time::Duration;
/// fn run(fs: underpass::Service) -> Result<(), underpass::Error> {
///     let for_guests = fs.clone().authorize(|peer| peer.uid() >= 1000).expires_in(Duration::from_secs(60));
///     underpass::Server::new().mode(0o666).export("fs", fs.authorize(|peer| peer.uid() == 0)).export("fs.guest", for_guests).run()
/// }
/// ```
#[derive(Clone)]
pub struct Service {
    pub(crate) descriptor: &'static Descriptor,
    pub(crate) stub: Arc<dyn Dispatch>,
    /// An `Arc<L>`, for importers in this very domain.
    pub(crate) local: Arc<dyn Any + Send + Sync>,
    pub(crate) options: ExportOptions,
}

impl Service {
    /// The implementation `local` behind the server stub `stub`. For generated code.
    pub fn new<L: ?Sized + Send + Sync + 'static>(
        descriptor: &'static Descriptor,
        stub: Arc<dyn Dispatch>,
        local: Arc<L>,
    ) -> Self {
        Self { descriptor, stub, local: Arc::new(local), options: ExportOptions::default() }
    }

    /// What it implements.
    pub fn descriptor(&self) -> &'static Descriptor {
        self.descriptor
    }
}

impl Service {
    /// Lets `decide` say who may import this export. Without it, everybody may whom the mode of the
    /// name lets connect.
    ///
    /// The server asks `decide` at each import from another domain, after the kernel has checked
    /// the mode of the name's socket. The kernel also tells who the peer is. `decide` may block: it
    /// delays other imports by clients of the same user, and no calls. If it panics, the answer is
    /// no.
    ///
    /// It runs on kernel threads of its own, at the same time for several users, and for each user
    /// about one client after another. Of each user 64 clients may wait; more are refused.
    ///
    /// Importers in this very domain are not asked about: they have the implementation.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(fs: underpass::Service, admin: underpass::Service) -> underpass::Server {
    /// underpass::Server::new()
    ///     .mode(0o666)
    ///     .export("fs", fs)
    ///     .export("fs.admin", admin.authorize(|peer| peer.uid() == 0 || peer.is_in(27)))
    /// # }
    /// ```
    pub fn authorize<G: Into<Grant>>(mut self, decide: impl Fn(&Peer) -> G + Send + Sync + 'static) -> Self {
        self.options.authorize = Some(Arc::new(move |peer| decide(peer).into()));
        self
    }

    /// Revokes each binding of this export `time` after it was made, unless the [`Grant`] of
    /// [`authorize`](Self::authorize) says otherwise.
    ///
    /// # Examples
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn server(fs: underpass::Service) -> underpass::Server {
    /// underpass::Server::new().export("fs", fs.expires_in(Duration::from_secs(3600)))
    /// # }
    /// ```
    pub fn expires_in(mut self, time: Duration) -> Self {
        self.options.expires = Some(time);
        self
    }

    /// Lets clients of this export pass their bindings on to other domains (`share_with` of the
    /// client stub). Without this they may not, unless the [`Grant`] of
    /// [`authorize`](Self::authorize) says so.
    ///
    /// The domain that gets such a binding becomes a client of its own: the server asks `authorize`
    /// about it, counts it for its own user, and [`caller`](crate::caller) names it. Its binding
    /// expires no later than that of the client who passed it on, and is revoked apart from it.
    /// Until the domain has taken the binding, it ends with the client's.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(fs: underpass::Service) -> underpass::Server {
    /// underpass::Server::new().export("fs", fs.shareable())
    /// # }
    /// ```
    pub fn shareable(mut self) -> Self {
        self.options.shareable = true;
        self
    }

    /// Has the server call `hook` once at the end of each binding of this export, whatever the
    /// reason. The client may have dropped the binding or died, or have broken the rules; the
    /// server may have revoked it, or its time may be over; or the export ends.
    ///
    /// No call of the binding runs then, and none will. So a hook can roll a transaction back that
    /// the client has left open. A handler that still runs when its client dies delays the hook
    /// until it returns; [`is_cancelled`](crate::is_cancelled) tells it to. What handlers have
    /// attached by [`binding_state`](crate::binding_state) is dropped right after the hook, which
    /// can ask for it, and for [`caller`](crate::caller), as a handler can.
    ///
    /// The hook runs on a user-level thread of its own. Several hooks may run at once, each for
    /// another binding. A hook may block as a handler may, and delays nothing else. If it panics,
    /// the state is dropped all the same. [`Running::shutdown`](crate::Running::shutdown) waits for
    /// it, within its time. [`Running::stop`](crate::Running::stop) does not, nor does the end of
    /// the process.
    ///
    /// An import by this very domain is a binding, too. It ends when the last clone of its stub is
    /// dropped, and the end of this domain's exports does not wait for that.
    ///
    /// `hook` is not called for a client that was let in and then can't be given its binding, as it
    /// is gone by then or the export ends: it has none.
    ///
    /// # Examples
    /// ```no_run
    /// # struct Locks;
    /// # impl Locks { fn release_all_of(&self, owner: u64) {} }
    /// # fn server(db: underpass::Service, locks: std::sync::Arc<Locks>) -> underpass::Server {
    /// underpass::Server::new()
    ///     .export("db", db.on_binding_end(move |binding| locks.release_all_of(binding.id())))
    /// # }
    /// ```
    pub fn on_binding_end(mut self, hook: impl Fn(&Binding) + Send + Sync + 'static) -> Self {
        self.options.on_end = Some(Arc::new(hook));
        self
    }

    /// Has calls of this export run on stacks of at least `bytes`. Without it they have 2 MiB.
    ///
    /// These are bytes of address space. A stack takes memory for the pages that its calls have
    /// touched, and a call that went deep gives back what it used beyond 256 KiB. If a handler
    /// needs more than its stack has, the process aborts, and a message names the interface, the
    /// method and this setting. [`with_stack`](underpass_threads::with_stack) gives a part of a
    /// handler a larger stack instead.
    ///
    /// The calls of a domain run on stacks of one size, the largest that its exports ask for. The
    /// 2 MiB become less, but at least 256 KiB, if this process is limited as it starts to serve:
    /// 1/4096 of what `ulimit -v` and `ulimit -d` allow, and 256 KiB where the kernel promises
    /// memory for all that is mapped (`vm.overcommit_memory` is 2).
    ///
    /// Async handlers run on the stacks of their executor, and importers in this very domain call
    /// on their own.
    ///
    /// [`Server::start`](crate::Server::start) fails with
    /// [`ExportError::System`](crate::ExportError::System) if there is no address space for one
    /// such stack.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(sql: underpass::Service) -> underpass::Server {
    /// // A parser that recurses for each level of an expression.
    /// underpass::Server::new().export("sql", sql.stack_size(64 << 20))
    /// # }
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.options.stack = Some(bytes);
        self
    }

    /// Names the state of this export: all that its clients have been given and refer to, such as
    /// ids of objects or sessions.
    ///
    /// A client of `import_resilient` whose new server named the same state as the one before goes
    /// on as if there had been no restart. Without a name, or with another, its calls fail with
    /// [`CallError::Restarted`](crate::CallError::Restarted), unless the interface is stateless or
    /// the client restores its state.
    ///
    /// A server that names a state promises that everything which any client was given under this
    /// name is still valid. So keep a random number beside the state, in the same file or database,
    /// and make a new one whenever the state begins afresh or goes back to an older copy.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(fs: underpass::Service, id_in_the_store: u128) -> underpass::Server {
    /// underpass::Server::new().replace().export("fs", fs.state_id(id_in_the_store))
    /// # }
    /// ```
    pub fn state_id(mut self, id: u128) -> Self {
        self.options.state = Some(id);
        self
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("interface", &self.descriptor.name).finish_non_exhaustive()
    }
}
