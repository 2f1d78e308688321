//! Exporting interfaces: the server builder.

use crate::binding::exit_events;
use crate::binding::health::Health;
use crate::binding::inspect::Inspection;
use crate::binding::limits::{Limits, Quotas};
use crate::binding::name;
use crate::binding::replaced::GLANCE;
use crate::binding::run_phase::{PhaseHook, RunPhase};
use crate::binding::running::{BoundServer, Running};
use crate::binding::service::Service;
use crate::control::clerk::{Exported, Offer, clerk, share_a_version};
use crate::error::{Error, ExportError};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use underpass_os::end_signal::{self, EndSignal};
use underpass_os::{Directory, Listening, barrier, clock, fork, passed_elsewhere};

/// How long a server that was replaced waits for the calls that it has begun.
const DRAIN: Duration = Duration::from_secs(60);

/// A server that is being configured: it exports one or more interfaces under names.
///
/// # Examples
/// ```no_run
/// // `service` comes from an interface's `serve`.
/// fn run(service: underpass::Service) -> Result<(), underpass::Error> {
///     underpass::Server::new().export("fs.cache", service).run()
/// }
/// ```
#[derive(Debug)]
#[must_use = "nothing is exported until `start` or `run`"]
pub struct Server {
    directory: Directory,
    mode: u32,
    /// The names, each with its implementations.
    exports: Vec<(String, Vec<Service>)>,
    limits: Limits,
    limits_of: HashMap<u32, Limits>,
    replace: bool,
    /// Whether it takes the sockets that a service manager has passed.
    activation: bool,
    /// Told in `run` when the server is ready, and when it stops.
    phases: PhaseHook,
    /// What the names say when they are asked whether they serve.
    health: Health,
    /// Whether each name shows what it is, and what its process does.
    inspectable: bool,
    /// How long to drain after a signal that asks the process to end. `None`: such signals are not
    /// caught.
    signals: Option<Duration>,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// A server without exports.
    ///
    /// It will put its names into `$UNDERPASS_DIR`. If that is unset, into
    /// `$XDG_RUNTIME_DIR/underpass`; if that is unset too, into `/run/underpass` for root and
    /// `/tmp/underpass-UID` for other users. Only processes of the same user may connect
    /// ([`mode`](Self::mode)).
    pub fn new() -> Self {
        Self {
            directory: Directory::from_environment(),
            mode: 0o600,
            exports: Vec::new(),
            limits: Limits::default(),
            limits_of: HashMap::from([(0, Limits::of_root())]),
            replace: false,
            activation: false,
            phases: PhaseHook::default(),
            health: Health::new(),
            inspectable: true,
            signals: None,
        }
    }

