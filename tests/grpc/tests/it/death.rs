//! What each side learns when the other is killed, in each state of a call; and readers that stop.

use std::process::{Child, Command, Stdio};
use tokio_stream::StreamExt;
use tonic::Code;
use underpass_grpc::{Channel, OUTCOME};
use underpass_test_grpc::generated::control_client::ControlClient;
use underpass_test_grpc::generated::interop_client::InteropClient;
use underpass_test_grpc::generated::{Empty, OutputRequest, UnaryRequest};
use underpass_test_grpc::{Served, Way, counts};
use underpass_tests::Watchdog;

const BINARY: &str = env!("CARGO_BIN_EXE_underpass-test-grpc");

fn served(of: &str) -> Served {
    Served::start(BINARY, of)
}

async fn control(served: &Served) -> ControlClient<Channel> {
    ControlClient::new(served.channel(Way::Underpass).await)
}

/// Checks that a status tells of a dead server, and that nobody knows what became of the call.
fn is_dead(status: &tonic::Status) {
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(status.metadata().get(OUTCOME).unwrap(), "unknown", "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unary_call_hears_of_its_servers_death() {
    let _watchdog = Watchdog::new("a_unary_call_hears_of_its_servers_death");
    let mut served = served("dead-unary");
    let control = control(&served).await;
    let mut calling = control.clone();
    let call = tokio::spawn(async move { calling.hold(Empty {}).await });
    counts(&control, |counts| counts.waiting == 1).await;
    served.process.kill();
    is_dead(&call.await.unwrap().unwrap_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_hears_of_its_servers_death() {
    let _watchdog = Watchdog::new("a_reader_hears_of_its_servers_death");
    let mut served = served("dead-output");
    let mut control = control(&served).await;
    let mut responses = control.hold_output(Empty {}).await.unwrap().into_inner();
    assert_eq!(responses.message().await.unwrap(), Some(Empty {}));
    served.process.kill();
    is_dead(&responses.message().await.unwrap_err());
    assert_eq!(responses.message().await.ok().flatten(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_server_had_sent_comes_first() {
    let _watchdog = Watchdog::new("what_a_dead_server_had_sent_comes_first");
    let mut served = served("dead-flood");
    let mut control = control(&served).await;
    let request = UnaryRequest { response_size: 1000, ..UnaryRequest::default() };
    let mut responses = control.flood(request).await.unwrap().into_inner();
    for _ in 0..10 {
        assert!(responses.message().await.unwrap().is_some());
    }
    served.process.kill();
    let end = loop {
        match responses.message().await {
            Ok(Some(response)) => assert!(response.payload.iter().all(|&byte| byte == 7)),
            end => break end,
        }
    };
    is_dead(&end.unwrap_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_hears_of_its_servers_death() {
    let _watchdog = Watchdog::new("a_client_that_sends_hears_of_its_servers_death");
    let mut served = served("dead-input");
    let control = control(&served).await;
    let mut calling = control.clone();
    let requests = tokio_stream::iter([UnaryRequest::default()]).chain(tokio_stream::pending());
    let call = tokio::spawn(async move { calling.hold_input(requests).await });
    counts(&control, |counts| counts.waiting == 1).await;
    served.process.kill();
    is_dead(&call.await.unwrap().unwrap_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_directions_hear_of_the_servers_death() {
    let _watchdog = Watchdog::new("both_directions_hear_of_the_servers_death");
    let mut served = served("dead-duplex");
    let mut client = InteropClient::new(served.channel(Way::Underpass).await);
    let (requests, sent) = tokio::sync::mpsc::channel(1);
    let sent = tokio_stream::wrappers::ReceiverStream::new(sent);
    let mut responses = client.full_duplex_call(sent).await.unwrap().into_inner();
    requests.send(OutputRequest { sizes: vec![9], status: None }).await.unwrap();
    assert_eq!(responses.message().await.unwrap().unwrap().payload.len(), 9);
    served.process.kill();
    is_dead(&responses.message().await.unwrap_err());
    // The writer of the requests has ended, and with it the other end of this channel.
    requests.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_killed_at_any_moment() {
    let _watchdog = Watchdog::new("servers_are_killed_at_any_moment");
    let mut served = served("any-moment");
    for round in 0..10 {
        let mut control = control(&served).await;
        let request = UnaryRequest { response_size: 100, ..UnaryRequest::default() };
        let mut responses = control.flood(request).await.unwrap().into_inner();
        for _ in 0..round * 100 {
            assert!(responses.message().await.unwrap().is_some());
        }
        served.process.kill();
        while let Ok(Some(_)) = responses.message().await {}
        control.count(Empty {}).await.unwrap_err();
        served.start_again();
    }
}

/// A client process, which is killed.
struct Client(Child);

impl Client {
    fn start(served: &Served, method: &str) -> Self {
        let mut command = Command::new(BINARY);
        let command = command.args(["call", served.process.name(), method]).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_clients_handlers_and_streams_are_dropped() {
    let _watchdog = Watchdog::new("a_dead_clients_handlers_and_streams_are_dropped");
    let served = served("dead-client");
    let control = control(&served).await;
    for (n, method) in (1..).zip(["hold", "output", "input", "flood"]) {
        let mut client = Client::start(&served, method);
        counts(&control, |counts| counts.waiting == 1).await;
        client.kill();
        counts(&control, |counts| counts.waiting == 0 && counts.dropped == n).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_holds_up_nobody_else() {
    let _watchdog = Watchdog::new("a_reader_that_stops_holds_up_nobody_else");
    let served = served("stalled");
    let mut control = control(&served).await;
    let request = UnaryRequest { response_size: 1000, ..UnaryRequest::default() };
    // More stalled readers than there are slots, all over one channel.
    let mut stalled = Vec::new();
    for _ in 0..100 {
        let mut responses = control.flood(request.clone()).await.unwrap().into_inner();
        assert!(responses.message().await.unwrap().is_some());
        stalled.push(responses);
    }
    let mut client = InteropClient::new(served.channel(Way::Underpass).await);
    let sizes = vec![100; 5000];
    let mut responses =
        client.streaming_output_call(OutputRequest { sizes, status: None }).await.unwrap().into_inner();
    let mut came = 0;
    while responses.message().await.unwrap().is_some() {
        came += 1;
    }
    assert_eq!(came, 5000);
    // They go on where they stopped.
    for responses in &mut stalled {
        for _ in 0..1000 {
            assert!(responses.message().await.unwrap().is_some());
        }
    }
    drop(stalled);
    counts(&control, |counts| counts.waiting == 0 && counts.dropped == 100).await;
}
