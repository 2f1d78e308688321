//! Clients that give up, and calls whose time is over, in each state of a call.

use std::time::Duration;
use tokio_stream::StreamExt;
use tonic::{Code, Request};
use underpass_grpc::Channel;
use underpass_test_grpc::generated::control_client::ControlClient;
use underpass_test_grpc::generated::{Empty, UnaryRequest};
use underpass_test_grpc::{Served, WAYS, counts};
use underpass_tests::Watchdog;

fn served(of: &str) -> Served {
    Served::start(env!("CARGO_BIN_EXE_underpass-test-grpc"), of)
}

async fn control(served: &Served, way: underpass_test_grpc::Way) -> ControlClient<Channel> {
    ControlClient::new(served.channel(way).await)
}

/// Requests that come one by one, and never end.
fn endless() -> impl tokio_stream::Stream<Item = UnaryRequest> + Send + 'static {
    tokio_stream::iter([UnaryRequest::default()]).chain(tokio_stream::pending())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_drops_its_handler() {
    let _watchdog = Watchdog::new("a_dropped_call_drops_its_handler");
    let served = served("dropped-call");
    for (n, way) in (1..).zip(WAYS) {
        let control = control(&served, way).await;
        let mut calling = control.clone();
        let call = tokio::spawn(async move { calling.hold(Empty {}).await });
        counts(&control, |counts| counts.waiting == 1).await;
        call.abort();
        counts(&control, |counts| counts.waiting == 0 && counts.dropped == n).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_response_drops_the_servers_stream() {
    let _watchdog = Watchdog::new("a_dropped_response_drops_the_servers_stream");
    let served = served("dropped-response");
    for (n, way) in (1..).zip(WAYS) {
        let mut control = control(&served, way).await;
        let mut responses = control.hold_output(Empty {}).await.unwrap().into_inner();
        assert_eq!(responses.message().await.unwrap(), Some(Empty {}));
        counts(&control, |counts| counts.waiting == 1).await;
        drop(responses);
        counts(&control, |counts| counts.waiting == 0 && counts.dropped == n).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_response_stops_a_writer_without_credit() {
    let _watchdog = Watchdog::new("a_dropped_response_stops_a_writer_without_credit");
    let served = served("dropped-flood");
    for (n, way) in (1..).zip(WAYS) {
        let mut control = control(&served, way).await;
        let request = UnaryRequest { response_size: 10_000, ..UnaryRequest::default() };
        let mut responses = control.flood(request).await.unwrap().into_inner();
        assert!(responses.message().await.unwrap().is_some());
        drop(responses);
        counts(&control, |counts| counts.waiting == 0 && counts.dropped == n).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_gives_up_while_it_sends_is_heard() {
    let _watchdog = Watchdog::new("a_client_that_gives_up_while_it_sends_is_heard");
    let served = served("dropped-input");
    for (n, way) in (1..).zip(WAYS) {
        let control = control(&served, way).await;
        let mut calling = control.clone();
        let call = tokio::spawn(async move { calling.hold_input(endless()).await });
        counts(&control, |counts| counts.waiting == 1).await;
        call.abort();
        counts(&control, |counts| counts.waiting == 0 && counts.dropped == n).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_end_are_told_from_those_that_are_dropped() {
    let _watchdog = Watchdog::new("requests_that_end_are_told_from_those_that_are_dropped");
    let served = served("ended-input");
    for way in WAYS {
        let control = control(&served, way).await;
        let (sender, sent) = tokio::sync::mpsc::channel(1);
        let requests = tokio_stream::wrappers::ReceiverStream::new(sent);
        let mut calling = control.clone();
        let call = tokio::spawn(async move { calling.hold_input(requests).await });
        sender.send(UnaryRequest::default()).await.unwrap();
        let before = counts(&control, |counts| counts.waiting == 1).await.ends.len();
        drop(sender);
        let ended = counts(&control, |counts| counts.ends.len() > before).await;
        assert_eq!(ended.ends[0], Code::Ok as i32, "{way:?}");
        call.abort();
        counts(&control, |counts| counts.waiting == 0).await;
    }
}

/// A request that may wait for `time`.
fn hasty<T>(message: T, time: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(time);
    request
}

const SHORT: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_ends_the_call_and_its_handler() {
    let _watchdog = Watchdog::new("a_timeout_ends_the_call_and_its_handler");
    let served = served("timeouts");
    let mut codes = Vec::new();
    for (n, way) in (1..).zip(WAYS) {
        let mut control = control(&served, way).await;
        let status = control.hold(hasty(Empty {}, SHORT)).await.unwrap_err();
        let input = control.hold_input(hasty(endless(), SHORT)).await.unwrap_err();
        codes.push((status.code(), input.code()));
        counts(&control, |counts| counts.waiting == 0 && counts.dropped <= 2 * n).await;
    }
    // Whatever tonic calls it, it is the same here.
    assert!(codes.iter().all(|&code| code == codes[1]), "{codes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_bounds_the_beginning_of_the_response_alone() {
    let _watchdog = Watchdog::new("a_timeout_bounds_the_beginning_of_the_response_alone");
    let served = served("timeout-of-streams");
    for way in WAYS {
        let mut control = control(&served, way).await;
        let request = UnaryRequest { response_size: 1000, ..UnaryRequest::default() };
        let mut time = SHORT;
        let mut responses = loop {
            match control.flood(hasty(request.clone(), time)).await {
                Ok(responses) => break responses.into_inner(),
                // The machine is busy: the response did not even begin in time.
                Err(_) => time *= 2,
            }
        };
        // The time passes while the stream is open.
        tokio::time::sleep(2 * time).await;
        for _ in 0..1000 {
            assert!(responses.message().await.unwrap().is_some(), "{way:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoints_timeout_counts_if_it_is_shorter() {
    let _watchdog = Watchdog::new("an_endpoints_timeout_counts_if_it_is_shorter");
    let served = served("endpoint-timeouts");
    for way in WAYS {
        let endpoint = served.endpoint(way).timeout(Duration::from_millis(10));
        let mut control = ControlClient::new(endpoint.connect().await.unwrap());
        let mut request = Request::new(Empty {});
        request.set_timeout(Duration::from_secs(1000));
        control.hold(request).await.unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_calls_that_are_given_up_harm_no_other() {
    let _watchdog = Watchdog::new("hundreds_of_calls_that_are_given_up_harm_no_other");
    let served = served("many-given-up");
    let control = control(&served, underpass_test_grpc::Way::Underpass).await;
    let calls: Vec<_> = (0..300)
        .map(|_| {
            let mut calling = control.clone();
            tokio::spawn(async move { calling.hold(Empty {}).await })
        })
        .collect();
    counts(&control, |counts| counts.waiting == 300).await;
    calls.iter().for_each(|call| call.abort());
    counts(&control, |counts| counts.waiting == 0 && counts.dropped == 300).await;
}
