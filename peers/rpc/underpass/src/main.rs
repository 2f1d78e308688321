//! Underpass, measured as the others are.
//!
//! 32 callers are user-level threads that share one connection. Both sides wait as they do by
//! default: they poll for as long as a wake-up costs, and sleep then.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use underpass::{CallError, Server, thread};
use underpass_rpc_peer::{Client, Load, Outcome, Peer, Totals, Variant, Work, answer, ready, repeat};

const VARIANTS: &[Variant] = &[Variant {
    name: "default",
    about: "polls for as long as a wake-up costs, then sleeps; callers are user-level threads",
    callers: 32,
    idles: true,
    server: serve,
    client: connect,
}];

/// The exported name.
const NAME: &str = "calls";

/// How long to wait for the server's name.
const APPEAR: Duration = Duration::from_secs(10);

/// What is called.
#[underpass::interface]
trait Calls {
    /// Does nothing.
    fn null(&self) -> Result<(), CallError>;
    /// Returns `data`, with its number increased.
    fn echo(&self, data: &[u8]) -> Result<Vec<u8>, CallError>;
}

struct Answers;

impl Calls for Answers {
    fn null(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn echo(&self, data: &[u8]) -> Result<Vec<u8>, CallError> {
        let mut answered = vec![0; data.len()];
        answer(data, &mut answered);
        Ok(answered)
    }
}

fn serve(_: &Path) -> Outcome {
    let _running = Server::new().export(NAME, Calls::serve(Answers)).start()?;
    ready()?;
    loop {
        std::thread::park();
    }
}

/// A client, and the bindings that it keeps beside the one that it calls over.
struct Bound {
    calls: CallsClient,
    others: Vec<CallsClient>,
}

fn connect(_: &Path) -> Outcome<Box<dyn Client>> {
    let calls = CallsClient::import_within(NAME, APPEAR)?;
    Ok(Box::new(Bound { calls, others: Vec::new() }))
}

fn call(calls: &CallsClient, work: &Work) -> Outcome {
    match work.request() {
        [] => Ok(calls.null()?),
        request => work.check(&calls.echo(request)?),
    }
}

impl Client for Bound {
    fn load(&mut self, load: &Arc<Load>) -> Outcome<Totals> {
        let caller = |_| {
            let (load, calls) = (load.clone(), self.calls.clone());
            thread::spawn(move || repeat(&load, thread::sleep, |work| call(&calls, work)))
        };
        let callers: Vec<_> = (0..load.callers()).map(caller).collect();
        let ended = callers.into_iter().map(|caller| caller.join().map_err(|_| "a caller panicked")?);
        Totals::of(ended.collect::<Outcome<Vec<_>>>()?)
    }

    fn another(&mut self) -> Outcome {
        let calls = CallsClient::import_apart(NAME, APPEAR)?;
        let first = calls.clone();
        thread::spawn(move || first.null()).join().map_err(|_| "a caller panicked")??;
        self.others.push(calls);
        Ok(())
    }
}

fn main() -> ExitCode {
    let version = env!("CARGO_PKG_VERSION").into();
    Peer { peer: "underpass", version, variants: VARIANTS }.main()
}
