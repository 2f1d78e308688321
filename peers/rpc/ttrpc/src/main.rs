//! ttrpc over a Unix socket. Each side has a runtime of one thread, and 32 callers share one
//! connection.
#![deny(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use ttrpc::asynchronous::{Client as Socket, Server, TtrpcContext};
use underpass_rpc_peer::{
    Client, Load, Outcome, Peer, Totals, Variant, Work, answer_in_place, locked, ready, repeat_together,
};

/// Generated from `calls.proto` by the build script.
#[allow(missing_docs, clippy::all)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

use generated::calls::Payload;
use generated::calls_ttrpc::{Calls, CallsClient, create_calls};

const VARIANTS: &[Variant] = &[Variant {
    name: "unix",
    about: "protobuf over a Unix socket; a tokio runtime of one thread on each side, callers are futures",
    callers: 32,
    idles: true,
    server: |directory| runtime()?.block_on(serve(directory)),
    client: connect,
}];

fn address(directory: &Path) -> String {
    format!("unix://{}", directory.join("ttrpc").display())
}

struct Answers;

#[async_trait::async_trait]
impl Calls for Answers {
    async fn echo(&self, _: &TtrpcContext, mut request: Payload) -> ttrpc::Result<Payload> {
        request.data = answer_in_place(request.data);
        Ok(request)
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn serve(directory: &Path) -> Outcome {
    let server = Server::new().bind(&address(directory))?;
    let mut server = server.register_service(create_calls(Arc::new(Answers)));
    server.start().await?;
    ready()?;
    std::future::pending().await
}

/// A client, and the connections that it keeps beside the one that it calls over.
struct Connected {
    runtime: Runtime,
    address: String,
    calls: CallsClient,
    others: Vec<CallsClient>,
}

fn connect(directory: &Path) -> Outcome<Box<dyn Client>> {
    let (runtime, address) = (runtime()?, address(directory));
    let calls = CallsClient::new(runtime.block_on(Socket::connect(&address))?);
    Ok(Box::new(Connected { runtime, address, calls, others: Vec::new() }))
}

async fn call(calls: &CallsClient, work: &Work) -> Outcome {
    let request = Payload { data: work.request().to_vec(), ..Default::default() };
    // A context without a time limit.
    let answer = calls.echo(ttrpc::context::with_timeout(0), &request).await?;
    work.check(&answer.data)
}

impl Client for Connected {
    fn load(&mut self, load: &Arc<Load>) -> Outcome<Totals> {
        let calls = &self.calls;
        let all = repeat_together(load, tokio::time::sleep, async |work: &Work| call(calls, work).await);
        self.runtime.block_on(all)
    }

    fn another(&mut self) -> Outcome {
        let other = CallsClient::new(self.runtime.block_on(Socket::connect(&self.address))?);
        self.runtime.block_on(call(&other, &Work::new(0)))?;
        self.others.push(other);
        Ok(())
    }
}

fn main() -> ExitCode {
    Peer { peer: "ttrpc", version: locked("ttrpc"), variants: VARIANTS }.main()
}
