//! An implementation that is ready to be exported, with the options of its export.

use crate::binding::grant::Grant;
use crate::binding::implementation::Implementation;
use crate::binding::object::Binding;
use crate::binding::peer::Peer;
use crate::binding::record::OnEnd;
use crate::dispatch::incoming::Dispatch;
use crate::dispatch::measured::MeasuredDispatch;
use crate::metrics::{self, MeasuredSide};
use crate::remote::peers::RemotePeers;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use underpass_wire::Descriptor;

/// Decides which clients may have a binding.
pub(crate) type Authorize = dyn Fn(&Peer) -> Grant + Send + Sync;

/// The options of one export.
#[derive(Clone, Default)]
pub(crate) struct ExportOptions {
    /// `None`: every client may import that the mode of the name's socket lets connect.
    pub(crate) authorize: Option<Arc<Authorize>>,
    /// How long a binding lasts. `None`: without limit.
    pub(crate) expires: Option<Duration>,
    /// Whether clients may pass their bindings on.
    pub(crate) shareable: bool,
    /// Whether bindings can be revoked by command.
    pub(crate) revocable: bool,
    /// Whether calls can be traced.
    pub(crate) traceable: bool,
    /// Whether calls are measured. `None`: as the environment says.
    pub(crate) measured: Option<bool>,
    /// Called when a binding has ended.
    pub(crate) on_end: Option<Arc<OnEnd>>,
    /// The least number of bytes of stack for each call. `None`: the default.
    pub(crate) stack: Option<usize>,
    /// Names the state that is served, if the server names it.
    pub(crate) state: Option<u128>,
    /// How clients on other machines prove who they are. `None`: there are none.
    pub(crate) remote: Option<RemotePeers>,
}

/// An implementation of an interface, ready to be exported. The interface's `serve` makes it. Its
/// methods set the options of the export; [`Server::export`] gives it a name.
///
/// A clone shares the implementation and has options of its own. So a server can export one
/// implementation under two names with different options.
///
/// [`Server::export`]: crate::Server::export
///
/// # Examples
/// ```no_run
/// # use std::time::Duration;
/// fn run(fs: underpass::Service) -> Result<(), underpass::Error> {
///     let for_guests =
///         fs.clone().authorize(|peer| peer.uid() >= 1000).expires_in(Duration::from_secs(60));
///     underpass::Server::new()
///         .mode(0o666)
///         .export("fs", fs.authorize(|peer| peer.uid() == 0))
///         .export("fs.guest", for_guests)
///         .run()
/// }
/// ```
#[derive(Clone)]
pub struct Service {
    pub(crate) implementation: Implementation,
    pub(crate) options: ExportOptions,
}

impl Service {
    /// The implementation behind the server stub `stub`. Generated code calls this.
    pub fn new(descriptor: &'static Descriptor, stub: Arc<dyn Dispatch>) -> Self {
        Self::of(Implementation { descriptor, stub })
    }

    /// A service of this implementation, with the usual options.
    pub(crate) fn of(implementation: Implementation) -> Self {
        Self { implementation, options: ExportOptions::default() }
    }

    /// The interface that it implements.
    pub fn descriptor(&self) -> &'static Descriptor {
        self.implementation.descriptor
    }
}

impl Service {
    /// Makes `decide` choose which clients may import this export. Without it, every client may
    /// that the mode of the name's socket lets connect.
    ///
    /// The server calls `decide` at each import from another domain, after the kernel has checked
    /// the socket's mode. The kernel also says which process the peer is. `decide` may block: that
    /// delays other imports by clients of the same user, and no calls. If it panics, the client is
    /// refused.
    ///
    /// It runs on kernel threads of its own: at the same time for several users, and for one client
    /// after another of the same user. Of each user 64 clients may wait. The server refuses further
    /// ones.
    ///
    /// It is not called for importers in the same domain: they have the implementation.
    ///
    /// It also decides about clients that ask what the name is ([`inspect`](crate::inspect)), as
    /// `underpass ls` does. If the name has several services, each of them has to let such a client
    /// in. Its binding ends as [`expires_in`](Self::expires_in) and
    /// [`on_binding_end`](Self::on_binding_end) say.
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
    /// [`authorize`](Self::authorize) says otherwise. A binding by which a client asks what the
    /// name is ([`inspect`](crate::inspect)) lasts no longer than one of any service of the name.
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
    /// client stub). Without this option they may not, unless the [`Grant`] of
    /// [`authorize`](Self::authorize) allows it.
    ///
    /// The domain that receives such a binding becomes a client of its own. The server calls
    /// `authorize` for it, charges it to its own user, and [`caller`](crate::caller) names it. Its
    /// binding expires no later than the binding of the client who passed it on, and is revoked
    /// separately. If the passing client's binding ends before the domain has taken the new one,
    /// the new one ends too.
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

