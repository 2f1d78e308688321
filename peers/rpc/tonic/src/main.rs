//! tonic over a Unix socket. Each side has a runtime of one thread, and 32 callers share one
//! connection.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use underpass_rpc_peer::{
    Client, Load, Outcome, Peer, Totals, Variant, Work, answer_in_place, locked, ready, repeat_together,
};

#[allow(missing_docs, clippy::all)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/peer.Calls.rs"));
}

use generated::calls_client::CallsClient;
use generated::calls_server::{Calls, CallsServer};

const VARIANTS: &[Variant] = &[Variant {
    name: "unix",
    about: "HTTP/2 over a Unix socket; a tokio runtime of one thread on each side, callers are futures",
    callers: 32,
    idles: true,
    server: |directory| runtime()?.block_on(serve(directory)),
    client: connect,
}];

/// The name of the socket in the directory.
const NAME: &str = "tonic";

/// HTTP/2's windows: as large as the largest messages, so that these never wait for an update.
const WINDOW: u32 = 4 << 20;

/// The request and the answer. A Null is an empty one.
#[derive(Clone, PartialEq, prost::Message)]
struct Payload {
    /// The bytes.
    #[prost(bytes = "vec", tag = "1")]
    data: Vec<u8>,
}

struct Answers;

#[tonic::async_trait]
impl Calls for Answers {
    async fn echo(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        Ok(Response::new(Payload { data: answer_in_place(request.into_inner().data) }))
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn serve(directory: &Path) -> Outcome {
    let listener = UnixListener::bind(directory.join(NAME))?;
    ready()?;
    let server = Server::builder()
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .add_service(CallsServer::new(Answers));
    Ok(server.serve_with_incoming(UnixListenerStream::new(listener)).await?)
}

/// A client, and the connections that it keeps beside the one that it calls over.
struct Connected {
    runtime: Runtime,
    endpoint: Endpoint,
    calls: CallsClient<Channel>,
    others: Vec<CallsClient<Channel>>,
}

fn connect(directory: &Path) -> Outcome<Box<dyn Client>> {
    let runtime = runtime()?;
    let address = format!("unix:{}", directory.join(NAME).display());
    let endpoint = Endpoint::from_shared(address)?
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let calls = CallsClient::new(runtime.block_on(endpoint.connect())?);
    Ok(Box::new(Connected { runtime, endpoint, calls, others: Vec::new() }))
}

async fn call(calls: &CallsClient<Channel>, work: &Work) -> Outcome {
    let request = Payload { data: work.request().to_vec() };
    let answer = calls.clone().echo(Request::new(request)).await?.into_inner();
    work.check(&answer.data)
}

impl Client for Connected {
    fn load(&mut self, load: &Arc<Load>) -> Outcome<Totals> {
        let calls = &self.calls;
        let all = repeat_together(load, tokio::time::sleep, async |work: &Work| call(calls, work).await);
        self.runtime.block_on(all)
    }

    fn another(&mut self) -> Outcome {
        let other = CallsClient::new(self.runtime.block_on(self.endpoint.connect())?);
        self.runtime.block_on(call(&other, &Work::new(0)))?;
        self.others.push(other);
        Ok(())
    }
}

fn main() -> ExitCode {
    Peer { peer: "tonic", version: locked("tonic"), variants: VARIANTS }.main()
}
