//! Small messages that nobody reads: what the guide says of them, over HTTP/2 and over shared
//! memory.

use http::{Request, Response};
use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::oneshot;
use tokio_stream::Stream;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use underpass_grpc::Channel;
use underpass_harness::alone;
use underpass_test_grpc::generated::{Empty, UnaryRequest};
use underpass_tests::{Room, Watchdog};

/// More than a server of tonic's keeps by default, and less than an eighth of what it keeps in a
/// connection's window of 16 MiB.
const MESSAGES: u32 = 4000;

/// A service that reads no request. `Stay` does not answer, and all others answer at once.
#[derive(Clone)]
struct Unreading;

impl NamedService for Unreading {
    const NAME: &'static str = "test.Unreading";
}

impl tower_service::Service<Request<Body>> for Unreading {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async move {
            if request.uri().path().ends_with("/Stay") {
                pending::<()>().await;
            }
            drop(request);
            Ok(Status::aborted("as ever").into_http())
        })
    }
}

/// Small messages, each in a frame of its own, and then none. Says when the last one was taken.
struct Messages {
    left: u32,
    waits: bool,
    all: Option<oneshot::Sender<()>>,
}

impl Stream for Messages {
    type Item = UnaryRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<UnaryRequest>> {
        self.waits = !self.waits;
        if self.waits {
            // What is ready together goes together.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.left == 0 {
            if let Some(all) = self.all.take() {
                let _ = all.send(());
            }
            return Poll::Pending;
        }
        self.left -= 1;
        Poll::Ready(Some(UnaryRequest { response_size: 1, ..UnaryRequest::default() }))
    }
}

async fn call(channel: Channel, method: &str, messages: Messages) -> Code {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = format!("/test.Unreading/{method}").parse().unwrap();
    let codec = ProstCodec::<UnaryRequest, Empty>::default();
    let called = grpc.client_streaming(tonic::Request::new(messages), path, codec).await;
    called.expect_err("nobody answers otherwise").code()
}

/// Sends messages that nobody reads. Returns the end of their call, if it ends before all are sent.
async fn stay(channel: &Channel, left: u32) -> Result<tokio::task::JoinHandle<Code>, Code> {
    let (all, sent) = oneshot::channel();
    let messages = Messages { left, waits: false, all: Some(all) };
    let mut staying = tokio::spawn({
        let channel = channel.clone();
        async move { call(channel, "Stay", messages).await }
    });
    tokio::select! {
        _ = sent => Ok(staying),
        ended = &mut staying => Err(ended.unwrap()),
    }
}

async fn pings(channel: &Channel) {
    for _ in 0..20 {
        let none = Messages { left: 0, waits: false, all: None };
        assert_eq!(call(channel.clone(), "Ping", none).await, Code::Aborted);
    }
}

/// Starts a server over TCP whose connections have this window, and connects to it.
async fn over_tcp(window: Option<u32>) -> Channel {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::builder().initial_connection_window_size(window).add_service(Unreading);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    Channel::from_shared(address).unwrap().connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_larger_window_keeps_a_connection_alive() {
    alone!();
    let _watchdog = Watchdog::new("a_larger_window_keeps_a_connection_alive");
    let usual = over_tcp(None).await;
    let ended = match stay(&usual, MESSAGES).await {
        Ok(staying) => staying.await.unwrap(),
        Err(ended) => ended,
    };
    assert_ne!(ended, Code::Aborted, "the connection has ended, and not the handler");
    let larger = over_tcp(Some(16 << 20)).await;
    let staying = stay(&larger, MESSAGES).await.expect("the connection lasts");
    pings(&larger).await;
    assert!(!staying.is_finished());
    staying.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_shared_memory_they_stop_their_own_writer_alone() {
    alone!();
    let _watchdog = Watchdog::new("over_shared_memory_they_stop_their_own_writer_alone");
    Room::directory();
    let name = Room::name("small-messages");
    let service = underpass_grpc::service(Routes::new(Unreading));
    let _running = underpass::Server::new().export(&name, service).start().unwrap();
    let channel = Channel::from_shared(format!("underpass:{name}")).unwrap().connect().await.unwrap();
    let staying: Vec<_> = (0..4)
        .map(|_| {
            let channel = channel.clone();
            tokio::spawn(async move { stay(&channel, u32::MAX).await.map(drop) })
        })
        .collect();
    pings(&channel).await;
    assert!(staying.iter().all(|staying| !staying.is_finished()), "each waits for its reader");
    staying.into_iter().for_each(|staying| staying.abort());
    pings(&channel).await;
}
