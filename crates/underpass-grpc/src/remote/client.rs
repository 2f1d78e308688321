//! The transport of clients: how they prove who they are, and how they connect.

use crate::remote::address::RemoteAddress;
use crate::remote::binding::{Carriers, HttpBinding, Import};
use crate::remote::codec::MOST_BYTES;
use crate::remote::runtime::{runtime, wait_for};
use crate::remote::tls::{ClientTls, chain};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tonic::transport::{Channel, Endpoint};
use underpass::remote::{RemoteBinding, RemoteTransport};
use underpass::{Descriptor, ImportError};

/// How long one attempt to connect takes, at most.
const ATTEMPT: Duration = Duration::from_secs(5);

/// The shortest and the longest pause between two attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// Gives the token of the next call.
type Token = dyn Fn() -> String + Send + Sync;

/// Changes an endpoint of tonic's.
type Change = dyn Fn(Endpoint) -> Endpoint + Send + Sync;

/// The transport of calls to other machines, over HTTP/2: which servers it trusts, and how it
/// proves its identity to them.
///
/// An address is `https://host:port/name`, or `http://` where another layer encrypts. Names are
/// resolved at each connect, and all their addresses are tried. `https://a:443,b:443/name` divides
/// calls among several servers, which only a stateless interface allows.
///
/// A binding connects again by itself. If the server is another one then, calls of a stateful
/// interface fail with `PeerDied`, and were not started.
///
/// # Examples
/// ```no_run
/// use underpass_grpc::remote::Remote;
///
/// # fn transport() -> std::io::Result<Remote> {
/// let remote = Remote::new()
///     .authority(std::fs::read("servers-ca.pem")?)
///     .identity(std::fs::read("me.pem")?, std::fs::read("me.key")?);
/// remote.clone().install();
/// # Ok(remote)
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "it does nothing before it is installed or passed to `import_by`"]
pub struct Remote {
    tls: ClientTls,
    token: Option<Arc<Token>>,
    changes: Vec<Arc<Change>>,
    most_bytes: Option<usize>,
    runtime: Option<Handle>,
}

/// Installs a transport that trusts the certificate authorities of the system, and that proves
/// nothing itself: `Remote::new().install()`. From now on `import` takes addresses.
pub fn install() {
    Remote::new().install();
}

impl Remote {
    /// A transport that trusts the certificate authorities of the system, and that proves nothing
    /// itself.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts servers with certificates of this authority, in PEM, and no others.
    pub fn authority(mut self, certificate: impl Into<Vec<u8>>) -> Self {
        self.tls.authority = Some(certificate.into());
        self
    }

    /// Proves who this client is by a certificate, with those of its issuers, and its key, in PEM.
    pub fn identity(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.tls.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Expects this name in the server's certificate, in place of the address's host.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.tls.server_name = Some(name.into());
        self
    }

    /// Proves who this client is by a bearer token. It is sent over TLS, or to this very machine.
    pub fn token(self, token: impl Into<String>) -> Self {
        let token = token.into();
        self.token_from(move || token.clone())
    }

    /// As [`token`](Self::token), by a token that changes. `next` is called for each call, and must
    /// not block.
    pub fn token_from(mut self, next: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.token = Some(Arc::new(next));
        self
    }

    /// The most bytes of an argument list or of a result, in place of 4 MiB. Larger ones are errors
    /// of their calls. The server has a limit of its own
    /// ([`RemoteServer::largest`](crate::remote::RemoteServer::largest)).
    pub fn largest(mut self, bytes: usize) -> Self {
        self.most_bytes = Some(bytes);
        self
    }

    /// Changes what only tonic knows: windows, keep-alive, limits.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use underpass_grpc::remote::Remote;
    ///
    /// let remote = Remote::new().with_tonic(|endpoint| {
    ///     endpoint.http2_keep_alive_interval(Duration::from_secs(10)).keep_alive_while_idle(true)
    /// });
    /// # let _ = remote;
    /// ```
    pub fn with_tonic(mut self, change: impl Fn(Endpoint) -> Endpoint + Send + Sync + 'static) -> Self {
        self.changes.push(Arc::new(change));
        self
    }

