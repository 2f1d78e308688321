//! A lock that processes share. The service parks the replies of those that wait for it, and a
//! holder that dies frees it.
//!
//! ```text
//! cargo run --example lock_service serve &
//! cargo run --example lock_service take 1 &
//! cargo run --example lock_service take 2
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::time::Duration;
use underpass::port::SenderId;
use underpass::port::sync::{Reply, SyncPortOptions, SyncPortSender};
use underpass::sync::{Select, mpmc};
use underpass::{Server, thread};

#[derive(Debug, underpass::Wire)]
enum Order {
    Lock,
    Unlock,
}

const NAME: &str = "example-lock";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve"] => serve(),
        ["take", number] => take(number),
        _ => Err("say `serve`, or `take` and a number".into()),
    }
}

/// The holder of the lock, and those that wait for it.
#[derive(Default)]
struct Lock {
    holder: Option<SenderId>,
    waiting: VecDeque<(SenderId, Reply<()>)>,
}

impl Lock {
    fn obey(&mut self, order: &Order, from: SenderId, reply: Reply<()>) {
        match order {
            Order::Lock => self.waiting.push_back((from, reply)),
            Order::Unlock => {
                self.holder = self.holder.filter(|holder| *holder != from);
                reply.give(());
            }
        }
    }

    /// Gives the lock to the next one that still wants it.
    fn hand_on(&mut self) {
        while self.holder.is_none()
            && let Some((next, reply)) = self.waiting.pop_front()
        {
            if reply.is_wanted() {
                self.holder = Some(next);
                reply.give(());
            }
        }
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    let (service, port) = SyncPortOptions::new().open::<Order, ()>();
    let (gone, ended) = mpmc::unbounded();
    let service = service.on_binding_end(move |binding| {
        // Without a receiver the service has ended.
        let _ = gone.send(binding.id());
    });
    let _running = Server::new().export(NAME, service).start()?;
    let mut lock = Lock::default();
    loop {
        // Both may come: an order, or the end of a process.
        let came = Select::new()
            .recv(&port, |came| (came.ok(), None))
            .recv(&ended, |binding| (None, binding.ok()))
            .wait()?;
        match came {
            (Some(came), _) => {
                let from = came.from();
                let (order, reply) = came.take();
                lock.obey(&order, from, reply);
            }
            (None, Some(binding)) => lock.holder = lock.holder.filter(|holder| holder.binding() != binding),
            (None, None) => return Ok(()),
        }
        lock.hand_on();
    }
}

fn take(number: &str) -> Result<(), Box<dyn Error>> {
    let lock = SyncPortSender::<Order, ()>::connect_within(NAME, Duration::from_secs(10))?;
    lock.send_timeout(&Order::Lock, Duration::from_secs(60))?;
    println!("{number} has the lock");
    thread::sleep(Duration::from_millis(100));
    println!("{number} gives it back");
    Ok(lock.send(&Order::Unlock)?)
}
