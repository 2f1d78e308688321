//! ZeroMQ's REQ and REP over its ipc transport, a Unix socket. The server has one thread, as a REP
//! socket answers one request after another, and 32 callers have a REQ socket each.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use underpass_rpc_peer::{
    Client, Connection, Outcome, Peer, ThreadClient, Variant, Work, answer, locked, ready,
};
use zmq::{Context, Message, REP, REQ, Socket};

const VARIANTS: &[Variant] = &[Variant {
    name: "req-rep",
    about: "both sides block, and an I/O thread on each side has the socket; a REQ socket and a thread for each caller",
    callers: 32,
    idles: true,
    server: serve,
    client: connect,
}];

fn address(directory: &Path) -> String {
    format!("ipc://{}", directory.join("zmq").display())
}

fn serve(directory: &Path) -> Outcome {
    let context = Context::new();
    let socket = context.socket(REP)?;
    socket.bind(&address(directory))?;
    ready()?;
    let mut request = Message::new();
    loop {
        socket.recv(&mut request, 0)?;
        let mut answered = Message::with_size(request.len());
        answer(&request, &mut answered);
        socket.send(answered, 0)?;
    }
}

struct Requests {
    socket: Socket,
    answer: Message,
}

impl Connection for Requests {
    fn call(&mut self, work: &Work) -> Outcome {
        self.socket.send(work.request(), 0)?;
        self.socket.recv(&mut self.answer, 0)?;
        work.check(&self.answer)
    }
}

fn connect(directory: &Path) -> Outcome<Box<dyn Client>> {
    let (context, address) = (Context::new(), address(directory));
    Ok(Box::new(ThreadClient::new(move || {
        let socket = context.socket(REQ)?;
        socket.set_linger(0)?;
        socket.connect(&address)?;
        Ok(Requests { socket, answer: Message::new() })
    })))
}

fn main() -> ExitCode {
    let (major, minor, patch) = zmq::version();
    let version = format!("{} with libzmq {major}.{minor}.{patch}", locked("zmq"));
    Peer { peer: "zmq", version, variants: VARIANTS }.main()
}
