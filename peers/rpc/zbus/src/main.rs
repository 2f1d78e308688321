//! D-Bus calls by zbus over a Unix socket, from peer to peer, without a bus between them. Each side
//! has a runtime of one thread, and 32 callers share one connection.
#![forbid(unsafe_code)]

use serde_bytes::{ByteBuf, Bytes};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use underpass_rpc_peer::{
    Client, Load, Outcome, Peer, Totals, Variant, Work, answer_in_place, locked, ready, repeat_together,
};
use zbus::{Guid, connection};

const VARIANTS: &[Variant] = &[Variant {
    name: "p2p",
    about: "D-Bus over a Unix socket without a bus; a tokio runtime of one thread on each side, callers are futures",
    callers: 32,
    idles: true,
    server: |directory| runtime()?.block_on(serve(directory)),
    client: connect,
}];

/// The name of the socket in the directory.
const NAME: &str = "zbus";

/// The object that is called.
const OBJECT: &str = "/calls";

struct Answers;

#[zbus::interface(name = "org.example.Calls1")]
impl Answers {
    fn null(&self) {}

    fn echo(&self, data: ByteBuf) -> ByteBuf {
        ByteBuf::from(answer_in_place(data.into_vec()))
    }
}

#[zbus::proxy(
    interface = "org.example.Calls1",
    default_service = "org.example.Calls",
    default_path = "/calls"
)]
trait Calls {
    async fn null(&self) -> zbus::Result<()>;
    async fn echo(&self, data: &Bytes) -> zbus::Result<ByteBuf>;
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn serve(directory: &Path) -> Outcome {
    let listener = UnixListener::bind(directory.join(NAME))?;
    ready()?;
    let guid = Guid::generate();
    let mut connections = Vec::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let connection = connection::Builder::unix_stream(stream.into_std()?).server(guid.clone()).p2p();
        connections.push(connection.serve_at(OBJECT, Answers).build().await?);
    }
}

async fn dial(socket: &Path) -> Outcome<CallsProxy<'static>> {
    let stream = UnixStream::connect(socket)?;
    stream.set_nonblocking(true)?;
    let connection = connection::Builder::unix_stream(stream).p2p().build().await?;
    Ok(CallsProxy::new(&connection).await?)
}

/// A client, and the connections that it keeps beside the one that it calls over.
struct Connected {
    runtime: Runtime,
    socket: PathBuf,
    calls: CallsProxy<'static>,
    others: Vec<CallsProxy<'static>>,
}

fn connect(directory: &Path) -> Outcome<Box<dyn Client>> {
    let (runtime, socket) = (runtime()?, directory.join(NAME));
    let calls = runtime.block_on(dial(&socket))?;
    Ok(Box::new(Connected { runtime, socket, calls, others: Vec::new() }))
}

async fn call(calls: &CallsProxy<'static>, work: &Work) -> Outcome {
    match work.request() {
        [] => Ok(calls.null().await?),
        request => work.check(&calls.echo(Bytes::new(request)).await?),
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
    Peer { peer: "zbus", version: locked("zbus"), variants: VARIANTS }.main()
}
