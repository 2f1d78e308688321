//! tonic's client over HTTP/2, the bridge, and a server that has no TCP.

use crate::common::Bridged;
use std::process::Command;
use tonic::service::Routes;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use underpass::inspect::{Inspect, InspectClient};
use underpass::{Health, Running, Server};
use underpass_grpc::GrpcHealth;
use underpass_test_grpc::generated::Empty;
use underpass_test_grpc::generated::control_client::ControlClient;
use underpass_test_grpc::generated::interop_client::InteropClient;
use underpass_test_grpc::generated::{OutputRequest, UnaryRequest};
use underpass_tests::{Room, Watchdog};

async fn serve(name: &str) -> Running {
    let service = underpass_grpc::service(underpass_test_grpc::routes().await);
    Server::new().export(name, service).start().unwrap()
}

/// The places at which a bridge listens in the tests.
fn places(name: &str) -> [String; 2] {
    ["127.0.0.1:0".to_owned(), format!("unix:{}", Room::directory().join(format!("{name}.bridge")).display())]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_each_kind_pass() {
    let _watchdog = Watchdog::new("calls_of_each_kind_pass");
    Room::directory();
    let name = Room::name("bridge-kinds");
    let _running = serve(&name).await;
    for place in places(&name) {
        let bridge = Bridged::start(&name, &place);
        let channel = bridge.channel().await;
        let mut interop = InteropClient::new(channel.clone());
        interop.empty_call(Empty {}).await.unwrap();
        let request = UnaryRequest { response_size: 300_000, ..UnaryRequest::default() };
        let response = interop.unary_call(request).await.unwrap().into_inner();
        assert_eq!(response.payload.len(), 300_000);
        let sizes = vec![5, 70_000, 1];
        let request = OutputRequest { sizes: sizes.clone(), ..OutputRequest::default() };
        let mut responses = interop.streaming_output_call(request).await.unwrap().into_inner();
        for size in sizes {
            assert_eq!(responses.message().await.unwrap().unwrap().payload.len(), size as usize);
        }
        assert!(responses.message().await.unwrap().is_none());
        let status = ControlClient::new(channel).panic(Empty {}).await.unwrap_err();
        assert_ne!(status.code(), Code::Ok);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_and_reflection_pass() {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let _watchdog = Watchdog::new("health_and_reflection_pass");
    Room::directory();
    let name = Room::name("bridge-list");
    let _running = serve(&name).await;
    let bridge = Bridged::start(&name, "127.0.0.1:0");
    // What `grpcurl list` asks.
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = ServerReflectionRequest { message_request, ..ServerReflectionRequest::default() };
    let mut reflection = ServerReflectionClient::new(bridge.channel().await);
    let asked = reflection.server_reflection_info(tokio_stream::once(request)).await;
    let response = asked.unwrap().into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = response.message_response else {
        panic!("{response:?}")
    };
    assert!(list.service.iter().any(|service| service.name.ends_with("Interop")), "{list:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_missing_is_unavailable_until_it_comes() {
    let _watchdog = Watchdog::new("a_server_that_is_missing_is_unavailable_until_it_comes");
    Room::directory();
    let name = Room::name("bridge-late");
    let bridge = Bridged::start(&name, "127.0.0.1:0");
    let mut interop = InteropClient::new(bridge.channel().await);
    let status = interop.empty_call(Request::new(Empty {})).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(status.metadata().get(underpass_grpc::OUTCOME).unwrap(), "not-started");
    let _running = serve(&name).await;
    interop.empty_call(Request::new(Empty {})).await.unwrap();
}

/// What a probe is told of the service that it names.
async fn probe(channel: tonic::transport::Channel, service: &str) -> Result<ServingStatus, Code> {
    // The call of `grpc_health_probe`, and of Kubernetes.
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer = HealthClient::new(channel).check(request).await.map_err(|status| status.code())?;
    Ok(answer.into_inner().status())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_told_what_the_server_says() {
    use ServingStatus::{NotServing, ServiceUnknown, Serving};
    let _watchdog = Watchdog::new("probes_are_told_what_the_server_says");
    Room::directory();
    let (name, health, other) = (Room::name("bridge-health"), Health::new(), Health::new());
    let probed = GrpcHealth::new(&health).named("some.Service", &health).named("some.Other", &other);
    let service = underpass_grpc::service(Routes::new(probed.service()));
    let _running = Server::new().health(&health).export(&name, service).start().unwrap();
    for place in places(&name) {
        let bridge = Bridged::start(&name, &place);
        let channel = bridge.channel().await;
        let watch = |service: &str| {
            let (mut client, service) = (HealthClient::new(channel.clone()), service.to_owned());
            async move { client.watch(HealthCheckRequest { service }).await.unwrap().into_inner() }
        };
        let mut watched = watch("some.Service").await;
        let mut unknown = watch("nothing").await;
        assert_eq!(unknown.message().await.unwrap().unwrap().status(), ServiceUnknown);
        assert_eq!(probe(channel.clone(), "nothing").await, Err(Code::NotFound));
        for expected in [Serving, NotServing, Serving] {
            match expected {
                NotServing => health.not_serving("the disk is full"),
                _ => health.serving(),
            }
            for service in ["", "some.Service"] {
                assert_eq!(probe(channel.clone(), service).await, Ok(expected), "{service:?}");
            }
            assert_eq!(watched.message().await.unwrap().unwrap().status(), expected);
            assert_eq!(probe(channel.clone(), "some.Other").await, Ok(Serving), "it has a health of its own");
            // What `underpass health` asks.
            let asked = name.clone();
            let own = tokio::task::spawn_blocking(move || InspectClient::import(&asked).unwrap().health());
            assert_eq!(own.await.unwrap().unwrap().serving, expected == Serving);
        }
    }
}

#[test]
fn an_address_that_others_reach_has_to_be_meant() {
    let _watchdog = Watchdog::new("an_address_that_others_reach_has_to_be_meant");
    let mut command = Command::new(env!("CARGO_BIN_EXE_underpass-bridge"));
    let output = command.args(["--listen", "0.0.0.0:0", "nobody"]).output().unwrap();
    assert!(!output.status.success());
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("--public"), "{why}");
}
