//! Replies that any thread gives, at once or much later. The server stub is hand-made.

use std::sync::{Arc, Mutex};
use underpass::__private::wire::ArgumentPlace;
use underpass::__private::{Dispatch, IncomingCall, Refused, Service};
use underpass::{CallError, Outcome, Running, Server};
use underpass_tests::{Room, Watchdog, until};

#[underpass::interface]
trait Promise {
    /// Returns what the test replies.
    fn ask(&self, n: u32) -> Result<Vec<u32>, CallError>;
    /// Returns its argument at once.
    fn now(&self, n: u32) -> Result<u32, CallError>;
}

/// A call that waits for its reply: its argument, whether it was given up, and what replies.
struct Asked {
    n: u32,
    is_cancelled: Box<dyn Fn() -> bool + Send>,
    reply: Box<dyn FnOnce(Result<Vec<u32>, CallError>) + Send>,
}

type Calls = Arc<Mutex<Vec<Asked>>>;

/// The server stub.
struct Promises(Calls);

impl Dispatch for Promises {
    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
        let procedure = call.procedure();
        let mut n = ArgumentPlace::new();
        call.argument::<u32>(&mut n)?;
        call.end()?;
        if procedure == 1 {
            return call.reply::<u32, __PromiseTypes<1>>(&Ok(n.give())).map(drop);
        }
        let reply = call.defer::<Vec<u32>, __PromiseTypes<1>>()?;
        let wanted = reply.cancellation().clone();
        self.0.lock().unwrap().push(Asked {
            n: n.give(),
            is_cancelled: Box::new(move || wanted.is_cancelled()),
            reply: Box::new(|result| reply.give(result)),
        });
        Ok(())
    }
}

fn serve(of: &str) -> (Running, PromiseClient, Calls) {
    let (name, calls) = (Room::name(of), Calls::default());
    let stub = Arc::new(Promises(calls.clone()));
    let service = Service::new(PromiseClient::descriptor(), stub);
    let running = Server::new().export(&name, service).start().unwrap();
    let client = PromiseClient::import(&name).unwrap();
    (running, client, calls)
}

/// `count` threads that ask.
fn ask(
    client: &PromiseClient,
    count: u32,
) -> Vec<underpass::thread::JoinHandle<Result<Vec<u32>, CallError>>> {
    let ask = |n| {
        let client = client.clone();
        underpass::thread::spawn(move || client.ask(n))
    };
    (0..count).map(ask).collect()
}

fn until_asked(calls: &Calls, count: usize) -> Vec<Asked> {
    until("the calls", || {
        let mut calls = calls.lock().unwrap();
        (calls.len() == count).then(|| std::mem::take(&mut *calls))
    })
}

#[test]
fn any_thread_replies_at_once_or_after_the_slot_was_given_back() {
    let _watchdog = Watchdog::new("any_thread_replies_at_once_or_after_the_slot_was_given_back");
    let (_running, client, calls) = serve("deferred");
    for round in 0..50 {
        let asked = ask(&client, 4);
        // Most of these still have their slots.
        for call in until_asked(&calls, 4) {
            std::thread::spawn(move || (call.reply)(Ok(vec![call.n; round])));
        }
        for (n, caller) in (0..).zip(asked) {
            assert_eq!(caller.join().unwrap(), Ok(vec![n; round]));
        }
    }
    // More than a channel has slots: most of these have given theirs back.
    let asked = ask(&client, 200);
    for call in until_asked(&calls, 200).into_iter().rev() {
        (call.reply)(if call.n % 2 == 0 {
            Ok(vec![call.n; 20_000])
        } else {
            Err(CallError::Panicked(call.n.to_string()))
        });
    }
    for (n, caller) in (0..).zip(asked) {
        let result = caller.join().unwrap();
        match n % 2 {
            0 => assert_eq!(result, Ok(vec![n; 20_000])),
            _ => assert_eq!(result, Err(CallError::Panicked(n.to_string()))),
        }
    }
}

#[test]
fn a_deferred_reply_that_is_dropped_tells_its_caller() {
    let _watchdog = Watchdog::new("a_deferred_reply_that_is_dropped_tells_its_caller");
    let (_running, client, calls) = serve("deferred-dropped");
    for count in [1, 100] {
        let asked = ask(&client, count);
        drop(until_asked(&calls, count as usize));
        for caller in asked {
            assert_eq!(caller.join().unwrap(), Err(CallError::Dropped(Outcome::Unknown)));
        }
    }
    assert_eq!(client.now(1), Ok(1));
}

#[test]
fn a_deferred_reply_to_a_call_that_was_given_up_reaches_nobody() {
    let _watchdog = Watchdog::new("a_deferred_reply_to_a_call_that_was_given_up_reaches_nobody");
    let (_running, client, calls) = serve("deferred-late");
    // In their slots, and after they have given them back.
    for count in [1, 1, 1, 80] {
        let cancelled = ask(&client, count);
        let waiting = until_asked(&calls, count as usize);
        cancelled.iter().for_each(|thread| thread.cancel());
        for caller in cancelled {
            assert_eq!(caller.join().unwrap(), Err(CallError::Cancelled(Outcome::Unknown)));
        }
        for call in waiting {
            until("the server to be told", || (call.is_cancelled)().then_some(()));
            (call.reply)(Ok(vec![9]));
        }
        assert_eq!(client.now(7), Ok(7));
    }
}
