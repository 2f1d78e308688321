//! Models of the token of an exclusive service (`underpass-rpc/src/dispatch/exclusive/README.md`).

use super::{Shared, bounded, together};
use loom::sync::Arc;
use underpass_sync::{ServiceToken, mpmc};

/// A service: its token, and an implementation that one thread at a time runs. Loom checks the
/// latter.
type Service = Arc<(ServiceToken, loom::cell::UnsafeCell<u32>)>;

fn service() -> Service {
    Arc::new((ServiceToken::new(), loom::cell::UnsafeCell::new(0)))
}

/// A step of a method, without a wait.
fn step(service: &Service) {
    service.1.with_mut(|count| unsafe { *count += 1 });
}

/// Takes the token as a call does. A call with a deadline may not get it.
fn begins(service: &Service, deadline: Option<u64>) -> bool {
    service.0.take_soon() || service.0.take_late(deadline).is_ok()
}

/// Runs a method of two steps, with a wait between them.
fn method(service: &Service, deadline: Option<u64>) {
    if begins(service, deadline) {
        step(service);
        service.0.give();
        service.0.take_again();
        step(service);
        service.0.give();
    }
}

/// Three calls run at once; `deadline` is that of the second.
fn three_calls(deadline: Option<u64>) {
    let service = service();
    let body = |deadline| -> Box<dyn FnOnce() + Send> {
        let service = Shared(service.clone());
        Box::new(move || {
            let service = service;
            method(&service.0, deadline);
        })
    };
    together([body(None), body(deadline), body(None)]);
    let count = service.1.with(|count| unsafe { *count });
    assert!(count == 6 || (count == 4 && deadline.is_some()), "{count} steps");
}

#[test]
fn one_thread_at_a_time_runs_an_exclusive_service() {
    bounded(2, || three_calls(None));
}

#[test]
fn a_call_that_gives_up_its_turn_holds_up_nobody() {
    bounded(2, || three_calls(Some(1)));
}

/// A call of a sequential service makes a call, which comes back with its number, while a third
/// call comes from elsewhere. If the second one waited, the first one would wait for ever.
#[test]
fn a_call_that_comes_back_is_refused_and_no_other() {
    bounded(3, || {
        let (service, (called, refused)) = (service(), (mpmc::bounded(1), mpmc::bounded(1)));
        let (one, other) = (Shared(service.clone()), Shared(service.clone()));
        let outward = move || {
            let service = one;
            assert!(begins(&service.0, None));
            step(&service.0);
            called.0.send(service.0.0.number(|| 7)).unwrap();
            assert_eq!(refused.1.recv(), Ok(true));
            step(&service.0);
            service.0.0.give();
        };
        let back = move || {
            let service = other;
            let carried = called.1.recv().unwrap();
            let waits = service.0.0.take_soon() || service.0.0.holder_number() != Some(carried);
            if waits {
                assert!(begins(&service.0, None));
            }
            refused.0.send(!waits).unwrap();
        };
        let elsewhere = Shared(service.clone());
        let elsewhere = move || {
            let service = elsewhere;
            if !service.0.0.take_soon() {
                assert_ne!(service.0.0.holder_number(), Some(8), "nobody has this number");
                assert!(service.0.0.take_late(None).is_ok());
            }
            step(&service.0);
            service.0.0.give();
        };
        together([Box::new(outward), Box::new(back), Box::new(elsewhere)]);
        assert_eq!(service.1.with(|count| unsafe { *count }), 3);
        assert_eq!(service.0.holder_number(), None);
    });
}
