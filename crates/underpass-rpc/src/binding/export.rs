//! Exporting interfaces: what a server's `main` does.

use crate::binding::changes;
use crate::binding::limits::{Limits, Quotas};
use crate::binding::name;
use crate::binding::replaced::GLANCE;
use crate::binding::running::{BoundServer, Running};
use crate::binding::service::Service;
use crate::control::clerk::{Exported, Offer, clerk};
use crate::error::{Error, ExportError};
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
    /// Names, and what stands under them.
    exports: Vec<(String, Service)>,
    limits: Limits,
    limits_of: HashMap<u32, Limits>,
    replace: bool,
    /// How long to drain after a signal that asks the process to end, if it is caught.
    signals: Option<Duration>,
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

    /// Exports `service` as `name` (1 to 64 bytes, no `/`, no NUL), with the options that were set
    /// on the service.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(fs: underpass_rpc::Service, admin: underpass_rpc::Service) -> underpass_rpc::Server {
    /// underpass_rpc::Server::new()
    ///     .mode(0o666)
    ///     .export("fs", fs)
    ///     .export("fs.admin", admin.authorize(|peer| peer.uid() == 0))
    /// # }
    /// ```
    pub fn export(mut self, name: impl Into<String>, service: Service) -> Self {
        self.exports.push((name.into(), service));
        self
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
        let mut names = self.exports.iter().map(|(name, _)| name);
        names.try_for_each(|name| name::check(name)).map_err(ExportError::BadName)?;
        self.directory.ensure().map_err(|e| ExportError::Directory(self.directory.path().into(), e))?;
        barrier::register();
        underpass_threads::start().listen();
        let quotas = Arc::new(Quotas::new(self.limits, self.limits_of));
        for (_, service) in &self.exports {
            underpass_threads::provide_e_stacks(service.options.stack).map_err(|e| {
                ExportError::System("there is no room for a stack as large as `Service::stack_size` says", e)
            })?;
        }
        for (name, service) in self.exports {
            let path = self.directory.join(&name);
            let stand = if self.replace { Listening::replace } else { Listening::bind };
            let listening = stand(&self.directory, &name, self.mode).map_err(|e| match e.kind() {
                io::ErrorKind::AddrInUse => ExportError::Taken(path.clone()),
                _ => ExportError::System("a name can't be exported", e),
            })?;
            let standing = listening.standing().clone();
            if service.options.authorize.is_some() {
                // Now: later a sandbox may stand around this domain.
                let asks = clerk().and_then(|clerk| clerk.porter().start());
                asks.map_err(|e| ExportError::System("who asks `authorize` can't be started", e))?;
            }
            let (quotas, endings) = (quotas.clone(), running.endings.clone());
            let offer = Arc::new(Offer { name: name.into(), service, quotas, endings });
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
    /// [`state_id`](Service::state_id) of the other, or the client restores it. Only the owner of the
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
