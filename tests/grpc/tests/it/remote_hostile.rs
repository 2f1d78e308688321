//! Peers of other machines that lie.

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, HeaderValue};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::NamedService;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Status};
use underpass::remote::RemotePeers;
use underpass::{CallError, Encode, ImportError, Outcome};
use underpass_grpc::remote::{Remote, RemoteListener, RemoteServer, RemoteService};
use underpass_test_grpc::{Depot, DepotAsync, DepotClient, DepotService};
use underpass_test_grpc::{Rows, RowsClient, RowsService};
use underpass_tests::{Numbers, Watchdog};

/// More than any test takes.
const SOON: Duration = Duration::from_secs(120);

/// Messages of bytes.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;
    fn encoder(&mut self) -> Self {
        Self
    }
    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

fn exports() -> RemoteServer {
    let anyone = Depot::serve(DepotService::default()).remote_peers(RemotePeers::anyone());
    RemoteServer::new().export("depot", anyone)
}

fn listen() -> (RemoteListener, String) {
    let listener = exports().listen("127.0.0.1:0", None).unwrap();
    let address = format!("http://{}/depot", listener.address());
    (listener, address)
}

fn random(numbers: &mut Numbers, most: usize) -> Vec<u8> {
    (0..numbers.below(most)).map(|_| numbers.draw() as u8).collect()
}

