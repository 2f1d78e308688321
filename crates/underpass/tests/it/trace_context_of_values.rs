//! The trace context goes along when a server calls the interfaces that its client has given it,
//! and when the client's handlers call the server in turn.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio, abort};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use underpass::{CallError, Server, TraceContext, thread};
use underpass_harness::alone;

/// Says to the program that it is the server, and under which name.
const SERVES: &str = "UNDERPASS_TEST_TRACE_SERVES";
/// Far longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00000000000000aa-00";

/// What a client gives.
#[underpass::interface]
trait Listener {
    /// The contexts of this handler, and of the handler that it calls at the server if it is to.
    fn heard(&self, calls_back: bool, text: &str) -> Result<Vec<String>, CallError>;
}

/// What a server exports.
#[underpass::interface]
trait Teller {
    /// Calls the listener. Returns what it returned, behind the context of this handler. If there
    /// is a `span`, the handler calls by that.
    fn tell(
        &self,
        listener: ListenerClient,
        span: Option<u64>,
        calls_back: bool,
        text: &str,
    ) -> Result<Vec<String>, CallError>;
    /// The context of this handler.
    fn context(&self) -> Result<String, CallError>;
}

/// The context of the calling thread.
fn own() -> String {
    TraceContext::current().map_or_else(|| "none".to_owned(), |own| format!("{own} {}", own.state()))
}

struct Told;

impl Teller for Told {
    fn tell(
        &self,
        listener: ListenerClient,
        span: Option<u64>,
        calls_back: bool,
        text: &str,
    ) -> Result<Vec<String>, CallError> {
        let call = || listener.heard(calls_back, text);
        let heard = match (TraceContext::current(), span) {
            (Some(context), Some(span)) => context.with_span(span).scope(call),
            _ => call(),
        };
        Ok([vec![own()], heard?].concat())
    }
    fn context(&self) -> Result<String, CallError> {
        Ok(own())
    }
}

struct Hears(Arc<TellerClient>);

impl Listener for Hears {
    fn heard(&self, calls_back: bool, _: &str) -> Result<Vec<String>, CallError> {
        let mut contexts = vec![own()];
        if calls_back {
            contexts.push(self.0.context()?);
        }
        Ok(contexts)
    }
}

/// Ends the process if the test hangs.
fn watchdog() -> Sender<()> {
    let (calm, watched) = channel();
    std::thread::spawn(move || {
        if watched.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a test of trace contexts hangs:\n{}", thread::dump());
            abort();
        }
    });
    calm
}

/// Not a test of its own: the server process of the other one.
#[test]
fn the_server_of_the_other_test() {
    let Ok(name) = std::env::var(SERVES) else { return };
    let running = Server::new().export(name, Teller::serve(Told)).start().unwrap();
    println!("ready");
    // It must not outlive its test.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    running.stop();
    std::process::exit(0);
}

struct ServerProcess(Child);

impl ServerProcess {
    fn start(name: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "trace_context_of_values::the_server_of_the_other_test", "--nocapture"])
            .env(SERVES, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("ready")), "the server starts");
        Self(child)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_context_goes_back_to_the_client_and_on_from_there() {
    alone!();
    let _watchdog = watchdog();
    let name = format!("trace-back-{}", std::process::id());
    let _server = ServerProcess::start(&name);
    let teller = Arc::new(TellerClient::import(&name).unwrap());
    let listener = ListenerClient::new(Hears(teller.clone()));
    let tell = |span, calls_back, text: &str| teller.tell(listener.clone(), span, calls_back, text).unwrap();

    let none = || "none".to_owned();
    assert_eq!(tell(None, true, ""), [none(), none(), none()], "no thread has a context");

    let of = |parent: &str, state: &str| format!("{parent} {state}");
    for state in ["", "vendor=value", &"k=v,".repeat(128)] {
        let context = TraceContext::parse(PARENT).unwrap().with_state(state);
        let other = TraceContext::parse(OTHER).unwrap();
        let changed = context.clone().with_span(other.span_id()).to_string();
        for text in ["", "some text that does not fit into a cell of a ring any more", &"x".repeat(100_000)] {
            let same = of(PARENT, state);
            context.scope(|| {
                assert_eq!(tell(None, false, text), [same.clone(), same.clone()]);
                assert_eq!(tell(None, true, text), [same.clone(), same.clone(), same.clone()]);
                // A span of the server's own is the cause of what follows.
                let after = of(&changed, state);
                assert_eq!(tell(Some(other.span_id()), true, text), [same.clone(), after.clone(), after]);
            });
        }
    }
    assert_eq!(tell(None, true, ""), [none(), none(), none()], "the scope has ended");
}
