//! Exporting interfaces: what a server's `main` does.

use crate::binding::Binding;
use crate::changes;
use crate::clerk::{Exported, Offer, Terms, clerk};
use crate::error::{Error, ExportError};
use crate::grant::Grant;
use crate::limits::{Limits, Quotas};
use crate::name;
use crate::peer::Peer;
use crate::replaced::GLANCE;
use crate::running::{BoundServer, Running};
use crate::service::Service;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use underpass_os::end_signal::{self, EndSignal};
use underpass_os::{Directory, Listening, barrier, clock, fork};

/// How long a server that was replaced waits for calls that it has begun.
const DRAIN: Duration = Duration::from_secs(60);

/// A domain's exports, being put together.
///
/// # Examples
/// ```no_run
/// // `service` comes from an interface's `serve`.
/// fn run(service: underpass_rpc::Service) -> Result<(), underpass_rpc::Error> {
///     underpass_rpc::Server::new().export("fs.cache", service).run()
/// }
/// ```
#[derive(Debug)]
#[must_use = "nothing is exported until `start` or `run`"]
pub struct Server {
    directory: Directory,
    mode: u32,
    exports: Vec<Export>,
    limits: Limits,
    limits_of: HashMap<u32, Limits>,
    replace: bool,
    /// How long to drain after a signal that asks the process to end, if it is caught.
    signals: Option<Duration>,
}

/// One of them.
#[derive(Debug)]
struct Export {
    name: String,
    service: Service,
    terms: Terms,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// No exports yet. Names will stand in `$UNDERPASS_DIR`, else `$XDG_RUNTIME_DIR/underpass`,
    /// else `/run/underpass` for root and `/tmp/underpass-UID` otherwise; this user's processes may
    /// connect.
    pub fn new() -> Self {
        Self {
            directory: Directory::from_environment(),
            mode: 0o600,
            exports: Vec::new(),
            limits: Limits::default(),
            limits_of: HashMap::from([(0, Limits::of_root())]),
            replace: false,
            signals: None,
        }
    }