    /// Puts the names into `directory` instead of the default directory.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Directory::at(directory);
        self
    }

    /// Sets the permissions of the names' sockets. A client needs write permission to connect. The
    /// default is 0o600.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Exports `service` as `name`, with the options that were set on the service. A name has 1 to
    /// 64 bytes, no `/` and no NUL.
    ///
    /// A name can have several services, for clients of versions of the interface that do not fit
    /// together. Each client gets the service whose version it knows. Two of them must not have a
    /// version in common.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(fs: underpass::Service, admin: underpass::Service) -> underpass::Server {
    /// underpass::Server::new()
    ///     .mode(0o666)
    ///     .export("fs", fs)
    ///     .export("fs.admin", admin.authorize(|peer| peer.uid() == 0))
    /// # }
    /// ```
    pub fn export(mut self, name: impl Into<String>, service: Service) -> Self {
        let name = name.into();
        match self.exports.iter_mut().find(|(known, _)| *known == name) {
            Some((_, services)) => services.push(service),
            None => self.exports.push((name, vec![service])),
        }
        self
    }

    /// Limits what the clients of each user except root may have of this server. The default is
    /// [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Limits what the clients of one user may have. By default the clients of root (0) may have
    /// bindings for 7/8 of the files that this process may open, and have no other limit.
    pub fn limits_of(mut self, uid: u32, limits: Limits) -> Self {
        self.limits_of.insert(uid, limits);
        self
    }

    /// Says whether the names show what they are, and what this process does
    /// ([`inspect`](crate::inspect)). The default is that they do, except in a sandbox.
    ///
    /// Every client that may import a name may then ask for its interfaces, with their
    /// documentation. Bindings, and what the process has done so far, are told to its own user and
    /// to root alone.
    ///
    /// # Examples
    /// ```no_run
    /// # fn server(service: underpass::Service) -> underpass::Server {
    /// underpass::Server::new().inspectable(false).export("fs.cache", service)
    /// # }
    /// ```
    pub fn inspectable(mut self, shows: bool) -> Self {
        self.inspectable = shows;
        self
    }

    /// Takes the names and begins to serve, on this domain's activations.
    ///
    /// # Errors
    /// [`ExportError`]. Then nothing is exported.
    pub fn start(self) -> Result<Running, Error> {
        Ok(self.bind()?.serve())
    }

    /// Takes the names and starts what serving needs, but serves nobody yet. Importers can connect,
    /// and wait until [`BoundServer::serve`].
    ///
    /// For a server that has something left to do between the two, for example to drop privileges.
    /// An importer waits for 5 s.
    ///
    /// # Errors
    /// The same as of [`start`](Self::start).
    ///
    /// # Examples
    /// ```no_run
    /// # fn drop_privileges() {}
    /// fn run(server: underpass::Server) -> Result<(), underpass::Error> {
    ///     let bound = server.bind()?;
    ///     drop_privileges();
    ///     bound.serve().until_replaced();
    ///     Ok(())
    /// }
    /// ```
    pub fn bind(mut self) -> Result<BoundServer, Error> {
        fork::check().map_err(|e| ExportError::System("nothing can be exported", e))?;
        let mut running = Running::default();
        let mut offers = Vec::new();
        let mut names = self.exports.iter().map(|(name, _)| name);
        names.try_for_each(|name| name::check(name)).map_err(ExportError::BadName)?;
        if let Some((name, _)) = self.exports.iter().find(|(_, services)| share_a_version(services)) {
            return Err(ExportError::SameVersion(name.clone()).into());
        }
        self.directory.ensure().map_err(|e| ExportError::Directory(self.directory.path().into(), e))?;
        barrier::register();
        underpass_threads::start().listen();
        let quotas = Arc::new(Quotas::new(self.limits, std::mem::take(&mut self.limits_of)));
        for service in self.exports.iter().flat_map(|(_, services)| services) {
            underpass_threads::provide_e_stacks(service.options.stack).map_err(|e| {
                ExportError::System("there is no address space for a stack of `Service::stack_size`", e)
            })?;
        }
        for (name, mut services) in std::mem::take(&mut self.exports) {
            services.iter_mut().for_each(|service| service.measure_as(&name));
            let path = self.directory.join(&name);
            let listening = self.listen(&name)?;
            let inspection = match self.inspectable {
                true => Inspection::add_to(&mut services, &name, listening.mode(), &self.health),
                false => None,
            };
            let standing = listening.standing().clone();
            if services.iter().any(|service| service.options.authorize.is_some()) {
                // Start it now: the domain may enter a sandbox later.
                let asks = clerk().and_then(|clerk| clerk.authorizer().start());
                asks.map_err(|e| {
                    ExportError::System("the thread that calls `authorize` can't be started", e)
                })?;
            }
            let (quotas, endings) = (quotas.clone(), running.endings.clone());
            let offer = Arc::new(Offer { name: name.into(), services, first: 0, quotas, endings });
            let key = clerk()
                .and_then(|clerk| clerk.export(Exported { listening, offer: offer.clone() }))
                .map_err(|e| ExportError::System("a name can't be watched", e))?;
            if let Some(inspection) = inspection {
                inspection.is_of(key);
            }
            offers.push(offer);
            running.names.push((key, path));
            running.standings.push(standing);
        }
        Ok(BoundServer { running, offers })
    }

    /// The socket that stands for `name`: one that was passed, or a new one.
    fn listen(&self, name: &str) -> Result<Listening, ExportError> {
        let path = self.directory.join(name);
        if self.activation {
            let passed = Listening::passed(&self.directory, name, self.mode);
            if let Some(listening) = passed.map_err(|e| ExportError::Passed(path.clone(), e))? {
                return Ok(listening);
            }
        }
        let stand = if self.replace { Listening::replace } else { Listening::bind };
        stand(&self.directory, name, self.mode).map_err(|e| match (e.kind(), passed_elsewhere()) {
            (io::ErrorKind::AddrInUse, Some(pid)) if self.activation => {
                let why = format!(
                    "the manager has passed it to process {pid}, and this is {}; let ExecStart= name this \
                     program, and no shell that starts it",
                    std::process::id()
                );
                ExportError::Passed(path, io::Error::other(why))
            }
            (io::ErrorKind::AddrInUse, _) => ExportError::Taken(path),
            _ => ExportError::Name(path, e),
        })
    }

    /// Takes the listening sockets that a service manager has passed for names of this server
    /// (*socket activation*, `sd_listen_fds(3)`), instead of making them. It makes the sockets of
    /// the other names itself.
    ///
    /// The socket of a name is the one that stands at the path of the name, or has the name in
    /// `LISTEN_FDNAMES`. It has to be `ListenSequentialPacket=` in a unit of systemd. Its mode is
    /// the manager's, and may admit fewer users than [`mode`](Self::mode), but no more.
    ///
    /// The manager keeps the socket. So clients can connect before this server is started, and
    /// while it is restarted: they wait for it. An import waits for 5 s, and `import_within` for
    /// its own time. The name stays when the server ends.
    ///
    /// # Errors
    /// [`start`](Self::start) fails with [`ExportError::Passed`] if the environment or a socket is
    /// not as it has to be.
    ///
    /// # Examples
    /// ```no_run
    /// fn run(service: underpass::Service) -> Result<(), underpass::Error> {
    ///     underpass::Server::new().socket_activation().export("fs.cache", service).run()
    /// }
    /// ```
    pub fn socket_activation(mut self) -> Self {
        self.activation = true;
        self
    }

    /// Lets the names of this server say what `health` says, to clients that ask
    /// ([`Inspect::health`](crate::inspect::Inspect::health)), as `underpass health` does. Without
    /// it they say that the server serves.
    ///
    /// # Examples
    /// ```no_run
    /// # fn run(service: underpass::Service) -> Result<(), underpass::Error> {
    /// let health = underpass::Health::new();
    /// let server = underpass::Server::new().health(&health).export("fs.cache", service);
    /// std::thread::spawn(move || {
    ///     health.not_serving("the disk is being checked");
    ///     // ...
    ///     health.serving();
    /// });
    /// server.run()
    /// # }
    /// ```
    pub fn health(mut self, health: &Health) -> Self {
        self.health = health.clone();
        self
    }

    /// Makes [`run`](Self::run) call `told` when clients can import, and when the server begins to
    /// stop. `underpass::service` tells a service manager by it.
    ///
    /// # Examples
    /// ```no_run
    /// # fn run(service: underpass::Service) -> Result<(), underpass::Error> {
    /// use underpass::{RunPhase, Server};
    ///
    /// Server::new()
    ///     .export("fs.cache", service)
    ///     .on_phase(|phase| {
    ///         if phase == RunPhase::Stopping {
    ///             println!("no new clients from now on");
    ///         }
    ///     })
    ///     .run()
    /// # }
    /// ```
    pub fn on_phase(mut self, told: impl Fn(RunPhase) + Send + Sync + 'static) -> Self {
        self.phases.add(told);
        self
    }

    /// Takes over names that another running domain exports: an upgrade in place.
    ///
    /// New importers come to this server. The old domain refuses new calls, finishes the calls that
    /// it has begun, and ends, if it is in [`run`](Self::run) or [`Running::until_replaced`].
    ///
    /// Clients of `import_resilient` repeat refused calls here, and lose none, if their state has
    /// gone on. That holds if the interface is stateless, if this server names the same
    /// [`state_id`](Service::state_id) as the other, or if the client restores its state.
    ///
    /// Replacing needs permission to write in the directory of names, so only the directory's owner
    /// can do it.
    ///
    /// # Examples
    /// ```no_run
    /// fn upgrade(service: underpass::Service) -> Result<(), underpass::Error> {
    ///     underpass::Server::new().replace().export("fs.cache", service).run()
    /// }
    /// ```
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// Makes [`run`](Self::run) end the server cleanly on SIGTERM and SIGINT (Ctrl-C).
    ///
    /// The server removes its names, answers the calls that have begun, and refuses the others
    /// ([`Closed`](crate::CallError::Closed), not started). It takes at most `within` for that.
    ///
    /// * After SIGTERM `run` returns `Ok`. `main` goes on, and the process exits with its own
    ///   status, usually 0.
    /// * After SIGINT `run` ends the process by SIGINT, as shells expect: a script that Ctrl-C
    ///   interrupts ends only if its program was ended by SIGINT. `main` does not go on, and no
    ///   destructor of its variables runs.
    ///
    /// A second signal ends the process at once. A signal that the process ignores stays ignored,
    /// as under `nohup`.
    ///
    /// If another server [replaces](Self::replace) this one, this one drains for a minute, as
    /// without this option. A signal that comes during that time shortens it to `within`. The names
    /// stay the other server's.
    ///
    /// A program that ends in another way calls [`start`](Self::start), handles signals itself, and
    /// then calls [`Running::shutdown`].
    ///
    /// # Examples
    /// ```no_run
    /// use std::time::Duration;
    /// # fn serve(service: underpass::Service) -> Result<(), underpass::Error> {
    /// underpass::Server::new()
    ///     .export("fs.cache", service)
    ///     .drain_on_signals(Duration::from_secs(10))
    ///     .run()
    /// # }
    /// ```
    pub fn drain_on_signals(mut self, within: Duration) -> Self {
        self.signals = Some(within);
        self
    }

    /// Serves until other domains have taken over all names ([`replace`](Self::replace)) and the
    /// calls begun here are answered. It waits at most a minute for these calls. If
    /// [`drain_on_signals`](Self::drain_on_signals) is set, a signal ends it too.
    ///
    /// # Errors
    /// The same as of [`start`](Self::start). [`ExportError::System`] if this process already
    /// handles one of the signals of `drain_on_signals`.
    pub fn run(self) -> Result<(), Error> {
        let (signals, phases) = (self.signals, self.phases.clone());
        let refused = |e| ExportError::System("SIGTERM and SIGINT can't be caught", e);
        // Catch signals before the names exist.
        let bell = signals.map(|_| end_signal::catch()).transpose().map_err(refused)?;
        let running = self.start().inspect_err(|_| bell.iter().for_each(|_| end_signal::release()))?;
        if let Some(bell) = bell {
            let heard = clerk().and_then(|clerk| clerk.hear_end_signal(bell));
            heard.inspect_err(|_| end_signal::release()).map_err(refused)?;
        }
        phases.tell(RunPhase::Ready);
        let signal = || signals.and_then(|_| end_signal::came());
        exit_events::wait_for(GLANCE, || (signal().is_some() || running.is_replaced()).then_some(()));
        phases.tell(RunPhase::Stopping);
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
                // The program goes on without this server, so signals end the program again.
                bell.iter().for_each(|_| end_signal::release());
                Ok(())
            }
        }
    }
}
