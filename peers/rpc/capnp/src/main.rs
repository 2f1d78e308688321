//! Cap'n Proto RPC over a Unix socket. Each side has one thread, and 32 callers share one
//! connection.
#![forbid(unsafe_code)]

use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::{RpcSystem, twoparty};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, spawn_local};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use underpass_rpc_peer::{
    Client, Load, Outcome, Peer, Totals, Variant, Work, answer, locked, ready, repeat_together,
};

/// Generated from `calls.capnp` by `capnp compile -orust`.
#[rustfmt::skip]
#[allow(missing_docs, clippy::all, unused, elided_lifetimes_in_paths)]
#[path = "generated/calls_capnp.rs"]
mod calls_capnp;

use calls_capnp::calls;

const VARIANTS: &[Variant] = &[Variant {
    name: "unix",
    about: "two-party RPC over a Unix socket; a tokio runtime of one thread on each side, callers are futures",
    callers: 32,
    idles: true,
    server: |directory| LocalSet::new().block_on(&runtime()?, serve(directory)),
    client: connect,
}];

/// The name of the socket in the directory.
const NAME: &str = "capnp";

struct Answers;

impl calls::Server for Answers {
    async fn null(self: Rc<Self>, _: calls::NullParams, _: calls::NullResults) -> capnp::Result<()> {
        Ok(())
    }

    async fn echo(
        self: Rc<Self>,
        params: calls::EchoParams,
        mut results: calls::EchoResults,
    ) -> capnp::Result<()> {
        let request = params.get()?.get_data()?;
        answer(request, results.get().init_data(request.len() as u32));
        Ok(())
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The protocol's machinery over this socket, on `side`.
fn network(stream: UnixStream, side: Side) -> Box<twoparty::VatNetwork<impl futures::AsyncRead + Unpin>> {
    let (from, to) = stream.into_split();
    let from = futures::io::BufReader::new(from.compat());
    let to = futures::io::BufWriter::new(to.compat_write());
    Box::new(twoparty::VatNetwork::new(from, to, side, Default::default()))
}

async fn serve(directory: &Path) -> Outcome {
    let listener = UnixListener::bind(directory.join(NAME))?;
    ready()?;
    let answers: calls::Client = capnp_rpc::new_client(Answers);
    loop {
        let (stream, _) = listener.accept().await?;
        spawn_local(RpcSystem::new(network(stream, Side::Server), Some(answers.clone().client)));
    }
}

async fn dial(socket: &Path) -> Outcome<calls::Client> {
    let stream = UnixStream::connect(socket).await?;
    let mut system = RpcSystem::new(network(stream, Side::Client), None);
    let calls = system.bootstrap(Side::Server);
    spawn_local(system);
    Ok(calls)
}

/// A client, and the connections that it keeps beside the one that it calls over.
struct Connected {
    runtime: Runtime,
    tasks: LocalSet,
    socket: PathBuf,
    calls: calls::Client,
    others: Vec<calls::Client>,
}

fn connect(directory: &Path) -> Outcome<Box<dyn Client>> {
    let (runtime, tasks, socket) = (runtime()?, LocalSet::new(), directory.join(NAME));
    let calls = tasks.block_on(&runtime, dial(&socket))?;
    Ok(Box::new(Connected { runtime, tasks, socket, calls, others: Vec::new() }))
}

async fn call(calls: &calls::Client, work: &Work) -> Outcome {
    if work.request().is_empty() {
        calls.null_request().send().promise.await?;
        return Ok(());
    }
    let mut request = calls.echo_request();
    request.get().set_data(work.request());
    let answer = request.send().promise.await?;
    work.check(answer.get()?.get_data()?)
}

impl Client for Connected {
    fn load(&mut self, load: &Arc<Load>) -> Outcome<Totals> {
        let calls = &self.calls;
        let all = repeat_together(load, tokio::time::sleep, async |work: &Work| call(calls, work).await);
        self.tasks.block_on(&self.runtime, all)
    }

    fn another(&mut self) -> Outcome {
        let socket = &self.socket;
        let other = self.tasks.block_on(&self.runtime, async {
            let other = dial(socket).await?;
            call(&other, &Work::new(0)).await?;
            Outcome::Ok(other)
        })?;
        self.others.push(other);
        Ok(())
    }
}

fn main() -> ExitCode {
    Peer { peer: "capnp", version: locked("capnp-rpc"), variants: VARIANTS }.main()
}
