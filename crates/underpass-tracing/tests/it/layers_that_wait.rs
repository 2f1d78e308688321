//! Layers beside [`Follow`] whose actions at a switch are forbidden, and layers whose actions are
//! allowed.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tracing::span::Id;
use tracing::{Subscriber, info_span};
use tracing_subscriber::layer::Context;
use tracing_subscriber::prelude::*;
use underpass_sync::Mutex;
use underpass_threads::{on_user_thread, spawn, yield_now};
use underpass_tracing::Follow;

/// Set in processes that run one test by themselves.
const INSIDE: &str = "UNDERPASS_TEST_INSIDE";

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

/// Runs the calling test's `body` in a process of its own with one processor. Returns whether it
/// ended well, and its output.
fn alone(body: impl FnOnce()) -> (bool, String) {
    if std::env::var_os(INSIDE).is_some() {
        let _dog = watchdog();
        body();
        std::process::exit(0);
    }
    let test = std::thread::current().name().expect("tests have names").to_owned();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &test, "--nocapture"]).env(INSIDE, "1").env("UNDERPASS_PROCESSORS", "1");
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A layer that acts where a span is entered and exited: by the span's own thread, or at a switch.
struct Does<F>(F);

impl<S: Subscriber, F: Fn(bool) + 'static> tracing_subscriber::Layer<S> for Does<F> {
    fn on_enter(&self, _: &Id, _: Context<'_, S>) {
        (self.0)(!on_user_thread());
    }

    fn on_exit(&self, _: &Id, _: Context<'_, S>) {
        (self.0)(!on_user_thread());
    }
}

/// Two threads that are switched while each is in a span.
fn spans() {
    let works = || {
        let _work = info_span!("work").entered();
        (0..20).for_each(|_| yield_now());
    };
    let threads = [spawn(works), spawn(works)];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Held by a thread that is switched.
static HELD: Mutex<()> = Mutex::new(());

#[test]
fn a_layer_that_yields_at_a_switch_goes_on() {
    static SWITCHES: AtomicU32 = AtomicU32::new(0);
    let (well, said) = alone(|| {
        let yields = |switched: bool| {
            yield_now();
            SWITCHES.fetch_add(switched.into(), Ordering::Relaxed);
        };
        tracing_subscriber::registry().with(Follow::new()).with(Does(yields)).init();
        spans();
        assert!(SWITCHES.load(Ordering::Relaxed) >= 80);
    });
    assert!(well, "{said}");
}

#[test]
fn a_layer_that_waits_for_a_mutex_at_a_switch_is_refused() {
    let (well, said) = alone(|| {
        let locks = |switched| {
            if switched {
                drop(HELD.lock());
            }
        };
        tracing_subscriber::registry().with(Follow::new()).with(Does(locks)).init();
        let holds = || {
            let _work = info_span!("work").entered();
            let _held = HELD.lock();
            yield_now();
        };
        spawn(holds).join().unwrap();
    });
    assert!(!well && said.contains("waits for a mutex, which is not allowed there"), "{said}");
}

#[test]
fn a_layer_that_panics_at_a_switch_ends_the_process_with_its_message() {
    let (well, said) = alone(|| {
        let panics = |switched: bool| assert!(!switched, "an unlucky layer");
        tracing_subscriber::registry().with(Follow::new()).with(Does(panics)).init();
        spans();
    });
    assert!(!well && said.contains("an unlucky layer") && said.contains("has panicked"), "{said}");
}
