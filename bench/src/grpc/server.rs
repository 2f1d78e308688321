//! The server's process, and the ways to it.

use crate::BenchError;
use crate::calls;
use crate::processes::role::ChildRole;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::service::Routes;
use tonic::transport::Server;
use underpass_grpc::{Channel, HandOff, ServeOptions};
use underpass_test_grpc::generated::control_server::ControlServer;
use underpass_test_grpc::generated::interop_client::InteropClient;
use underpass_test_grpc::generated::interop_server::InteropServer;
use underpass_test_grpc::{ControlService, InteropService};

/// The names under which the services are exported: by a task for each call, and by a first poll
/// where the call was taken.
const SPAWNED: &str = "grpc";
const POLLED: &str = "grpc-poll-first";

/// How long a server may take to start.
const APPEAR: Duration = Duration::from_secs(10);

/// How a client reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrpcWay {
    Spawned,
    Polled,
    Unix,
    Tcp,
}

fn socket(scratch: &Path) -> PathBuf {
    scratch.join("grpc.unix")
}

fn address(scratch: &Path) -> PathBuf {
    scratch.join("grpc.tcp")
}

/// A client over this way.
pub(super) async fn connect(way: GrpcWay, scratch: &Path) -> Result<InteropClient<Channel>, BenchError> {
    let address = match way {
        GrpcWay::Spawned => format!("underpass:{SPAWNED}"),
        GrpcWay::Polled => format!("underpass:{POLLED}"),
        GrpcWay::Unix => format!("unix:{}", socket(scratch).display()),
        GrpcWay::Tcp => format!("http://{}", std::fs::read_to_string(address(scratch))?),
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
        let unix = UnixListener::bind(socket(&role.scratch))?;
        let over_unix =
            Server::builder().add_routes(routes.clone()).serve_with_incoming(UnixListenerStream::new(unix));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let written = role.scratch.join("grpc.tcp-new");
        std::fs::write(&written, listener.local_addr()?.to_string())?;
        std::fs::rename(written, address(&role.scratch))?;
        let over_tcp = Server::builder()
            .tcp_nodelay(true)
            .add_routes(routes.clone())
            .serve_with_incoming(TcpListenerStream::new(listener));
        // Last, since the client waits for the names.
        let polled = ServeOptions::new().hand_off(HandOff::PollFirst);
        let _running = calls::exporting(calls::NAME)
            .export(SPAWNED, underpass_grpc::service(routes.clone()))
            .export(POLLED, polled.service(routes))
            .start()?;
        tokio::try_join!(over_unix, over_tcp)?;
        Ok(())
    })
}