/// A call of `path` with these metadata.
async fn call(
    channel: &Channel,
    path: String,
    metadata: &[(&'static str, String)],
    bytes: Vec<u8>,
) -> Result<Bytes, Status> {
    let mut request = Request::new(Bytes::from(bytes));
    for (key, value) in metadata {
        request.metadata_mut().insert(*key, value.parse().unwrap());
    }
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    Ok(grpc.unary(request, path.parse().unwrap(), Raw).await?.into_inner())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_requests_harm_nobody() {
    let _watchdog = Watchdog::new("hostile_requests_harm_nobody");
    let (listener, address) = listen();
    let depot = DepotClient::import_by(&Remote::new(), &address, SOON).unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", listener.address())).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let versions = || ("underpass-versions", format!("{:x}", DepotClient::descriptor().hash));

    for path in [
        "/underpass.Remote/depot",
        "/underpass.Remote/depot.none",
        "/underpass.Remote/.add",
        "/x/y",
        "/underpass.Remote/%FF.add",
    ] {
        let status = call(&channel, path.to_owned(), &[versions()], vec![]).await.unwrap_err();
        assert!(matches!(status.code(), Code::Unimplemented | Code::NotFound), "{path}: {status}");
    }
    // Without the versions of the interface, or with others.
    let add = "/underpass.Remote/depot.add";
    for metadata in
        [vec![], vec![("underpass-versions", "1".to_owned())], vec![("underpass-versions", "x".to_owned())]]
    {
        assert!(call(&channel, add.to_owned(), &metadata, vec![1, 0, 0, 0, 2, 0, 0, 0]).await.is_err());
    }
    let sum = call(&channel, add.to_owned(), &[versions()], vec![1, 0, 0, 0, 2, 0, 0, 0]).await.unwrap();
    assert_eq!(sum[..], [0, 3, 0, 0, 0]);

    let (mut numbers, mut refused) = (Numbers::of(7), 0);
    let methods = ["add", "who", "echo", "reverse", "sum", "held", "fail", "remember"];
    for n in 0..400 {
        let path = format!("/underpass.Remote/depot.{}", numbers.among(&methods));
        let mut metadata = vec![versions()];
        if n % 3 == 0 {
            let lengths = (0..1 + numbers.below(3)).map(|_| numbers.below(40).to_string());
            metadata.push(("underpass-sealed", lengths.collect::<Vec<_>>().join(",")));
        }
        let bytes = random(&mut numbers, 60);
        refused += u32::from(call(&channel, path, &metadata, bytes).await.is_err());
    }
    assert!(refused > 100, "{refused}");
    assert_eq!(depot.add_async(1, 2).await, Ok(3), "an honest client is served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_are_bounded() {
    let _watchdog = Watchdog::new("calls_at_once_are_bounded");
    const MOST: u32 = 1024;
    let (service, runtime) = (DepotService::default(), tokio::runtime::Handle::current());
    let depot = DepotAsync::serve(service.clone(), move |handler| drop(runtime.spawn(handler)));
    let server = RemoteServer::new().export("depot", depot.remote_peers(RemotePeers::anyone()));
    let listener = server.listen("127.0.0.1:0", None).unwrap();
    let address = format!("http://{}/depot", listener.address());
    let import = || DepotClient::import_by(&Remote::new(), &address, SOON).unwrap();
    let (greedy, other) = (import(), import());
    let calls: Vec<_> = (0..MOST)
        .map(|_| {
            let greedy = greedy.clone();
            tokio::spawn(async move { greedy.hold_async().await })
        })
        .collect();
    while Depot::held(&service).unwrap().0 < MOST {
        tokio::task::yield_now().await;
    }
    assert_eq!(other.add_async(1, 1).await, Err(CallError::Overloaded));
    calls.into_iter().for_each(|call| call.abort());
    let sum = loop {
        match other.add_async(1, 1).await {
            Err(CallError::Overloaded) => tokio::task::yield_now().await,
            other => break other,
        }
    };
    assert_eq!(sum, Ok(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_whose_arguments_never_come_count() {
    let _watchdog = Watchdog::new("calls_whose_arguments_never_come_count");
    let (listener, address) = listen();
    let other = DepotClient::import_by(&Remote::new(), &address, SOON).unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", listener.address())).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let calls: Vec<_> = (0..1024)
        .map(|_| {
            let mut grpc = Grpc::new(channel.clone());
            tokio::spawn(async move {
                // The other client may have taken the last place, so that this call is refused.
                loop {
                    grpc.ready().await.unwrap();
                    let path = "/underpass.Remote/depot.add".parse().unwrap();
                    let silent = Request::new(tokio_stream::pending::<Bytes>());
                    assert!(grpc.client_streaming(silent, path, Raw).await.is_err());
                }
            })
        })
        .collect();
    while other.add_async(1, 1).await != Err(CallError::Overloaded) {
        tokio::task::yield_now().await;
    }
    calls.into_iter().for_each(|call| call.abort());
    while other.add_async(1, 1).await != Ok(2) {
        tokio::task::yield_now().await;
    }
}

/// How a server lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// Its answers to imports are random.
    Imports,
    /// Its results are random.
    Results,
    /// Its results have fewer bytes than they say.
    Sealed,
    /// Its statuses can't be read.
    Status,
    /// It fails by words of its own.
    Failures,
}

/// A server that answers imports honestly, unless its lie is about them.
#[derive(Clone)]
struct Liar {
    lie: Lie,
    honest: RemoteService,
    numbers: u64,
}

impl NamedService for Liar {
    const NAME: &'static str = <RemoteService as NamedService>::NAME;
}

impl Liar {
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut put =
            |key: &'static str, value: &'static str| headers.insert(key, HeaderValue::from_static(value));
        put("content-type", "application/grpc");
        match self.lie {
            Lie::Sealed => drop(put("underpass-sealed", "4294967295,1")),
            Lie::Status => {
                put("grpc-status", "13");
                put("grpc-status-details-bin", "not base64 !");
            }
            Lie::Failures => {
                put("grpc-status", "14");
                put("underpass-failure", "panicked");
                put("underpass-why-bin", "!!!");
                put("underpass-outcome", "perhaps");
            }
            Lie::Imports | Lie::Results => {}
        }
        headers
    }

    fn response(&self) -> http::Response<Body> {
        let body = random(&mut Numbers::of(self.numbers), 50);
        let mut frame = vec![0];
        frame.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
        frame.extend_from_slice(&body);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let mut response = http::Response::new(match self.lie {
            Lie::Status | Lie::Failures => Body::empty(),
            _ => Body::new(Framed(Some(frame.into()), Some(trailers))),
        });
        *response.headers_mut() = self.headers();
        response
    }
}

/// One frame, and trailers.
struct Framed(Option<Bytes>, Option<HeaderMap>);

impl http_body::Body for Framed {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        let data = body.0.take().map(http_body::Frame::data);
        Poll::Ready(data.or_else(|| body.1.take().map(http_body::Frame::trailers)).map(Ok))
    }
}

impl tower_service::Service<http::Request<Body>> for Liar {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path().ends_with(":import") && self.lie != Lie::Imports {
            return self.honest.call(request);
        }
        let response = self.response();
        Box::pin(async move { Ok(response) })
    }
}

async fn lying(lie: Lie, numbers: u64) -> String {
    let honest = exports().service().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/depot", listener.local_addr().unwrap());
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let liar = Liar { lie, honest, numbers };
    tokio::spawn(Server::builder().add_service(liar).serve_with_incoming(incoming));
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_answers_harm_nobody() {
    let _watchdog = Watchdog::new("hostile_answers_harm_nobody");
    for seed in 0..40 {
        let address = lying(Lie::Imports, seed).await;
        let why = DepotClient::import_by(&Remote::new(), &address, Duration::ZERO).unwrap_err();
        assert!(matches!(why, ImportError::Remote(..) | ImportError::Mismatch { .. }), "{why}");
        let address = lying(Lie::Results, seed).await;
        let depot = DepotClient::import_by(&Remote::new(), &address, SOON).unwrap();
        // Whatever comes of it, it comes to an end.
        let _ = depot.who_async().await;
        assert!(depot.reverse_async(underpass::Sealed::new(b"x").unwrap(), 1).await.is_err());
    }
    let address = lying(Lie::Sealed, 1).await;
    let depot = DepotClient::import_by(&Remote::new(), &address, SOON).unwrap();
    let lied = depot.who_async().await;
    assert!(matches!(lied, Err(CallError::Decode(Outcome::Executed, _))), "{lied:?}");
    // tonic 0.14.9 panics at such a status. The call ends nevertheless.
    let address = lying(Lie::Status, 1).await;
    let depot = DepotClient::import_by(&Remote::new(), &address, SOON).unwrap();
    assert!(depot.add_async(1, 1).await.is_err());
    let address = lying(Lie::Failures, 1).await;
    let depot = DepotClient::import_by(&Remote::new(), &address, SOON).unwrap();
    assert_eq!(depot.add_async(1, 1).await.map_err(|error| error.outcome()), Err(Outcome::Unknown));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_no_larger_than_both_sides_say() {
    let _watchdog = Watchdog::new("messages_are_no_larger_than_both_sides_say");
    let import = |listener: &RemoteListener, remote: &Remote| {
        let address = format!("http://{}/depot", listener.address());
        DepotClient::import_by(remote, &address, SOON).unwrap()
    };
    let (usual, larger) = (Remote::new(), Remote::new().largest(8 << 20));
    let bytes = vec![7; 5 << 20];
    let listener = exports().listen("127.0.0.1:0", None).unwrap();
    let refused = import(&listener, &usual).echo_async(&bytes).await;
    assert!(matches!(refused, Err(CallError::NoResources(Outcome::NotStarted, _))), "{refused:?}");
    let refused = import(&listener, &larger).echo_async(&bytes).await;
    assert!(matches!(refused, Err(CallError::NoResources(..))), "{:?}", refused.map(drop));
    let listener = exports().largest(8 << 20).listen("127.0.0.1:0", None).unwrap();
    assert!(import(&listener, &larger).echo_async(&bytes).await.unwrap() == bytes);

    // The question for the interface has no arguments at all.
    let endpoint = Endpoint::from_shared(format!("http://{}", listener.address())).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let ask = |bytes| call(&channel, "/underpass.Remote/depot.:import".to_owned(), &[], bytes);
    assert!(ask(vec![]).await.is_ok());
    assert_eq!(ask(vec![0]).await.unwrap_err().code(), Code::OutOfRange);
}

/// The messages of a call that passes streams, and what came back.
async fn stream(channel: &Channel, method: &str, messages: Vec<Vec<u8>>) -> Result<usize, Status> {
    let versions = format!("{:x}", RowsClient::descriptor().hash);
    let mut request = Request::new(tokio_stream::iter(messages.into_iter().map(Bytes::from)));
    request.metadata_mut().insert("underpass-versions", versions.parse().unwrap());
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let path = format!("/underpass.Remote/rows.{method}").parse().unwrap();
    let mut answers = grpc.streaming(request, path, Raw).await?.into_inner();
    let mut count = 0;
    while answers.message().await?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_streams_harm_nobody() {
    let _watchdog = Watchdog::new("hostile_streams_harm_nobody");
    let anyone = Rows::serve(RowsService::default()).remote_peers(RemotePeers::anyone());
    let listener = RemoteServer::new().export("rows", anyone).listen("127.0.0.1:0", None).unwrap();
    let address = format!("http://{}/rows", listener.address());
    let rows = RowsClient::import_by(&Remote::new(), &address, SOON).unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", listener.address())).unwrap();
    let channel = endpoint.connect().await.unwrap();

    // What an honest client sends first: 1,024 items of 4,097 bytes, 256 KiB, no barriers.
    let sizes = [1024u64, 4097, 256 << 10].map(u64::to_le_bytes).concat();
    let value = |description: &[u8], place: Option<(u64, u64)>| {
        let sealed: Vec<Vec<u8>> = Vec::new();
        let mut bytes = vec![6];
        (description.to_vec(), sealed, place).encode(&mut bytes);
        bytes
    };
    let honest = value(&[&sizes[..], &[0]].concat(), Some((25, 0)));
    let item = |n: u32| [&[0, 4, 0, 0, 0], &n.to_le_bytes()[..]].concat();
    let answered = stream(&channel, "double", vec![honest.clone(), item(1), item(2), vec![2, 1]]).await;
    // The value, one or two messages of items, the end, and what was taken.
    assert!(answered.unwrap() >= 3);

    for bad in [
        vec![],
        vec![vec![]],
        vec![item(1)],
        vec![vec![2, 1]],
        vec![value(&[], None)],
        vec![value(&[0; 25], Some((25, 0)))],
        vec![value(&[255; 25], Some((25, 0)))],
        vec![value(&[&sizes[..], &[0]].concat(), Some((24, 0)))],
        vec![value(&[&sizes[..], &[0]].concat(), Some((u64::MAX, 0)))],
        vec![value(&[&sizes[..], &[0]].concat(), Some((25, u64::MAX)))],
        vec![honest.clone(), honest.clone()],
    ] {
        let ended = stream(&channel, "double", bad.clone()).await;
        // Once the value has come, the call may have begun.
        assert!(ended.is_err() || bad.len() == 2, "{bad:?}");
    }
    // The handler reads nothing, so this is more than there is credit for. Or there is nothing that
    // could have been taken, or something follows the end.
    let long = [&[0, 160, 15, 0, 0][..], &[7; 4000]].concat();
    let too_many = [vec![honest.clone()], vec![long; 64]].concat();
    for bad in [
        too_many,
        vec![honest.clone(), vec![5, 200, 0, 0, 0]],
        vec![honest.clone(), vec![2, 1], item(1)],
        vec![honest.clone(), vec![2, 1], vec![2, 1]],
    ] {
        assert!(stream(&channel, "deaf", bad.clone()).await.is_err(), "{:?}", bad.last());
    }
    let mut numbers = Numbers::of(11);
    for _ in 0..200 {
        let mut messages = vec![honest.clone()];
        for _ in 0..numbers.below(6) {
            let mut message = random(&mut numbers, 12);
            message.insert(0, numbers.below(7) as u8);
            messages.push(message);
        }
        let method = numbers.among(&["double", "sum", "refuse", "count"]);
        drop(stream(&channel, method, messages).await);
    }
    let mut count = rows.count_async(3).await.unwrap();
    for n in 0..3 {
        assert_eq!(
            tokio_stream::StreamExt::next(&mut count).await,
            Some(Ok(n)),
            "an honest client is served"
        );
    }
}
