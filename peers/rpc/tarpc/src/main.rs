//! tarpc with bincode over a Unix socket. Each side has a runtime of one thread, and 32 callers
//! share one connection.
#![forbid(unsafe_code)]

use futures::StreamExt;
use serde_bytes::ByteBuf;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tarpc::client;
use tarpc::context::{self, Context};
use tarpc::serde_transport::unix;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tokio::runtime::{Builder, Runtime};
use underpass_rpc_peer::{
    Client, Load, Outcome, Peer, Totals, Variant, Work, answer_in_place, locked, ready, repeat_together,
};

const VARIANTS: &[Variant] = &[Variant {
    name: "unix",
    about: "bincode over a Unix socket; a tokio runtime of one thread on each side, callers are futures",
    callers: 32,
    idles: true,
    server: |directory| runtime()?.block_on(serve(directory)),
    client: connect,
}];

/// The name of the socket in the directory.
const NAME: &str = "tarpc";

/// The longest frame.
const LONGEST: usize = 64 << 20;

/// What is called.
#[tarpc::service]
trait Calls {
    /// Does nothing.
    async fn null();
    /// Returns `data`, with its number increased.
    async fn echo(data: ByteBuf) -> ByteBuf;
}

#[derive(Clone)]
struct Answers;

impl Calls for Answers {
    async fn null(self, _: Context) {}

    async fn echo(self, _: Context, data: ByteBuf) -> ByteBuf {
        ByteBuf::from(answer_in_place(data.into_vec()))
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn serve(directory: &Path) -> Outcome {
    let mut incoming = unix::listen(directory.join(NAME), Bincode::default).await?;
    incoming.config_mut().max_frame_length(LONGEST);
    ready()?;
    while let Some(transport) = incoming.next().await {
        let answers = BaseChannel::with_defaults(transport?).execute(Answers.serve());
        tokio::spawn(answers.for_each(|answer| async {
            tokio::spawn(answer);
        }));
    }
    Ok(())
}

async fn dial(socket: &Path) -> Outcome<CallsClient> {
    let mut connecting = unix::connect(socket, Bincode::default);
    connecting.config_mut().max_frame_length(LONGEST);
    Ok(CallsClient::new(client::Config::default(), connecting.await?).spawn())
}

/// A client, and the connections that it keeps beside the one that it calls over.
struct Connected {
    runtime: Runtime,
    socket: PathBuf,
    calls: CallsClient,
    others: Vec<CallsClient>,
}

fn connect(directory: &Path) -> Outcome<Box<dyn Client>> {
    let (runtime, socket) = (runtime()?, directory.join(NAME));
    let calls = runtime.block_on(dial(&socket))?;
    Ok(Box::new(Connected { runtime, socket, calls, others: Vec::new() }))
}

async fn call(calls: &CallsClient, work: &Work) -> Outcome {
    match work.request() {
        [] => Ok(calls.null(context::current()).await?),
        request => work.check(&calls.echo(context::current(), ByteBuf::from(request)).await?),
    }
}

impl Client for Connected {
    fn load(&mut self, load: &Arc<Load>) -> Outcome<Totals> {
        let calls = &self.calls;
        let all = repeat_together(load, tokio::time::sleep, async |work: &Work| call(calls, work).await);
        self.runtime.block_on(all)
    }

    fn another(&mut self) -> Outcome {
        let other = self.runtime.block_on(dial(&self.socket))?;
        self.runtime.block_on(call(&other, &Work::new(0)))?;
        self.others.push(other);
        Ok(())
    }
}

fn main() -> ExitCode {
    Peer { peer: "tarpc", version: locked("tarpc"), variants: VARIANTS }.main()
}
