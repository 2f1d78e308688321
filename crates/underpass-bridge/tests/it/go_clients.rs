//! Clients of grpc-go, the bridge, and a server that has no TCP. `.ci/run` installs them below
//! `target/go`, where there is a Go toolchain.

use crate::common::Bridged;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Code, Request, Status};
use tower_layer::Layer;
use underpass::{Running, Server};
use underpass_harness::skip;
use underpass_test_grpc::{EchoLayer, testing_routes};
use underpass_tests::{Room, Watchdog};

/// A program that `.ci/run` has installed.
fn program(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/go").join(name);
    path.exists().then_some(path)
}

/// The details of an error, which `google.rpc.Status` has: one message of a type of the server's.
fn details() -> Vec<u8> {
    let of =
        |field: u8, bytes: &[u8]| [&[field << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    // `Counts` with `waiting` = 7.
    let counts = [of(1, b"type.googleapis.com/underpass.interop.Counts"), of(2, &[8, 7])].concat();
    [vec![8, Code::FailedPrecondition as u8], of(2, b"why"), of(3, &counts)].concat()
}

/// Refuses the requests that ask for it, with details.
fn refused(request: Request<()>) -> Result<Request<()>, Status> {
    if !request.metadata().contains_key("refuse") {
        return Ok(request);
    }
    let details = details().into();
    Err(Status::with_details_and_metadata(Code::FailedPrecondition, "why", details, MetadataMap::new()))
}

/// A bridge to a server without TCP.
struct Served {
    bridge: Bridged,
    _running: Running,
}

fn serve(name: &str, routes: Routes) -> Served {
    Room::directory();
    let name = Room::name(name);
    let service = tonic::service::InterceptorLayer::new(refused).layer(EchoLayer.layer(routes));
    let _running = Server::new().export(&*name, underpass_grpc::service(service)).start().unwrap();
    Served { bridge: Bridged::start(&name, "127.0.0.1:0"), _running }
}

async fn run(program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpcurl_finds_its_way() {
    let _watchdog = Watchdog::new("grpcurl_finds_its_way");
    let Some(grpcurl) = program("grpcurl") else { skip!("there is no grpcurl below target/go") };
    let served = serve("bridge-grpcurl", underpass_test_grpc::routes().await);
    let place = served.bridge.place();
    let passes = async |arguments: &[&str]| {
        let output = run(&grpcurl, &[&["-plaintext"], arguments].concat()).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let interop = "underpass.interop.Interop";
    let list = passes(&[place, "list"]).await;
    assert!(list.lines().any(|line| line == interop), "{list}");
    assert!(list.lines().any(|line| line == "grpc.health.v1.Health"), "{list}");
    let described = passes(&[place, "describe", interop]).await;
    assert!(described.contains("rpc UnaryCall ( .underpass.interop.UnaryRequest )"), "{described}");

    let call = async |data: &str, method: &str| passes(&["-d", data, place, method]).await;
    let answer = call(r#"{"response_size": 3}"#, "underpass.interop.Interop/UnaryCall").await;
    assert!(answer.contains(r#""payload": "AAAA""#), "{answer}");
    let answer = call(r#"{"sizes": [1, 2]}"#, "underpass.interop.Interop/StreamingOutputCall").await;
    let payloads = answer.lines().filter(|line| line.contains("payload")).map(str::trim);
    assert!(payloads.eq([r#""payload": "AA==""#, r#""payload": "AAA=""#]), "{answer}");
    let health = call(r#"{"service": "underpass.interop.Interop"}"#, "grpc.health.v1.Health/Check").await;
    assert!(health.contains("SERVING"), "{health}");

    let arguments =
        ["-plaintext", "-rpc-header", "refuse: yes", place, "underpass.interop.Interop/EmptyCall"];
    let output = run(&grpcurl, &arguments).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    for part in ["Code: FailedPrecondition", "Message: why", r#""waiting": "7""#] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// The cases of grpc-go's interop client that need no certificates and no other server.
const CASES: [&str; 13] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_service",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_interop_client_of_go_passes() {
    let _watchdog = Watchdog::new("the_interop_client_of_go_passes");
    let Some(client) = program("client") else { skip!("there is no interop client below target/go") };
    let served = serve("bridge-interop", testing_routes());
    let (host, port) = served.bridge.place().rsplit_once(':').unwrap();
    let [host, port] = [format!("--server_host={host}"), format!("--server_port={port}")];
    for case in CASES.into_iter().chain(["unimplemented_method"]) {
        let output = run(&client, &[&host, &port, &format!("--test_case={case}")]).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{case}: {said}");
    }
}
