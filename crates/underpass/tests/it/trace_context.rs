//! The trace context of a caller is that of the handler, and of the calls that the handler makes.

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use underpass::{CallError, Handler, Server, TraceContext, thread};
use underpass_harness::alone;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Async handlers are called over a channel, even by importers in the same process.
#[underpass::interface(asynchronous)]
trait Relay {
    /// The context of the handler at the end of the chain of `names`, and its state.
    fn context(&self, names: Vec<String>, text: String) -> Result<(Option<String>, String), CallError>;
    /// Takes a function that is called back, and large arguments.
    fn with_values(&self, relay: RelayClient, bytes: Vec<u8>) -> Result<Option<String>, CallError>;
}

struct Forwarder;

fn own() -> Option<String> {
    TraceContext::current().map(|context| context.to_string())
}

impl RelayAsync for Forwarder {
    async fn context(&self, names: Vec<String>, text: String) -> Result<(Option<String>, String), CallError> {
        let Some((first, others)) = names.split_first() else {
            let state =
                TraceContext::current().map_or_else(String::new, |context| context.state().to_owned());
            return Ok((own(), state + &text));
        };
        let next = RelayClient::import(first).map_err(|_| CallError::Overloaded)?;
        next.context_async(others.to_vec(), text).await
    }

    async fn with_values(&self, relay: RelayClient, bytes: Vec<u8>) -> Result<Option<String>, CallError> {
        drop((relay, bytes));
        // It is that of the call after each wait.
        let mut waits = 2;
        std::future::poll_fn(|cx: &mut Context<'_>| {
            waits -= 1;
            cx.waker().wake_by_ref();
            if waits == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        Ok(own())
    }
}

fn spawn(mut handler: Handler) {
    std::thread::spawn(move || {
        let mut context = Context::from_waker(Waker::noop());
        while handler.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
    });
}

fn until_ready<T>(future: impl Future<Output = T>) -> T {
    let (mut future, begun) = (std::pin::pin!(future), Instant::now());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the task hangs");
        std::thread::yield_now();
    }
}

#[test]
fn a_context_goes_along_with_calls() {
    alone!();
    let names = ["first", "second"].map(|name| format!("trace-{name}-{}", std::process::id()));
    let running = names.iter().fold(Server::new(), |server, name| {
        server.export(name, RelayAsync::serve(Forwarder, spawn).measured(true))
    });
    let running = running.start().unwrap();
    let relay = RelayClient::import(&names[0]).unwrap();
    let none = |text: &str| Ok((None, text.to_owned()));
    assert_eq!(relay.context(vec![], "a".to_owned()), none("a"), "no thread has a context");

    let context = TraceContext::parse(PARENT).unwrap().with_state("vendor=value");
    let there = vec![names[1].clone()];
    let long = "x".repeat(100_000);
    let bounded = relay.with_deadline(Duration::from_secs(60));
    let measured = relay.measured(&names[0]);
    context.scope(|| {
        for relay in [&relay, &bounded, &measured] {
            for text in ["", "some text that does not fit into a cell of a ring any more", &long] {
                let expected = Ok((Some(PARENT.to_owned()), format!("vendor=value{text}")));
                assert_eq!(relay.context(vec![], text.to_owned()), expected, "{} bytes", text.len());
                assert_eq!(relay.context(there.clone(), text.to_owned()), expected, "by way of another");
                let called = until_ready(relay.context_async(there.clone(), text.to_owned()));
                assert_eq!(called, expected, "by a task");
            }
            for bytes in [0, 100_000] {
                let told = relay.with_values(relay.clone(), vec![0; bytes]);
                assert_eq!(told, Ok(Some(PARENT.to_owned())));
            }
        }
    });
    assert_eq!(relay.context(there.clone(), "b".to_owned()), none("b"), "the scope has ended");
    // Other threads have none by themselves, or their own.
    let other = relay.clone();
    let threads = context.scope(|| thread::spawn(move || other.context(vec![], String::new())));
    assert_eq!(threads.join().unwrap(), none(""));
    let future = context.follow(relay.context_async(there, String::new()));
    assert_eq!(until_ready(future), Ok((Some(PARENT.to_owned()), "vendor=value".to_owned())));

    // Of 200 calls in a row by one thread, each 64th tells when it was posted.
    (0..200).for_each(|_| assert_eq!(measured.context(vec![], String::new()), none("")));
    let told = underpass::metrics::snapshot();
    let is_export = |of: &&underpass::metrics::InterfaceMetrics| {
        of.name == names[0] && of.side == underpass::metrics::MeasuredSide::Export
    };
    let queued = told.iter().find(is_export).unwrap().methods[0].queueing.count();
    assert!((3..=4).contains(&queued), "{queued}");
    drop((relay, bounded, measured));
    running.stop();
}
