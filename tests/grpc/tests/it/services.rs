//! What stands above the transport: health, reflection, interceptors, compression, limits; and the
//! identity of the caller.

use tokio_stream::StreamExt;
use tonic::codec::CompressionEncoding;
use tonic::service::Interceptor;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use underpass_grpc::{Channel, HandOff, OUTCOME, ServeOptions};
use underpass_test_grpc::generated::control_client::ControlClient;
use underpass_test_grpc::generated::interop_client::InteropClient;
use underpass_test_grpc::generated::{Empty, OutputRequest, UnaryRequest};
use underpass_test_grpc::{INITIAL, Served, WAYS, Way, counts, routes};
use underpass_tests::{Room, Watchdog};

fn served(of: &str) -> Served {
    Served::start(env!("CARGO_BIN_EXE_underpass-test-grpc"), of)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_served_and_watched() {
    let _watchdog = Watchdog::new("health_is_served_and_watched");
    let served = served("health");
    for way in WAYS {
        let mut health = HealthClient::new(served.channel(way).await);
        let request = HealthCheckRequest { service: "underpass.interop.Interop".to_owned() };
        let answer = health.check(request.clone()).await.unwrap().into_inner();
        assert_eq!(answer.status, 1, "{way:?}");
        let mut watched = health.watch(request).await.unwrap().into_inner();
        assert_eq!(watched.message().await.unwrap().unwrap().status, 1, "{way:?}");
        let unknown = HealthCheckRequest { service: "nothing".to_owned() };
        assert_eq!(health.check(unknown).await.unwrap_err().code(), Code::NotFound, "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_lists_the_services() {
    let _watchdog = Watchdog::new("reflection_lists_the_services");
    let served = served("reflection");
    for way in WAYS {
        let mut reflection = ServerReflectionClient::new(served.channel(way).await);
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let responses = reflection.server_reflection_info(tokio_stream::iter([request])).await.unwrap();
        let response = responses.into_inner().next().await.unwrap().unwrap();
        let Some(MessageResponse::ListServicesResponse(list)) = response.message_response else {
            panic!("{way:?}: {response:?}")
        };
        assert!(list.service.iter().any(|service| service.name == "underpass.interop.Interop"), "{list:?}");
    }
}

/// Adds a header to each request, or refuses it.
#[derive(Clone)]
struct Adds(Option<&'static str>);

impl Interceptor for Adds {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let value = self.0.ok_or_else(|| Status::unauthenticated("no token"))?;
        request.metadata_mut().insert(INITIAL, value.parse().unwrap());
        Ok(request)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interceptors_see_each_request() {
    let _watchdog = Watchdog::new("interceptors_see_each_request");
    let served = served("interceptors");
    for way in WAYS {
        let channel = served.channel(way).await;
        let mut client = InteropClient::with_interceptor(channel.clone(), Adds(Some("added")));
        let answer = client.empty_call(Empty {}).await.unwrap();
        assert_eq!(answer.metadata().get(INITIAL).unwrap(), "added", "{way:?}");
        let mut client = InteropClient::with_interceptor(channel, Adds(None));
        assert_eq!(client.empty_call(Empty {}).await.unwrap_err().code(), Code::Unauthenticated, "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_messages_come_back() {
    let _watchdog = Watchdog::new("compressed_messages_come_back");
    let served = served("compression");
    for way in WAYS {
        let mut client = InteropClient::new(served.channel(way).await)
            .send_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Gzip);
        let request = UnaryRequest { response_size: 314_159, payload: vec![0; 271_828].into(), status: None };
        let answer = client.unary_call(request).await.unwrap();
        assert_eq!(answer.metadata().get("grpc-encoding").unwrap(), "gzip", "{way:?}");
        assert_eq!(answer.into_inner().payload.len(), 314_159);
        let request = OutputRequest { sizes: vec![100_000; 20], status: None };
        let responses = client.streaming_output_call(request).await.unwrap().into_inner();
        let bytes: usize =
            responses.map(|response| response.unwrap().payload.len()).fold(0, |sum, len| sum + len).await;
        assert_eq!(bytes, 2_000_000, "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_beyond_the_limit_are_refused() {
    let _watchdog = Watchdog::new("messages_beyond_the_limit_are_refused");
    let served = served("message-limits");
    for way in WAYS {
        let channel = served.channel(way).await;
        // The server's limit is tonic's: 4 MiB.
        let request = UnaryRequest { payload: vec![0; 5 << 20].into(), ..UnaryRequest::default() };
        let status = InteropClient::new(channel.clone()).unary_call(request).await.unwrap_err();
        assert_eq!(status.code(), Code::OutOfRange, "{way:?}: {status}");
        let mut client = InteropClient::new(channel).max_decoding_message_size(1000);
        let request = UnaryRequest { response_size: 2000, ..UnaryRequest::default() };
        let status = client.unary_call(request).await.unwrap_err();
        assert_eq!(status.code(), Code::OutOfRange, "{way:?}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_knows_the_process_that_calls() {
    let _watchdog = Watchdog::new("a_handler_knows_the_process_that_calls");
    let served = served("peers");
    for way in WAYS {
        let mut control = ControlClient::new(served.channel(way).await);
        let caller = control.who(Empty {}).await.unwrap().into_inner();
        let expected = if way == Way::Underpass { std::process::id() } else { 0 };
        assert_eq!(caller.process, expected, "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_the_error_of_one_call() {
    let _watchdog = Watchdog::new("a_panic_is_the_error_of_one_call");
    let served = served("panics");
    let mut control = ControlClient::new(served.channel(Way::Underpass).await);
    for _ in 0..3 {
        let status = control.panic(Empty {}).await.unwrap_err();
        assert_eq!(
            (status.code(), status.message().contains("on purpose")),
            (Code::Internal, true),
            "{status}"
        );
    }
    control.count(Empty {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_are_too_long_are_refused() {
    let _watchdog = Watchdog::new("headers_that_are_too_long_are_refused");
    let served = served("long-headers");
    let mut client = InteropClient::new(served.channel(Way::Underpass).await);
    let mut request = Request::new(Empty {});
    request.metadata_mut().insert(INITIAL, "v".repeat(70_000).parse().unwrap());
    assert_eq!(client.empty_call(request).await.unwrap_err().code(), Code::ResourceExhausted);
    let mut request = Request::new(Empty {});
    request.metadata_mut().insert(INITIAL, "v".repeat(40_000).parse().unwrap());
    let answer = client.empty_call(request).await.unwrap();
    assert_eq!(answer.metadata().get(INITIAL).unwrap().len(), 40_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_nothing_is_started() {
    let _watchdog = Watchdog::new("without_a_server_nothing_is_started");
    let mut served = served("no-server");
    let lazy = served.endpoint(Way::Underpass).connect_lazy();
    let mut client = InteropClient::new(lazy);
    client.empty_call(Empty {}).await.unwrap();
    served.process.kill();
    let statuses = [client.empty_call(Empty {}).await, client.empty_call(Empty {}).await];
    let statuses = statuses.map(|answer| answer.unwrap_err());
    assert!(statuses.iter().all(|status| status.code() == Code::Unavailable), "{statuses:?}");
    // The first one may have been sent. The second one found no server.
    assert_eq!(statuses[1].metadata().get(OUTCOME).unwrap(), "not-started");
    served.start_again();
    let mut again = InteropClient::new(served.endpoint(Way::Underpass).connect_lazy());
    again.empty_call(Empty {}).await.unwrap();
    // The channel connects again by itself.
    client.empty_call(Empty {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_poll_where_the_call_was_taken_changes_nothing() {
    let _watchdog = Watchdog::new("a_first_poll_where_the_call_was_taken_changes_nothing");
    let name = Room::name("poll-first");
    let options = ServeOptions::new().hand_off(HandOff::PollFirst);
    let service = options.service(routes().await);
    let running =
        underpass::Server::new().directory(Room::directory()).export(&*name, service).start().unwrap();
    let channel = Channel::from_shared(format!("underpass:{name}")).unwrap().connect().await.unwrap();
    let (mut client, mut control) = (InteropClient::new(channel.clone()), ControlClient::new(channel));
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let mut client = client.clone();
            tokio::spawn(async move {
                client.unary_call(UnaryRequest { response_size: n, ..UnaryRequest::default() }).await
            })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap().into_inner().payload.len(), n);
    }
    let request = OutputRequest { sizes: vec![100; 5000], status: None };
    let responses = client.streaming_output_call(request).await.unwrap().into_inner();
    assert_eq!(responses.collect::<Vec<_>>().await.len(), 5000);
    // Handlers that wait go on as tasks, and are dropped as others.
    let mut calling = control.clone();
    let call = tokio::spawn(async move { calling.hold(Empty {}).await });
    counts(&control, |counts| counts.waiting == 1).await;
    call.abort();
    counts(&control, |counts| counts.waiting == 0 && counts.dropped == 1).await;
    assert_eq!(control.who(Empty {}).await.unwrap().into_inner().process, std::process::id());
    drop(running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_block_hold_up_no_other_call() {
    use std::sync::{Arc, Barrier};
    use tonic::service::interceptor::InterceptedService;
    use underpass_test_grpc::InteropService;
    use underpass_test_grpc::generated::interop_server::InteropServer;
    let _watchdog = Watchdog::new("handlers_that_block_hold_up_no_other_call");
    let name = Room::name("blocks");
    // Each of both calls blocks in its first poll until the other one does.
    let both = Arc::new(Barrier::new(2));
    let meets = move |request: tonic::Request<()>| {
        both.wait();
        Ok(request)
    };
    let service = underpass_grpc::service(InterceptedService::new(InteropServer::new(InteropService), meets));
    let running =
        underpass::Server::new().directory(Room::directory()).export(&*name, service).start().unwrap();
    let endpoint = Channel::from_shared(format!("underpass:{name}")).unwrap();
    let (one, two) = (endpoint.connect().await.unwrap(), endpoint.connect().await.unwrap());
    for _ in 0..20 {
        let [mut one, mut two] = [&one, &two].map(|channel| InteropClient::new(channel.clone()));
        let (one, two) = tokio::join!(one.empty_call(Empty {}), two.empty_call(Empty {}));
        assert!(one.is_ok() && two.is_ok());
    }
    drop(running);
}
