//! A server process: over a name of Underpass, a TCP port and a Unix socket at once.

use crate::control::ControlService;
use crate::echo_layer::EchoLayer;
use crate::generated::DESCRIPTORS;
use crate::generated::control_server::ControlServer;
use crate::generated::interop_server::InteropServer;
use crate::interop::InteropService;
use std::error::Error;
use std::path::PathBuf;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use underpass_tests::Room;

/// The Unix socket of the server `name`, and the file that names its TCP address.
pub fn address_of(name: &str) -> (PathBuf, PathBuf) {
    let directory = Room::directory();
    (directory.join(format!("{name}.unix")), directory.join(format!("{name}.tcp")))
}

/// All services, with health and reflection.
///
/// # Panics
/// If the descriptors are none.
pub async fn routes() -> Routes {
    let (health, healthy) = tonic_health::server::health_reporter();
    let _ = &health;
    health.set_serving::<InteropServer<InteropService>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the descriptors are checked in");
    let interop = InteropServer::new(InteropService)
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip);
    let control = ControlServer::new(ControlService::default());
    Routes::new(interop).add_service(control).add_service(healthy).add_service(reflection)
}

/// Serves all services as `name`, until the process is killed.
///
/// # Errors
/// The name, the port or the socket can't be had.
pub async fn serve_process(name: &str) -> Result<(), Box<dyn Error>> {
    let (unix, tcp) = address_of(name);
    let _ = std::fs::remove_file(&unix);
    let routes = routes().await;
    let over_unix = Server::builder()
        .layer(EchoLayer)
        .add_routes(routes.clone())
        .serve_with_incoming(UnixListenerStream::new(tokio::net::UnixListener::bind(&unix)?));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let written = tcp.with_extension("tcp-new");
    std::fs::write(&written, listener.local_addr()?.to_string())?;
    std::fs::rename(&written, &tcp)?;
    // Last, since the tests wait for this name.
    let over_tcp = Server::builder()
        .layer(underpass_grpc::alongside(name)?)
        .layer(EchoLayer)
        .add_routes(routes)
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
    tokio::try_join!(over_unix, over_tcp)?;
    Ok(())
}
