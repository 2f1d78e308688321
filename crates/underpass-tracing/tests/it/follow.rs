//! Spans and events of threads that are switched constantly.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::Id;
use tracing::{Event, Span, Subscriber, info, info_span};
use tracing_subscriber::layer::Context;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;
use underpass_harness::alone;
use underpass_threads::{Builder, park, spawn, yield_now};
use underpass_tracing::Follow;

/// Ends the process if it is not dropped in time.
fn watchdog() -> Sender<()> {
    let (calm, watched) = channel();
    std::thread::spawn(move || {
        if watched.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a test hangs");
            std::process::abort();
        }
    });
    calm
}

/// What was seen of all events and spans.
#[derive(Default)]
struct Seen {
    /// Events whose spans were not the expected ones.
    wrong: Vec<String>,
    events: usize,
    /// How often each span is entered at this moment.
    entered: HashMap<u64, i64>,
    /// Whether a span was entered twice at once, by one thread or by two.
    twice: bool,
}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

struct Check;

struct Expected(String);

impl Visit for Expected {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "expected" {
            self.0 = format!("{value:?}");
        }
    }
}

fn seen<R>(see: impl FnOnce(&mut Seen) -> R) -> R {
    see(SEEN.lock().unwrap().get_or_insert_default())
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Check {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut expected = Expected(String::new());
        event.record(&mut expected);
        let names = context
            .event_scope(event)
            .map(|scope| scope.from_root().map(|span| span.name()).collect::<Vec<_>>());
        let names = names.unwrap_or_default().join(" ");
        seen(|seen| {
            seen.events += 1;
            if names != expected.0 {
                seen.wrong.push(format!("in {names:?} instead of {:?}", expected.0));
            }
        });
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        seen(|seen| {
            let times = seen.entered.entry(id.into_u64()).or_default();
            *times += 1;
            seen.twice |= *times > 1;
        });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        seen(|seen| *seen.entered.get_mut(&id.into_u64()).unwrap() -= 1);
    }
}

/// The records cover all threads of the process, so these tests run one at a time.
fn begin() -> MutexGuard<'static, ()> {
    static BEGUN: OnceLock<()> = OnceLock::new();
    static ONE: Mutex<()> = Mutex::new(());
    BEGUN.get_or_init(|| tracing_subscriber::registry().with(Follow::new()).with(Check).init());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

macro_rules! event_in {
    ($($expected:tt)*) => { info!(expected = format_args!($($expected)*)) };
}

/// The work of each thread, in spans of its own. At times it moves to another kernel thread.
fn works(kind: usize, rounds: usize) {
    for round in 0..rounds {
        event_in!("");
        let span = match kind {
            0 => info_span!("a"),
            1 => info_span!("b"),
            _ => info_span!("c"),
        };
        let name = span.metadata().unwrap().name();
        let entered = span.enter();
        yield_now();
        event_in!("{name}");
        {
            let _inner = info_span!("inner").entered();
            event_in!("{name} inner");
            if round % 7 == kind {
                underpass_threads::sleep(Duration::from_micros(50));
            } else {
                yield_now();
            }
            event_in!("{name} inner");
        }
        assert_eq!(Span::current(), span);
        drop(entered);
        yield_now();
        assert!(Span::current().is_none());
    }
}

#[test]
fn spans_follow_their_threads() {
    alone!();
    let _dog = watchdog();
    let _one = begin();
    let pinned = (0..6).map(|i| spawn(move || works(i % 3, 300)));
    let migrating = (0..6).map(|i| {
        // SAFETY: it holds nothing across a pause that belongs to a kernel thread.
        let builder = unsafe { Builder::new().migrating() };
        builder.spawn(move || works(i % 3, 300)).unwrap()
    });
    let threads: Vec<_> = pinned.chain(migrating).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    seen(|seen| {
        assert_eq!(seen.wrong, [""; 0]);
        assert!(seen.events >= 12 * 300 * 4);
        assert!(!seen.twice, "no span is entered by two");
        assert!(seen.entered.values().all(|&times| times == 0), "each that was entered was exited");
    });
}

#[test]
fn a_span_is_exited_while_its_thread_waits() {
    alone!();
    let _dog = watchdog();
    let _one = begin();
    let (said, hear) = channel();
    let thread = spawn(move || {
        let span = info_span!("waits").entered();
        said.send(span.id().unwrap().into_u64()).unwrap();
        park();
        assert_eq!(Span::current().id(), span.id());
    });
    let id = hear.recv().unwrap();
    while seen(|seen| seen.entered[&id]) != 0 {
        std::thread::yield_now();
    }
    thread.thread().unpark();
    thread.join().unwrap();
}

#[test]
fn a_forgotten_guard_is_not_the_next_thread_s() {
    alone!();
    let _dog = watchdog();
    let _one = begin();
    spawn(|| {
        spawn(|| std::mem::forget(info_span!("forgotten").entered())).join().unwrap();
        assert!(Span::current().is_none());
        spawn(|| assert!(Span::current().is_none())).join().unwrap();
    })
    .join()
    .unwrap();
}
