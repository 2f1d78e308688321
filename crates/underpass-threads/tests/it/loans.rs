//! When a listener returns a processor that it was lent: both clauses of URPC, 3.1.3.

use crate::common::with_processors;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use underpass_os::cpu;
use underpass_os::futex::{self, FutexScope};
use underpass_processor::{ActiveLine, AwaitedLine, DonationLine, Line, PolledLine, SleepLine, lines};
use underpass_threads::{defers_wake_up, spawn, start, wake_all_idle, yield_now};

type Procedure = Box<dyn FnOnce(&Client) + Send>;

/// The server's end of a client that lends the processor of one CPU.
struct Client {
    cpu: usize,
    /// The donation word: whether the listener takes a processor.
    listens: AtomicU32,
    /// The listener has announced that it listens, and no processor has come since.
    announced: AtomicBool,
    calls: Mutex<VecDeque<Procedure>>,
    under_way: AtomicU32,
    replies: AtomicU32,
    /// How often the processor has gone back. From then on workers of the server's own take calls
    /// too.
    returns: AtomicU32,
    /// The same, when a procedure that [`lasts`] was about to end.
    early: AtomicU32,
    word: AtomicU32,
}

thread_local! {
    static IS_LISTENER: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Whether the calling kernel thread is a listener.
fn is_listener() -> bool {
    IS_LISTENER.get().unwrap_or_else(|| {
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
        IS_LISTENER.set(Some(name.starts_with("listener")));
        name.starts_with("listener")
    })
}

impl Client {
    fn new() -> Arc<Self> {
        let client = Arc::new(Self {
            cpu: cpu::allowed().unwrap()[0],
            listens: AtomicU32::new(0),
            announced: AtomicBool::new(false),
            calls: Mutex::default(),
            under_way: AtomicU32::new(0),
            replies: AtomicU32::new(0),
            returns: AtomicU32::new(0),
            early: AtomicU32::new(0),
            word: AtomicU32::new(0),
        });
        lines::add(client.clone());
        start().listen();
        wake_all_idle();
        client
    }

    fn call(&self, procedure: impl FnOnce(&Self) + Send + 'static) {
        self.calls.lock().unwrap().push_back(Box::new(procedure));
    }

    /// Lends the processor, once the listener takes it.
    fn donate(&self) {
        until(|| self.listens.swap(0, Ordering::SeqCst) == 1);
        futex::wake(&self.listens, FutexScope::Shared, 1);
    }

    /// Posts the reply to a call under way.
    fn reply(&self) {
        defers_wake_up(self);
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        self.replies.fetch_add(1, Ordering::SeqCst);
    }

    fn returns(&self) -> u32 {
        self.returns.load(Ordering::SeqCst)
    }

    fn replies(&self) -> u32 {
        self.replies.load(Ordering::SeqCst)
    }

    /// Waits until the processor is back and all calls have replies.
    fn ends(self: Arc<Self>, calls: u32) {
        until(|| self.returns() > 0 && self.replies() == calls);
        assert_eq!(self.early.load(Ordering::SeqCst), 0, "returns while the loan was to go on");
        lines::remove(&(self as Arc<dyn Line>));
    }
}

fn until(holds: impl Fn() -> bool) {
    while !holds() {
        std::thread::yield_now();
    }
}

impl PolledLine for Client {
    fn poll(&self) -> bool {
        false
    }
    fn pending(&self) -> bool {
        (is_listener() || self.returns() > 0) && !self.calls.lock().unwrap().is_empty()
    }
    fn serve(&self, _: u64) -> bool {
        if !self.pending() {
            return false;
        }
        let mut calls = self.calls.lock().unwrap();
        let Some(procedure) = calls.pop_front() else { return false };
        self.under_way.fetch_add(1, Ordering::SeqCst);
        drop(calls);
        procedure(self);
        true
    }
}

impl DonationLine for Client {
    fn answered(&self) -> bool {
        let calls = self.calls.lock().unwrap();
        calls.is_empty() && self.under_way.load(Ordering::SeqCst) == 0
    }
    fn listen(&self, cpu: usize) -> Option<(&AtomicU32, u32)> {
        if cpu != self.cpu {
            return None;
        }
        if !self.announced.swap(true, Ordering::SeqCst) {
            self.listens.store(1, Ordering::SeqCst);
        }
        Some((&self.listens, 1))
    }
    fn ignore(&self, cpu: usize) -> bool {
        if cpu != self.cpu || !self.announced.load(Ordering::SeqCst) {
            return true;
        }
        let withdrawn = self.listens.swap(0, Ordering::SeqCst) == 1;
        if withdrawn {
            self.announced.store(false, Ordering::SeqCst);
        }
        withdrawn
    }
    fn came(&self, cpu: usize) -> bool {
        let came = cpu == self.cpu
            && self.announced.load(Ordering::SeqCst)
            && self.listens.load(Ordering::SeqCst) == 0;
        if came {
            self.announced.store(false, Ordering::SeqCst);
        }
        came
    }
    fn hand_back(&self, _: usize, stays: bool) {
        if stays {
            self.announced.store(true, Ordering::SeqCst);
            self.listens.store(1, Ordering::SeqCst);
        }
        self.returns.fetch_add(1, Ordering::SeqCst);
    }
}

impl SleepLine for Client {
    fn park(&self, _: bool) -> Option<u32> {
        None
    }
    fn spare(&self) -> Option<u32> {
        None
    }
    fn quiet(&self) -> bool {
        !self.pending()
    }
    fn word(&self) -> &AtomicU32 {
        &self.word
    }
    fn look(&self) {}
    fn set_unpolled(&self) {}
}

impl ActiveLine for Client {}

impl AwaitedLine for Client {
    fn wake_spare(&self) {}
}

impl Line for Client {
    fn elsewhere(&self) -> bool {
        true
    }
    fn shares(&self) -> bool {
        true
    }
}

/// Yields while `goes_on`: the thread is always ready, and the listener is never idle.
fn busy(goes_on: impl Fn() -> bool) {
    while goes_on() {
        yield_now();
    }
}

/// A thread that keeps a processor of the server's own busy, until this is dropped.
struct Busy(Arc<AtomicBool>, Option<underpass_threads::JoinHandle<()>>);

impl Busy {
    fn processor() -> Self {
        let (runs, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (told, ends) = (runs.clone(), over.clone());
        let thread = spawn(move || {
            told.store(true, Ordering::SeqCst);
            while !ends.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
        });
        until(|| runs.load(Ordering::SeqCst));
        Self(over, Some(thread))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.take().expect("it is joined once").join().unwrap();
    }
}

#[test]
fn a_processor_goes_back_when_all_calls_have_replies() {
    // With no processor of the server's own that could be idle, and with one.
    with_processors(&[0, 1], || {
        let client = Client::new();
        client.call(|client| {
            client.reply();
            busy(|| client.returns() == 0);
        });
        client.donate();
        client.ends(1);
    });
}

#[test]
fn a_processor_goes_back_to_each_client_whose_calls_have_replies() {
    with_processors(&[0], || {
        let [first, second] = [Client::new(), Client::new()];
        first.call(Client::reply);
        let other = first.clone();
        second.call(move |client| {
            busy(|| other.returns() == 0);
            client.reply();
        });
        // Both donate while the listener sleeps, or one after the other.
        first.donate();
        second.donate();
        first.ends(1);
        second.ends(1);
    });
}

#[test]
fn a_processor_goes_back_when_a_reply_waits_and_one_of_the_servers_own_is_idle() {
    with_processors(&[1], || {
        let client = Client::new();
        client.call(Client::reply);
        // The second call has no reply when the processor goes back.
        client.call(|client| {
            busy(|| client.returns() == 0);
            client.reply();
        });
        client.donate();
        client.ends(2);
    });
}

/// How often a thread yields in a loan that goes on. It takes far longer than any clock that ended
/// the loan would allow.
const YIELDS: u32 = 20_000;

/// A procedure that lasts for `YIELDS` yields. The processor does not go back meanwhile.
fn lasts(client: &Client) {
    let yields = Cell::new(0);
    busy(|| {
        yields.set(yields.get() + 1);
        yields.get() < YIELDS
    });
    client.early.store(client.returns(), Ordering::SeqCst);
    client.reply();
}

#[test]
fn a_loan_goes_on_while_no_processor_of_the_servers_own_is_idle() {
    with_processors(&[0, 1], || {
        let _busy = (std::env::var("UNDERPASS_PROCESSORS").as_deref() == Ok("1")).then(Busy::processor);
        let client = Client::new();
        client.call(Client::reply);
        client.call(lasts);
        client.donate();
        client.ends(2);
    });
}

#[test]
fn a_loan_goes_on_while_no_reply_waits() {
    with_processors(&[1], || {
        let client = Client::new();
        client.call(lasts);
        client.donate();
        client.ends(1);
    });
}