    /// Lets this process's user, and root, revoke bindings of this export by command (`underpass
    /// revoke`). Without it only the process itself revokes them
    /// ([`Running::bindings`](crate::Running::bindings)).
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(fs: underpass::Service) -> underpass::Server {
    /// underpass::Server::new().export("fs", fs.revocable())
    /// # }
    /// ```
    pub fn revocable(mut self) -> Self {
        self.options.revocable = true;
        self
    }

    /// Lets this process's user, and root, see the calls of this export (`underpass trace`): the
    /// method, the client, the time and the duration. Arguments and results are not shown. Calls
    /// from other machines are not recorded.
    ///
    /// A call of such an export costs an indirect call and a load more, and while somebody traces
    /// the record.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(fs: underpass::Service) -> underpass::Server {
    /// underpass::Server::new().export("fs", fs.traceable())
    /// # }
    /// ```
    pub fn traceable(mut self) -> Self {
        self.options.traceable = true;
        self
    }

    /// Says whether the calls of this export are counted and timed, method by method. What they did
    /// is in [`metrics`](crate::metrics). The default is `false`, and `true` in a process with
    /// `UNDERPASS_METRICS=1` in its environment.
    ///
    /// Calls within this domain are function calls, and are not measured.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(fs: underpass::Service) -> underpass::Server {
    /// underpass::Server::new().export("fs", fs.measured(true))
    /// # }
    /// ```
    pub fn measured(mut self, on: bool) -> Self {
        self.options.measured = Some(on);
        self
    }

    /// What measures its calls as those of `name`, wrapped around its implementation. Nothing if
    /// they are not measured.
    pub(crate) fn measure_as(&mut self, name: &str) {
        if self.options.measured.unwrap_or_else(metrics::is_default) {
            let meter = metrics::meter_of(MeasuredSide::Export, name, self.descriptor());
            MeasuredDispatch::wrap(&mut self.implementation, meter);
        }
    }

    /// Makes the server call `hook` once at the end of each binding of this export, whatever the
    /// reason: the client has dropped the binding, has died or has broken the rules, the server has
    /// revoked the binding, the binding has expired, or the export ends.
    ///
    /// When the hook runs, no call of the binding runs, and none will. So a hook can roll back a
    /// transaction that the client has left open. If a handler still runs when its client dies, the
    /// hook waits for it; [`is_cancelled`](crate::is_cancelled) tells the handler to return. The
    /// state that handlers have attached by [`binding_state`](crate::binding_state) is dropped
    /// right after the hook. The hook can ask for that state, and for [`caller`](crate::caller), as
    /// a handler can.
    ///
    /// The hook runs on a user-level thread of its own. Several hooks may run at once, each for
    /// another binding. A hook may block as a handler may, and delays nothing else. If it panics,
    /// the state is dropped nevertheless. [`Running::shutdown`](crate::Running::shutdown) waits for
    /// it, within its time. [`Running::stop`](crate::Running::stop) does not, nor does the end of
    /// the process.
    ///
    /// An import by the same domain is a binding, too. It ends when the last clone of its stub is
    /// dropped. The end of this domain's exports does not wait for that.
    ///
    /// `hook` is not called for a client that was let in and then did not get its binding, because
    /// the client was gone or the export ended.
    ///
    /// If the service has [`authorize`](Self::authorize), `hook` is also called for clients that
    /// ask what the name is ([`inspect`](crate::inspect)): `authorize` has let them in. It is not
    /// called for a client that another service of the name then refuses.
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

    /// Makes calls of this export run on stacks of at least `bytes`. Without it they have 2 MiB.
    ///
    /// The number is address space. A stack takes memory for the pages that its calls have touched,
    /// and a deep call gives back what it used beyond 256 KiB. If a handler needs more than its
    /// stack has, the process aborts with a message that names the interface, the method and this
    /// setting. To give only a part of a handler a larger stack, use
    /// [`with_stack`](underpass_threads::with_stack).
    ///
    /// The calls of a domain run on stacks of one size, the largest that its exports ask for. The
    /// default of 2 MiB becomes less, but at least 256 KiB, if this process has limits when it
    /// starts to serve:
    ///
    /// * 1/4096 of what `ulimit -v` and `ulimit -d` allow;
    /// * 256 KiB if the kernel reserves memory for all that is mapped (`vm.overcommit_memory` is
    ///   2).
    ///
    /// Async handlers run on the stacks of their executor. Importers in the same domain call on
    /// their own stacks.
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

    /// Names the state of this export: everything that its clients have been given and refer to,
    /// such as ids of objects or sessions.
    ///
    /// If a client of `import_resilient` gets a new server, and that server names the same state as
    /// the previous one, the client goes on as if there had been no restart. Otherwise its calls
    /// fail with [`CallError::Restarted`](crate::CallError::Restarted), unless the interface is
    /// stateless or the client restores its state.
    ///
    /// A server that names a state promises that everything which any client was given under this
    /// name is still valid. So keep a random number beside the state, in the same file or database.
    /// Make a new number whenever the state begins afresh or goes back to an older copy.
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

    /// Lets clients on other machines call this export, if they prove who they are in this way.
    /// Without it no transport takes the service. It opens nothing by itself: a transport such as
    /// `underpass-grpc` listens.
    ///
    /// [`authorize`](Self::authorize) decides over clients of both kinds, and over remote ones at
    /// each call. [`Peer::remote`] tells it which they are. `expires_in` and `shareable` mean
    /// nothing to remote clients.
    ///
    /// # Examples
    /// ```
    /// use underpass::remote::RemotePeers;
    ///
    /// fn for_both(fs: underpass::Service) -> underpass::Service {
    ///     fs.remote_peers(RemotePeers::certificate()).authorize(|peer| peer.remote().is_some() || peer.uid() == 0)
    /// }
    /// # let _ = for_both;
    /// ```
    pub fn remote_peers(mut self, proof: RemotePeers) -> Self {
        self.options.remote = Some(proof);
        self
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("interface", &self.descriptor().name).finish_non_exhaustive()
    }
}
