//! The listener for clients on other machines.

use crate::remote::codec::MOST_BYTES;
use crate::remote::incoming::IncomingConnections;
use crate::remote::runtime::runtime;
use crate::remote::service::RemoteService;
use crate::remote::tls::RemoteTls;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::transport::Server;
use underpass::remote::{RemoteExport, most_connections};
use underpass::{Error, ExportError};

/// How often a listener asks a silent client whether it is there, and how long it waits then.
const KEEP_ALIVE: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(20)];

/// The most calls at once over one connection. hyper's own limit is 200, and further ones wait.
const MOST_STREAMS: u32 = 1024;

/// Exports services to other machines.
///
/// Each service says how remote peers prove who they are
/// ([`Service::remote_peers`](underpass::Service::remote_peers)), or it can't be exported. The same
/// service can be exported on this machine too, by [`underpass::Server`].
///
/// # Examples
/// See the [module](crate::remote).
#[derive(Default)]
#[must_use = "nothing is exported before `listen` or `service`"]
pub struct RemoteServer {
    exports: Vec<(String, underpass::Service)>,
    most_bytes: Option<usize>,
}

/// A listener that runs. When it is dropped, it takes no more connections and ends those that it
/// has, after the calls under way.
#[must_use = "the listener ends when this is dropped"]
pub struct RemoteListener {
    address: SocketAddr,
    /// Its drop ends the listener.
    _stop: oneshot::Sender<()>,
}

impl RemoteServer {
    /// No exports yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Exports `service` as `name`: clients import `https://host:port/name`.
    pub fn export(mut self, name: impl Into<String>, service: underpass::Service) -> Self {
        self.exports.push((name.into(), service));
        self
    }

    /// The most bytes of an argument list, in place of 4 MiB. Larger ones are errors of their
    /// calls. Memory for as much is reserved for each call that comes, and 1,024 calls of an export
    /// may run at once. A client has a limit of its own
    /// ([`Remote::largest`](crate::remote::Remote::largest)).
    pub fn largest(mut self, bytes: usize) -> Self {
        self.most_bytes = Some(bytes);
        self
    }

    /// The exports as a service, for a tonic server.
    ///
    /// *That server needs TLS, if an export takes tokens and other machines reach it:* without TLS
    /// the tokens travel in the clear. See [`RemoteService`] for what is refused. Limits of
    /// connections are the server's own.
    ///
    /// # Errors
    /// [`ExportError::Remote`]: a service can't be called from other machines, or does not say how
    /// peers prove who they are. The error names the method, and the remedy.
    ///
    /// # Examples
    /// ```no_run
    /// use tonic::transport::Server;
    /// use underpass_grpc::remote::RemoteServer;
    ///
    /// # type Served = Result<(), Box<dyn std::error::Error>>;
    /// # async fn serve(addr: std::net::SocketAddr, greeter: underpass::Service) -> Served {
    /// let exports = RemoteServer::new().export("greeter", greeter).service()?;
    /// Server::builder().add_service(exports).serve(addr).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn service(self) -> underpass::Result<RemoteService> {
        let exports = self.exports.into_iter().map(|(name, service)| RemoteExport::new(name, service));
        let most_bytes = self.most_bytes.unwrap_or(MOST_BYTES);
        Ok(RemoteService::new(exports.collect::<Result<_, _>>()?, most_bytes)?)
    }

    /// Listens at `address`, on threads of its own. Without `tls` nothing is encrypted.
    ///
    /// It has at most [`most_connections`] at once, and further clients wait. A connection ends if
    /// its client does not prove within a minute who it is.
    ///
    /// # Errors
    /// As [`service`](Self::service). [`ExportError::Remote`] also if an export wants certificates
    /// and `tls` names no authority, or wants tokens without TLS at an address that other machines
    /// reach. [`ExportError::System`] if the address can't be listened at.
    pub fn listen(
        self,
        address: impl ToSocketAddrs,
        tls: impl Into<Option<RemoteTls>>,
    ) -> underpass::Result<RemoteListener> {
        let (service, tls) = (self.service()?, tls.into());
        let listener = TcpListener::bind(address).map_err(system)?;
        let address = listener.local_addr().map_err(system)?;
        check(&service, address, tls.as_ref())?;
        let runtime = runtime().map_err(system)?;
        let _runtime = runtime.enter();
        let incoming = IncomingConnections::new(listener, most_connections()).map_err(system)?;
        let all = service.exports().all(|export| export.peers().needs_certificate());
        let mut server = server(tls, all)?
            .max_concurrent_streams(Some(MOST_STREAMS))
            .http2_keepalive_interval(Some(KEEP_ALIVE[0]))
            .http2_keepalive_timeout(Some(KEEP_ALIVE[1]));
        let router = server.add_service(service);
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move { drop(stopped.await) };
        // Errors of single connections end those alone.
        runtime.spawn(router.serve_with_incoming_shutdown(incoming, stopped));
        Ok(RemoteListener { address, _stop: stop })
    }
}

fn system(error: io::Error) -> Error {
    ExportError::System("can't listen for other machines", error).into()
}

/// Whether clients can prove who they are at this listener.
fn check(service: &RemoteService, address: SocketAddr, tls: Option<&RemoteTls>) -> Result<(), ExportError> {
    for export in service.exports() {
        let refuse = |why: &str| Err(ExportError::Remote(export.name().to_owned(), why.to_owned()));
        let peers = export.peers();
        if peers.takes_certificates() && tls.is_none_or(|tls| tls.authority.is_none()) {
            return refuse("it wants certificates; name who issues them, by `RemoteTls::authority`");
        }
        if peers.takes_tokens() && tls.is_none() && !address.ip().is_loopback() {
            return refuse("it wants tokens, which must not travel without TLS; give `listen` a certificate");
        }
    }
    Ok(())
}

#[cfg(feature = "tls")]
fn server(tls: Option<RemoteTls>, all: bool) -> underpass::Result<Server> {
    let Some(tls) = tls else { return Ok(Server::builder()) };
    let configured = Server::builder().tls_config(tls.of_listener(all));
    configured.map_err(|error| system(io::Error::other(crate::remote::tls::chain(&error))))
}

#[cfg(not(feature = "tls"))]
fn server(tls: Option<RemoteTls>, _: bool) -> underpass::Result<Server> {
    match tls {
        None => Ok(Server::builder()),
        Some(_) => {
            let why = "this program was built without TLS; enable the feature `tls` of underpass-grpc";
            Err(system(io::Error::other(why)))
        }
    }
}

impl RemoteListener {
    /// Where it listens: with the port that the system chose, if it was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl fmt::Debug for RemoteServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.exports.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl fmt::Debug for RemoteListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteListener").field("address", &self.address).finish_non_exhaustive()
    }
}
