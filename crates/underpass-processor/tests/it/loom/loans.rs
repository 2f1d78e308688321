//! A listener on loan, and a native of its domain that goes to sleep at the same time. One call of
//! the client has its reply, for which only the return wakes the client. Another call comes, for
//! which the client wakes nobody.

use super::permits::{Domain, model};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;
use underpass_processor::permits::protocol;
use underpass_processor::permits::{ReturnPolicy, state};

/// The listener is this activation, the native the other.
const NATIVE: usize = 0;
const LISTENER: usize = 1;

/// What lies in the region, and what the client has.
struct Client {
    /// Calls that wait.
    calls: AtomicU32,
    /// Replies, of two calls.
    replies: AtomicU32,
    /// Calls that are taken and have no reply.
    under_way: AtomicU32,
    /// How often the processor has gone back.
    returns: AtomicU32,
}

impl Client {
    /// As a server takes a call and replies, under the lock of its end.
    fn serve(&self) -> bool {
        let less = |calls: u32| calls.checked_sub(1);
        // Counted before the call is gone from the ring, as a thread that looks takes the lock.
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let served = self.calls.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok();
        if served {
            self.replies.fetch_add(1, Ordering::AcqRel);
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        served
    }

    fn pending(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > 0
    }

    fn answered(&self) -> bool {
        !self.pending() && self.under_way.load(Ordering::SeqCst) == 0
    }
}

/// The native serves what it sees, and goes to sleep. If it is woken, it does so once more.
fn native(domain: &Domain, client: &Client) {
    while client.serve() {}
    let own = &domain.states[NATIVE];
    protocol::retire(domain, own, state::ASLEEP);
    // This stands for the heavy barrier.
    fence(Ordering::SeqCst);
    if client.pending() {
        protocol::resume(domain, own);
        while client.serve() {}
        protocol::retire(domain, own, state::ASLEEP);
    }
}

/// The listener goes on until the processor is due.
fn listener(domain: &Domain, client: &Client, policy: &ReturnPolicy) {
    loop {
        let idle = || domain.permits.counts().free();
        if policy.is_due(|| client.answered(), idle) {
            break;
        }
        if !client.serve() && !client.pending() {
            // It has nothing more to run.
            break;
        }
        thread::yield_now();
    }
    let left = client.pending();
    client.returns.fetch_add(1, Ordering::AcqRel);
    assert!(domain.states[LISTENER].advance(state::LENT, state::LISTENING));
    if left {
        // This stands for the light barrier.
        fence(Ordering::SeqCst);
        if domain.permits.counts().free() {
            protocol::invite(domain);
        }
    }
}

#[test]
fn a_processor_goes_back_once_and_no_call_is_left() {
    model(|| {
        let domain = Domain::new(1, 1, &[state::LENT]);
        let client = Arc::new(Client {
            calls: AtomicU32::new(0),
            replies: AtomicU32::new(1),
            under_way: AtomicU32::new(0),
            returns: AtomicU32::new(0),
        });
        let other = {
            let (domain, client) = (domain.clone(), client.clone());
            thread::spawn(move || native(&domain, &client))
        };
        let policy = ReturnPolicy::new();
        policy.has_replied();
        client.calls.store(1, Ordering::Release);
        listener(&domain, &client, &policy);
        other.join().unwrap();
        domain.adds_up();
        assert_eq!(client.returns.load(Ordering::SeqCst), 1);
        // The call has its reply, or the native was woken for it and runs.
        let woken = domain.states[NATIVE].get() == state::RUNNING;
        assert!(!client.pending() || woken, "{:?}", domain.snapshot());
        if woken {
            while client.serve() {}
        }
        assert_eq!(client.replies.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn threads_of_a_listener_go_on_with_the_idle_processor() {
    model(|| {
        // The native has gone to sleep, so that the loan is due, and is invited at the same time.
        let domain = Domain::new(1, 0, &[state::ASLEEP, state::LENT]);
        let policy = ReturnPolicy::new();
        policy.has_replied();
        assert!(policy.is_due(|| false, || domain.permits.counts().free()));
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                protocol::invite(&*domain);
                // If it was handed the permit, it gives it up later.
                if domain.states[NATIVE].get() == state::RUNNING {
                    protocol::retire(&*domain, &domain.states[NATIVE], state::ASLEEP);
                }
            })
        };
        protocol::regain(&*domain, &domain.states[LISTENER], state::LENT);
        assert_eq!(domain.states[LISTENER].get(), state::RUNNING);
        other.join().unwrap();
        domain.adds_up();
    });
}
