use super::*;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;

/// A result that another thread gives.
#[derive(Default)]
struct Given(Arc<Mutex<(Option<u64>, Option<Waker>)>>);

impl Given {
    fn give(&self, value: u64) {
        let mut given = self.0.lock().unwrap();
        given.0 = Some(value);
        let waker = given.1.take();
        drop(given);
        if let Some(waker) = waker {
            // Twice: a second wake-up does no harm.
            waker.wake_by_ref();
            waker.wake();
        }
    }

    fn later(&self) -> impl Future<Output = u64> + Send + 'static {
        let given = self.0.clone();
        std::future::poll_fn(move |cx| {
            let mut given = given.lock().unwrap();
            match given.0.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    given.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

/// Waits for the descriptor, as an event loop does.
struct Loop(crate::Async<OwnedFd>);

impl Loop {
    fn new<T>(calls: &Completions<T>) -> Self {
        Self(crate::Async::new(calls.as_fd().try_clone_to_owned().unwrap()).unwrap())
    }

    /// Returns when the descriptor is readable.
    fn wait(&self) {
        self.0.readable().unwrap();
    }
}

#[test]
fn each_completion_is_told_once_and_wakes_the_loop() {
    const CALLS: u64 = 2000;
    let mut calls = Completions::new().unwrap();
    let event_loop = Loop::new(&calls);
    let (to_givers, givers) = mpsc::channel::<(Given, u64)>();
    let giver = thread::spawn(move || givers.iter().for_each(|(given, value)| given.give(value)));
    let mut sum = 0;
    for n in 1..=CALLS {
        let given = Given::default();
        assert_eq!(calls.add(given.later()), n);
        to_givers.send((given, n * 10)).unwrap();
        // Now and then the loop sleeps until the descriptor is readable.
        while n % 7 == 0 && calls.under_way() > 0 {
            match calls.next() {
                Some((number, value)) => {
                    assert_eq!(value, number * 10);
                    sum += number;
                }
                None => event_loop.wait(),
            }
        }
    }
    while sum < CALLS * (CALLS + 1) / 2 {
        match calls.next() {
            Some((number, value)) => {
                assert_eq!(value, number * 10);
                sum += number;
            }
            None => event_loop.wait(),
        }
    }
    assert_eq!((calls.next(), calls.under_way()), (None, 0));
    drop(to_givers);
    giver.join().unwrap();
}

#[test]
fn a_call_that_ends_at_once_wakes_the_loop_too() {
    let mut calls = Completions::new().unwrap();
    let event_loop = Loop::new(&calls);
    let number = calls.add(async { 7 });
    event_loop.wait();
    assert_eq!((calls.next(), calls.next()), (Some((number, 7)), None));
}

#[test]
fn a_call_that_is_given_up_is_dropped_and_not_told() {
    let mut calls = Completions::new().unwrap();
    let (kept, dropped) = (Given::default(), Given::default());
    let other = calls.add(kept.later());
    let number = calls.add(dropped.later());
    assert_eq!(Arc::strong_count(&dropped.0), 2);
    assert!(calls.cancel(number) && !calls.cancel(number));
    assert_eq!(Arc::strong_count(&dropped.0), 1);
    dropped.give(1);
    kept.give(2);
    assert_eq!((calls.next(), calls.next()), (Some((other, 2)), None));
}

#[test]
fn a_wake_up_after_the_end_does_no_harm() {
    let given = Given::default();
    let mut calls = Completions::new().unwrap();
    calls.add(given.later());
    let waker = given.0.lock().unwrap().1.clone().unwrap();
    drop(calls);
    waker.wake();
}