    /// Puts the names into `directory` instead.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Directory::at(directory);
        self
    }

    /// Who may connect, as the mode of the names' sockets: write permission is what counts. 0o600
    /// at first.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Exports `service` as `name` (1 to 64 bytes, no `/`, no NUL).
    pub fn export(mut self, name: impl Into<String>, service: Service) -> Self {
        self.exports.push(Export { name: name.into(), service, terms: Terms::default() });
        self
    }

    /// Lets `decide` say who may have a binding of the interface exported last. It is asked at each
    /// import from another domain, after the mode of the name's socket, and told who that is by the
    /// kernel. It may block: that delays other imports by clients of the same user, and no calls.
    /// If it panics, the answer is no.
    ///
    /// It runs on kernel threads of its own, at the same time for several users, and for each user
    /// about one client after another. Of each user 64 clients may wait; more are refused.
    ///
    /// Importers in this very domain are not asked about; they have the implementation.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(fs: underpass_rpc::Service, admin: underpass_rpc::Service) -> underpass_rpc::Server {
    /// underpass_rpc::Server::new()
    ///     .mode(0o666)
    ///     .export("fs", fs)
    ///     .export("fs.admin", admin)
    ///     .authorize(|peer| peer.uid() == 0 || peer.is_in(27)) // of "fs.admin"
    /// # }
    /// ```
    ///
    /// # Panics
    /// If nothing was exported before.
    pub fn authorize<G: Into<Grant>>(mut self, decide: impl Fn(&Peer) -> G + Send + Sync + 'static) -> Self {
        self.last().authorize = Some(Arc::new(move |peer| decide(peer).into()));
        self
    }

    /// Revokes bindings of the interface exported last that long after they were made, unless
    /// [`authorize`](Self::authorize) has said otherwise.
    ///
    /// # Panics
    /// If nothing was exported before.
    pub fn expires_in(mut self, time: Duration) -> Self {
        self.last().expires = Some(time);
        self
    }

    /// Lets clients of the interface exported last pass their bindings on to other domains
    /// (`share_with` of the client stub), which become clients of their own: `authorize` is asked
    /// about them, they are counted for their own user, and they are who calls. Clients may not
    /// unless this, or [`authorize`](Self::authorize), says so. What the third domain gets expires
    /// no later than the client's own, and is revoked apart from it; until it has taken it, it ends
    /// with the client's.
    ///
    /// # Panics
    /// If nothing was exported before.
    pub fn shareable(mut self) -> Self {
        self.last().shareable = true;
        self
    }

    /// Has `hook` called at the end of each binding of the interface exported last: once, and
    /// whatever the reason. The client may have dropped the binding or died, or have broken the
    /// rules; the server may have revoked it, or its time may be over; or the export ends.
    ///
    /// No call of the binding runs then, and none will. So a hook can roll a transaction back that
    /// the client has left open. A handler that still runs when its client dies delays the hook
    /// until it returns; [`is_cancelled`](crate::is_cancelled) tells it to. What handlers have
    /// attached by [`binding_state`](crate::binding_state) is dropped right after the hook, which
    /// can ask for it, and for [`caller`](crate::caller), as a handler can.
    ///
    /// The hook runs on a user-level thread of its own, and so may several at once, each for
    /// another binding. It may block as a handler may, and delays nothing else. If it panics, the
    /// state is dropped all the same. [`Running::shutdown`] waits for it, within its time;
    /// [`Running::stop`] does not, nor does the end of the process.
    ///
    /// An import by this very domain is a binding, too. It ends when the last clone of its stub is
    /// dropped, and the end of this domain's exports does not wait for that.
    ///
    /// A client that is let in and then can't be given its binding, as it is gone by then or the
    /// export ends, has none: `hook` is not called for it.
    ///
    /// # Examples
    /// ```no_run
    /// # struct Locks;
    /// # impl Locks { fn release_all_of(&self, owner: u64) {} }
    /// # fn server(db: underpass_rpc::Service, locks: std::sync::Arc<Locks>) -> underpass_rpc::Server {
    /// underpass_rpc::Server::new()
    ///     .export("db", db)
    ///     .on_binding_end(move |binding| locks.release_all_of(binding.id()))
    /// # }
    /// ```
    ///
    /// # Panics
    /// If nothing was exported before.
    pub fn on_binding_end(mut self, hook: impl Fn(&Binding) + Send + Sync + 'static) -> Self {
        self.last().on_end = Some(Arc::new(hook));
        self
    }

    /// Has calls of the interface exported last run on stacks of at least `bytes`; 2 MiB if nothing
    /// is said.
    ///
    /// These are bytes of address space. A stack takes memory for the pages that its calls have
    /// touched, and a call that went deep gives back what it used beyond 256 KiB. A handler that
    /// needs more than its stack has aborts the process, and a message names the interface, the
    /// method and this setting. [`with_stack`](underpass_threads::with_stack) gives a part of a
    /// handler a larger stack instead.
    ///
    /// The calls of a domain run on stacks of one size, the largest that its interfaces ask for.
    /// Where nothing is said that is less than 2 MiB, but at least 256 KiB, if this process is
    /// limited as it starts to serve: 1/4096 of what `ulimit -v` and `ulimit -d` allow, and 256 KiB
    /// where the kernel promises memory for all that is mapped (`vm.overcommit_memory` is 2).
    ///
    /// Async handlers run on the stacks of their executor, and importers in this very domain call
    /// on their own.
    ///
    /// [`start`](Self::start) fails with [`ExportError::System`] if there is no address space for
    /// one such stack.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(sql: underpass_rpc::Service) -> underpass_rpc::Server {
    /// // A parser that recurses for each level of an expression.
    /// underpass_rpc::Server::new().export("sql", sql).stack_size(64 << 20)
    /// # }
    /// ```
    ///
    /// # Panics
    /// If nothing was exported before.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.last().stack = Some(bytes);
        self
    }

    /// Names the state of the interface exported last: all that its clients have been given and
    /// refer to, such as ids of objects or sessions. A client of `import_resilient` that comes from
    /// a server which named the same state goes on as if there had been no restart. Without a name,
    /// or with another, its calls are [`CallError::Restarted`](crate::CallError::Restarted), unless
    /// the interface is stateless or the client restores its state.
    ///
    /// A server that names a state promises that everything which any client was given under this
    /// name is still valid. So keep a random number beside the state, in the same file or database,
    /// and make a new one whenever the state begins afresh or goes back to an older copy.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(fs: underpass_rpc::Service, id_in_the_store: u128) -> underpass_rpc::Server {
    /// underpass_rpc::Server::new().replace().export("fs", fs).state_id(id_in_the_store)
    /// # }
    /// ```
    ///
    /// # Panics
    /// If nothing was exported before.
    pub fn state_id(mut self, id: u128) -> Self {
        self.last().state = Some(id);
        self
    }

    fn last(&mut self) -> &mut Terms {
        let last = self.exports.last_mut().expect("what this is about is exported before it: `.export(..)`");
        &mut last.terms
    }

    /// What the clients of each user but root may have of this server: [`Limits::default`] at
    /// first.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What the clients of one user may have. At first those of root (0) may have bindings for all
    /// files of this process but an eighth.
    pub fn limits_of(mut self, uid: u32, limits: Limits) -> Self {
        self.limits_of.insert(uid, limits);
        self
    }

    /// Begins to serve, on this domain's activations.
    ///
    /// # Errors
    /// [`ExportError`], and then nothing is exported.
    pub fn start(self) -> Result<Running, Error> {
        Ok(self.bind()?.serve())
    }

    /// Takes the names, and starts what serving needs. Importers can connect, and wait: nobody gets
    /// a binding, and no call begins, before [`BoundServer::serve`].
    ///
    /// For a server that has something left to do between the two, such as to give up rights. An
    /// importer waits for 5 s.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    ///
    /// # Examples
    /// ```no_run
    /// # fn give_up_rights() {}
    /// fn run(server: underpass_rpc::Server) -> Result<(), underpass_rpc::Error> {
    ///     let bound = server.bind()?;
    ///     give_up_rights();
    ///     bound.serve().until_replaced();
    ///     Ok(())
    /// }
    /// ```
    pub fn bind(self) -> Result<BoundServer, Error> {
        fork::check().map_err(|e| ExportError::System("nothing can be exported", e))?;
        let mut running = Running::default();
        let mut offers = Vec::new();
        let mut names = self.exports.iter().map(|export| &export.name);
        names.try_for_each(|name| name::check(name)).map_err(ExportError::BadName)?;
        self.directory.ensure().map_err(|e| ExportError::Directory(self.directory.path().into(), e))?;
        barrier::register();
        underpass_threads::start().listen();
        let quotas = Arc::new(Quotas::new(self.limits, self.limits_of));
        for Export { terms, .. } in &self.exports {
            underpass_threads::provide_e_stacks(terms.stack).map_err(|e| {
                ExportError::System("there is no room for a stack as large as `Server::stack_size` says", e)
            })?;
        }
        for Export { name, service, terms } in self.exports {
            let path = self.directory.join(&name);
            let stand = if self.replace { Listening::replace } else { Listening::bind };
            let listening = stand(&self.directory, &name, self.mode).map_err(|e| match e.kind() {
                io::ErrorKind::AddrInUse => ExportError::Taken(path.clone()),
                _ => ExportError::System("a name can't be exported", e),
            })?;
            let standing = listening.standing().clone();
            if terms.authorize.is_some() {
                // Now: later a sandbox may stand around this domain.
                let asks = clerk().and_then(|clerk| clerk.porter().start());
                asks.map_err(|e| ExportError::System("who asks `authorize` can't be started", e))?;
            }
            let (quotas, endings) = (quotas.clone(), running.endings.clone());
            let offer = Arc::new(Offer { name: name.into(), service, terms, quotas, endings });
            let key = clerk()
                .and_then(|clerk| clerk.export(Exported { listening, offer: offer.clone() }))
                .map_err(|e| ExportError::System("a name can't be watched", e))?;
            offers.push(offer);
            running.names.push((key, path));
            running.standings.push(standing);
        }
        Ok(BoundServer { running, offers })
    }

    /// Takes over names that a living domain has: a server upgraded in place. Who imports from then
    /// on comes here. The other domain turns new calls away, answers those that it has begun and
    /// ends, if it is in [`run`](Self::run), or waits by [`Running::until_replaced`]; and clients
    /// that have imported by `import_resilient` make their calls here, without having lost one, if
    /// their state has gone on: if the interface is stateless, this server names the
    /// [`state_id`](Self::state_id) of the other, or the client restores it. Only the owner of the
    /// directory of names may do so, since it takes permission to write there.
    ///
    /// # Examples
    /// ```no_run
    /// fn upgrade(service: underpass_rpc::Service) -> Result<(), underpass_rpc::Error> {
    ///     underpass_rpc::Server::new().replace().export("fs.cache", service).run()
    /// }
    /// ```
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// Has [`run`](Self::run) end the server cleanly when SIGTERM comes, or SIGINT (Ctrl-C): it
    /// removes the names, answers the calls that were begun, turns away the others
    /// ([`Closed`](crate::CallError::Closed), not started), and takes `within` for that at the
    /// most.
    ///
    /// After SIGTERM `run` returns `Ok`, so that `main` goes on and the process exits with its
    /// status, 0 as a rule: it did what it was asked to. After SIGINT `run` ends the process by
    /// SIGINT, as shells expect: a script that Ctrl-C interrupts ends only if its program did.
    /// `main` does not go on then, and no destructor of its variables runs.
    ///
    /// A second signal ends the process at once. A signal that the process ignores stays ignored,
    /// as under `nohup`.
    ///
    /// A server that another one [replaces](Self::replace) drains as long as without this. A signal
    /// that comes meanwhile shortens that to `within`, and the names stay the other's.
    ///
    /// Programs that end in other ways [`start`](Self::start), handle signals themselves, and then
    /// call [`Running::shutdown`].
    ///
    /// # Examples
    /// ```no_run
    /// use std::time::Duration;
    /// # fn serve(service: underpass_rpc::Service) -> Result<(), underpass_rpc::Error> {
    /// underpass_rpc::Server::new().export("fs.cache", service).drain_on_signals(Duration::from_secs(10)).run()
    /// # }
    /// ```
    pub fn drain_on_signals(mut self, within: Duration) -> Self {
        self.signals = Some(within);
        self
    }

    /// Serves, until other domains have taken over all of its names ([`replace`](Self::replace))
    /// and the calls begun here are answered; but for a minute at the most then. Or until a signal
    /// comes, if [`drain_on_signals`](Self::drain_on_signals) says so.
    ///
    /// # Errors
    /// As [`start`](Self::start). [`ExportError::System`] if the process handles one of the signals
    /// in another way, of which it was to drain.
    pub fn run(self) -> Result<(), Error> {
        let signals = self.signals;
        let refused = |e| ExportError::System("SIGTERM and SIGINT can't be caught", e);
        // Before the names are there.
        let bell = signals.map(|_| end_signal::catch()).transpose().map_err(refused)?;
        let running = self.start().inspect_err(|_| bell.iter().for_each(|_| end_signal::release()))?;
        if let Some(bell) = bell {
            let heard = clerk().and_then(|clerk| clerk.hear_end_signal(bell));
            heard.inspect_err(|_| end_signal::release()).map_err(refused)?;
        }
        let signal = || signals.and_then(|_| end_signal::came());
        changes::wait_for(GLANCE, || (signal().is_some() || running.is_replaced()).then_some(()));
        let latest = if signal().is_some() { u64::MAX } else { clock::deadline_ns(DRAIN) };
        let mut told = None;
        running.drain(|| match (signals, signal()) {
            (Some(within), Some(_)) => latest.min(*told.get_or_insert_with(|| clock::deadline_ns(within))),
            _ => latest,
        });
        match signal() {
            Some(signal @ EndSignal::Interrupt) => signal.end(),
            Some(EndSignal::Terminate) => Ok(()),
            None => {
                // The program goes on without this server: its signals end it again.
                bell.iter().for_each(|_| end_signal::release());
                Ok(())
            }
        }
    }
}
