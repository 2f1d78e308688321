//! The server's process, and the ways to it.

use crate::BenchError;
use crate::calls;
use crate::processes::role::ChildRole;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Handle, Runtime};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use underpass::remote::RemotePeers;
use underpass_grpc::remote::RemoteServer;
use underpass_grpc::{Channel, HandOff, ServeOptions};
use underpass_test_grpc::generated::control_server::ControlServer;
use underpass_test_grpc::generated::interop_client::InteropClient;
use underpass_test_grpc::generated::interop_server::InteropServer;
use underpass_test_grpc::{ControlService, DepotAsync, DepotService, InteropService};

/// The names under which the services are exported: as by default, and by a task for each call.
const DEFAULT: &str = "grpc";
const SPAWNED: &str = "grpc-spawn";

/// The name under which an interface is exported to other machines.
pub(super) const REMOTE: &str = "depot";

/// How long a server may take to start.
const APPEAR: Duration = Duration::from_secs(10);

/// How a client reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrpcWay {
    /// Over a channel, as the library does it by default: a first poll where the call was taken.
    Underpass,
    /// Over a channel, by a task for each call.
    Spawned,
    Unix,
    Tcp,
}

fn socket(scratch: &Path) -> PathBuf {
    scratch.join("grpc.unix")
}

fn address(scratch: &Path) -> PathBuf {
    scratch.join("grpc.tcp")
}

/// Where the server listens for TCP.
pub(super) fn tcp_address(scratch: &Path) -> Result<String, BenchError> {
    Ok(std::fs::read_to_string(address(scratch))?)
}

/// A client over this way.
pub(super) async fn connect(way: GrpcWay, scratch: &Path) -> Result<InteropClient<Channel>, BenchError> {
    let address = match way {
        GrpcWay::Spawned => format!("underpass:{SPAWNED}"),
        GrpcWay::Underpass => format!("underpass:{DEFAULT}"),
        GrpcWay::Unix => format!("unix:{}", socket(scratch).display()),
        GrpcWay::Tcp => format!("http://{}", tcp_address(scratch)?),
    };
    let endpoint = Channel::from_shared(address)?.connect_timeout(APPEAR);
    let endpoint = endpoint.with_tonic(|far| far.tcp_nodelay(true));
    let most = 64 << 20;
    Ok(InteropClient::new(endpoint.connect().await?).max_decoding_message_size(most))
}

/// Serves every way, until the process is killed.
pub(super) fn serve(role: &ChildRole) -> Result<(), BenchError> {
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        let interop = InteropServer::new(InteropService).max_decoding_message_size(64 << 20);
        let routes =
            Routes::new(interop).add_service(ControlServer::new(ControlService::default())).prepare();
        // The server of the scenario before has left its socket there.
        let path = socket(&role.scratch);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let unix = UnixListener::bind(path)?;
        let over_unix =
            Server::builder().add_routes(routes.clone()).serve_with_incoming(UnixListenerStream::new(unix));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let runtime = Handle::current();
        let depot = DepotAsync::serve(DepotService::default(), move |handler| drop(runtime.spawn(handler)));
        let depot = depot.remote_peers(RemotePeers::anyone());
        let exports = RemoteServer::new().export(REMOTE, depot).service()?;
        let written = role.scratch.join("grpc.tcp-new");
        std::fs::write(&written, listener.local_addr()?.to_string())?;
        std::fs::rename(written, address(&role.scratch))?;
        let over_tcp = Server::builder()
            .add_routes(routes.clone())
            .add_service(exports)
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
        // Last, since the client waits for the names.
        let spawned = ServeOptions::new().hand_off(HandOff::Spawn);
        let _running = calls::exporting(calls::NAME)
            .export(SPAWNED, spawned.service(routes.clone()))
            .export(DEFAULT, ServeOptions::new().service(routes))
            .start()?;
        tokio::try_join!(over_unix, over_tcp)?;
        Ok(())
    })
}
