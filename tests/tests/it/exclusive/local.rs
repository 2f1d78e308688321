//! Exclusive services whose callers are in the same domain, so that calls are direct.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;
use underpass::sync::{Condvar, Mutex};
use underpass::{CallError, Server, thread};
use underpass_tests::{Accounts, Ledger, LedgerClient, Room, Watchdog, until};

/// Runs `body` on four user-level threads, two of which may have an activation of their own, and on
/// four kernel threads.
fn on_all(body: impl Fn(u64) -> Result<(), CallError> + Send + Sync + 'static) {
    let body = Arc::new(body);
    let bodies = |from: u64| (from..from + 4).map(|n| (n, body.clone()));
    let user: Vec<_> = bodies(0)
        .map(|(n, body)| {
            let builder = thread::Builder::new();
            let builder = if n % 2 == 0 { builder.dedicated() } else { builder };
            builder.spawn(move || body(n)).unwrap()
        })
        .collect();
    let kernel: Vec<_> = bodies(4).map(|(n, body)| std::thread::spawn(move || body(n))).collect();
    assert!(user.into_iter().all(|thread| thread.join().unwrap() == Ok(())));
    assert!(kernel.into_iter().all(|thread| thread.join().unwrap() == Ok(())));
}

#[test]
fn direct_calls_of_all_kinds_of_threads_lose_nothing() {
    let _watchdog = Watchdog::new("direct_calls_of_all_kinds_of_threads_lose_nothing");
    for (sequential, of) in [(false, "direct"), (true, "direct-sequential")] {
        let accounts = Accounts::default();
        let service = if sequential { accounts.serve_sequential() } else { accounts.serve_exclusive() };
        let names = [of.to_owned(), format!("{of}-again")].map(|name| Room::name(&name));
        // Two exports of one service share its token.
        let server = Server::new().export(&names[0], service.clone()).export(&names[1], service);
        let _running = server.start().unwrap();
        let clients = names.map(|name| LedgerClient::import(&name).unwrap());
        let seen = clients[0].clone();
        on_all(move |n| {
            let client = &clients[n as usize % 2];
            (0..300).try_for_each(|n| match n % 8 {
                0 => client.add_late(1, 3).map(drop),
                _ => client.add(1).map(drop),
            })
        });
        assert_eq!(seen.seen(), Ok((8 * 300, 0)));
    }
}

/// Services of one domain that call one another.
#[underpass::interface]
trait Neighbour {
    /// Calls the neighbours `names` in turn, each within the call to the one before.
    fn visit(&self, names: &[String]) -> Result<u64, CallError>;
}

/// Counts its visitors.
#[derive(Default)]
struct House {
    visitors: RefCell<u64>,
    inside: Cell<bool>,
}

impl Neighbour for House {
    fn visit(&self, names: &[String]) -> Result<u64, CallError> {
        assert!(!self.inside.replace(true), "another one is inside");
        *self.visitors.borrow_mut() += 1;
        self.inside.set(false);
        let Some((first, rest)) = names.split_first() else { return Ok(*self.visitors.borrow()) };
        NeighbourClient::import(first).expect("it is exported").visit(rest)
    }
}

#[test]
fn interleaving_services_call_each_other_in_any_order() {
    let _watchdog = Watchdog::new("interleaving_services_call_each_other_in_any_order");
    let names: Vec<_> = (0..3).map(|n| Room::name(&format!("neighbour-{n}"))).collect();
    let server = names
        .iter()
        .fold(Server::new(), |server, name| server.export(name, House::default().serve_exclusive()));
    let _running = server.start().unwrap();
    let all = names.clone();
    on_all(move |n| {
        // Round about from another one each, and back into the first.
        let way: Vec<_> = (0..7).map(|step| all[(n as usize * (step + 1)) % 3].clone()).collect();
        let first = NeighbourClient::import(&all[n as usize % 3]).unwrap();
        (0..50).try_for_each(|_| first.visit(&way).map(drop))
    });
    let visits: u64 =
        names.iter().map(|name| NeighbourClient::import(name).unwrap().visit(&[]).unwrap() - 1).sum();
    assert_eq!(visits, 8 * 50 * 8);
}

/// Each of its methods waits in another way for a later call.
#[underpass::interface]
trait Waits {
    /// Waits in the way of this number. Returns whether it was let go.
    fn wait(&self, way: u32) -> Result<bool, CallError>;
    /// Lets the one that waits go. Returns whether one did.
    fn let_go(&self) -> Result<bool, CallError>;
}

#[derive(Default)]
struct Waiter {
    waits: Cell<Option<u32>>,
    thread: RefCell<Option<thread::Thread>>,
    shared: Arc<(Mutex<bool>, Condvar)>,
}

impl Waits for Waiter {
    fn wait(&self, way: u32) -> Result<bool, CallError> {
        self.waits.set(Some(way));
        *self.thread.borrow_mut() = Some(thread::current());
        let gone = || self.waits.get().is_none();
        match way {
            0 => until("let_go", || {
                thread::yield_now();
                gone().then_some(())
            }),
            1 => until("let_go", || {
                thread::sleep(Duration::from_micros(100));
                gone().then_some(())
            }),
            2 => thread::park(),
            3 => {
                let mut is_free = self.shared.0.lock().unwrap();
                while !*is_free {
                    is_free = self.shared.1.wait(is_free).unwrap();
                }
                *is_free = false;
            }
            _ => {
                // The end of another thread.
                let waiter = thread::current();
                let ends = thread::spawn(thread::park);
                *self.thread.borrow_mut() = Some(ends.thread().clone());
                ends.join().expect("no panic");
                assert_eq!(thread::current().id(), waiter.id());
            }
        }
        Ok(gone())
    }

    fn let_go(&self) -> Result<bool, CallError> {
        let Some(way) = self.waits.take() else { return Ok(false) };
        if way == 3 {
            *self.shared.0.lock().unwrap() = true;
            self.shared.1.notify_all();
        }
        self.thread.borrow().as_ref().expect("one waits").unpark();
        Ok(true)
    }
}

#[test]
fn others_run_wherever_a_thread_of_any_kind_waits() {
    let _watchdog = Watchdog::new("others_run_wherever_a_thread_of_any_kind_waits");
    let name = Room::name("waits");
    let _running = Server::new().export(&name, Waiter::default().serve_exclusive()).start().unwrap();
    let client = WaitsClient::import(&name).unwrap();
    for way in 0..5 {
        for on_kernel_thread in [false, true] {
            let waits = client.clone();
            let (tell, told) = std::sync::mpsc::channel();
            let body = move || tell.send(waits.wait(way)).unwrap();
            match on_kernel_thread {
                true => drop(std::thread::spawn(body)),
                false => drop(thread::spawn(body)),
            }
            let done = until("the waiter", || {
                client.let_go().unwrap();
                told.try_recv().ok()
            });
            assert_eq!(done, Ok(true), "way {way}, on a kernel thread: {on_kernel_thread}");
        }
    }
}
