//! A service for clients on other machines, without a transport.

use super::*;
use crate::dispatch::incoming::{Dispatch, IncomingCall, Refused};
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

struct Nothing;

impl Dispatch for Nothing {
    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
        call.unknown()
    }
}

/// An export of no procedure, whose `authorize` is this.
fn export(authorize: impl Fn(&Peer) -> bool + Send + Sync + 'static) -> RemoteExport {
    let descriptor = Box::leak(Box::new(Descriptor::builder("Some", "").finish()));
    let service = Service::new(descriptor, Arc::new(Nothing)).remote_peers(RemotePeers::anyone());
    RemoteExport::new("some", service.authorize(authorize)).unwrap()
}

fn begin(export: &RemoteExport) -> Result<RunningCall, CallError> {
    export.begin(export.identify(RemotePeer::at(None), None).unwrap())
}

fn running(export: &RemoteExport) -> usize {
    export.0.running.load(Ordering::Relaxed)
}

/// Polls `work` once, and drops it.
fn give_up<T>(work: impl Future<Output = T>) {
    let polled = pin!(work).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending), "it has ended");
}

/// An export whose `authorize` lasts until the gate is open.
fn gated() -> (Arc<AtomicBool>, RemoteExport) {
    let gate = Arc::<AtomicBool>::default();
    let opened = gate.clone();
    let export = export(move |_| {
        while !opened.load(Ordering::SeqCst) {
            underpass_threads::yield_now();
        }
        true
    });
    (gate, export)
}

#[test]
fn threads_that_nobody_waits_for_still_count() {
    let (gate, export) = gated();
    let call = begin(&export).unwrap();
    give_up(async move { call.admit().await });
    give_up(begin(&export).unwrap().call(0, RemoteMessage::default()));
    assert_eq!(running(&export), 2);
    gate.store(true, Ordering::SeqCst);
    let watchdog = Instant::now() + Duration::from_secs(120);
    while running(&export) > 0 {
        assert!(Instant::now() < watchdog, "the threads still count");
        thread::yield_now();
    }
}

#[test]
fn a_thread_that_panics_answers_its_call() {
    for (result, given) in [
        (None, Err(CallError::Dropped(Outcome::Unknown))),
        (Some(Ok(LocalMessage::default())), Ok(())),
        (Some(Err(REFUSED)), Err(REFUSED)),
    ] {
        let answer = Arc::<LocalAnswer>::default();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut at_end = AnswerAtEnd::new(answer.clone());
            at_end.result = result;
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        let polled = answer.poll(Waker::noop()).map(|answer| answer.map(drop));
        assert_eq!(polled, Poll::Ready(given));
    }
}

#[test]
fn a_client_that_is_refused_gets_no_memory_files() {
    // There are too many for a message, which nobody is told who may not call at all.
    let many = || RemoteMessage { bytes: Vec::new(), sealed: vec![Vec::new(); 65], ..Default::default() };
    let result = |allowed| {
        let export = export(move |_| allowed);
        let mut called = pin!(begin(&export).unwrap().call(0, many()));
        let watchdog = Instant::now() + Duration::from_secs(120);
        loop {
            match called.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => break result,
                Poll::Pending => assert!(Instant::now() < watchdog, "the call goes on"),
            }
            thread::yield_now();
        }
    };
    assert_eq!(result(false).map(drop), Err(REFUSED));
    assert!(matches!(result(true), Err(CallError::NoResources(Outcome::NotStarted, _))));
}

#[test]
fn calls_beyond_the_limit_do_not_begin() {
    let export = export(|_| true);
    let calls: Vec<_> = (0..MOST_CALLS).map(|_| begin(&export).unwrap()).collect();
    assert_eq!(begin(&export).map(drop), Err(CallError::Overloaded));
    drop(calls);
    assert_eq!(running(&export), 0);
    begin(&export).unwrap();
}