    /// The runtime that carries the calls of its own tasks. Such a call then wakes no other kernel
    /// thread. All others go by a runtime of the transport's own, as without this: imports, calls
    /// by threads, which may hold up their runtime meanwhile, and calls with streams.
    ///
    /// # Examples
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// use tokio::runtime::Handle;
    /// use underpass_grpc::remote::Remote;
    ///
    /// let remote = Remote::new().runtime(Handle::current());
    /// # let _ = remote;
    /// # });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// From now on `import` takes addresses, and goes by this transport.
    pub fn install(self) {
        underpass::remote::install(Arc::new(self));
    }

    /// One of the servers of an address.
    fn endpoint(&self, scheme: &str, host: &str) -> Result<Endpoint, String> {
        let uri = format!("{scheme}://{host}");
        let endpoint = Endpoint::from_shared(uri).map_err(|error| format!("{host}: {}", chain(&error)))?;
        let endpoint = endpoint.connect_timeout(ATTEMPT).tcp_nodelay(true);
        let endpoint = self.changes.iter().fold(endpoint, |endpoint, change| change(endpoint));
        if scheme == "https" { self.secure(endpoint) } else { Ok(endpoint) }
    }

    #[cfg(feature = "tls")]
    fn secure(&self, endpoint: Endpoint) -> Result<Endpoint, String> {
        self.tls.apply(endpoint)
    }

    #[cfg(not(feature = "tls"))]
    fn secure(&self, _: Endpoint) -> Result<Endpoint, String> {
        Err("this program was built without TLS; enable the feature `tls` of underpass-grpc".to_owned())
    }

    /// A channel to the servers of an address, on this runtime. It connects at its first call.
    fn channel(&self, address: &RemoteAddress, runtime: &Handle) -> Result<Channel, String> {
        if self.token.is_some() && !address.is_secure() && !address.is_loopback() {
            return Err("a token is not sent without TLS; write https://".to_owned());
        }
        let endpoint = |host: &String| self.endpoint(&address.scheme, host);
        let endpoints = address.hosts.iter().map(endpoint).collect::<Result<Vec<_>, _>>()?;
        let _context = runtime.enter();
        Ok(match &endpoints[..] {
            [one] => one.connect_lazy(),
            _ => Channel::balance_list(endpoints.into_iter()),
        })
    }
}

impl RemoteTransport for Remote {
    fn connect(
        &self,
        address: &str,
        interface: &'static Descriptor,
        within: Option<Duration>,
    ) -> Result<Arc<dyn RemoteBinding>, ImportError> {
        let refuse = |why: String| ImportError::Remote(address.to_owned(), why);
        let read = RemoteAddress::read(address).map_err(refuse)?;
        if read.hosts.len() > 1 && !interface.stateless {
            return Err(refuse("several servers need a stateless interface".to_owned()));
        }
        let own = runtime().map_err(|error| refuse(error.to_string()))?;
        let channel = self.channel(&read, own).map_err(refuse)?;
        let given = match &self.runtime {
            Some(given) => Some((given.clone(), self.channel(&read, given).map_err(refuse)?)),
            None => None,
        };
        let carriers = Carriers { own: channel, given };
        let import = Import {
            carriers,
            address: read,
            text: address.to_owned(),
            interface,
            token: self.token.clone(),
            most_bytes: self.most_bytes.unwrap_or(MOST_BYTES),
        };
        let until = within.map(|within| Instant::now() + within);
        let imported = wait_for(attempts(import, until));
        imported.map_err(|error| ImportError::System("nothing can be imported from other machines", error))?
    }
}

/// Imports, and again as long as the server can't be reached and there is time.
async fn attempts(import: Import, until: Option<Instant>) -> Result<Arc<dyn RemoteBinding>, ImportError> {
    let mut pause = PAUSES[0];
    loop {
        let imported = match tokio::time::timeout(ATTEMPT, import.attempt()).await {
            Ok(imported) => imported,
            Err(_) => Err(ImportError::NoAnswer(import.text.clone().into(), ATTEMPT)),
        };
        let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        match imported {
            Err(ImportError::Unreachable(..) | ImportError::NoAnswer(..)) if !left.is_zero() => {
                tokio::time::sleep(pause.min(left)).await;
                pause = (pause * 2).min(PAUSES[1]);
            }
            Err(error) => return Err(error),
            Ok(instance) => return Ok(Arc::new(HttpBinding::new(import, instance))),
        }
    }
}

/// What proves who the client is is not shown.
impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("token", &self.token.is_some()).finish_non_exhaustive()
    }
}
