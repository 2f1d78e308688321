//! The cheapest operations, for whatever repeats them to count their instructions.

pub(crate) use crate::threads::cases::ours::{fork_join, lock};
pub(crate) use crate::threads::cases::yields;

use crate::BenchError;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass::port::signal::{SignalHandlers, SignalSender};
use underpass::port::{PortOptions, PortSender};
use underpass::{Server, thread};

/// What is sent before it is received: less than there are credits for.
const BATCH: u64 = 32;

/// The kind of the signals.
const KIND: u64 = 1;

/// Sends messages of 32 bytes to an asynchronous port of this process, and receives them. The
/// receiver never waits, so no message rings for it.
pub(crate) fn port_sends(times: u64) -> Result<(), BenchError> {
    let (service, receiver) = PortOptions::new().messages(2 * BATCH as usize).open::<[u8; 32]>()?;
    let _running = Server::new().export("port-sends", service).start()?;
    let sender = PortSender::<[u8; 32]>::connect("port-sends")?;
    let mut sent = 0;
    while sent < times {
        let batch = BATCH.min(times - sent);
        for _ in 0..batch {
            sender.send(black_box(&[7; 32]))?;
        }
        for _ in 0..batch {
            black_box(receiver.recv()?);
        }
        sent += batch;
    }
    Ok(())
}

/// Sends task signals to this process. Their handler counts them, on a thread that runs when the
/// sender yields.
pub(crate) fn signals(times: u64) -> Result<(), BenchError> {
    let handled = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&handled);
    // Relaxed: the handler runs on this activation, between two threads.
    let handlers = SignalHandlers::new().credits(2 * BATCH as usize).on(KIND, move |signal| {
        counts.store(counts.load(Ordering::Relaxed) + signal.datum, Ordering::Relaxed);
    });
    let (service, _signals) = handlers.start();
    let _running = Server::new().export("signals", service).start()?;
    let sender = SignalSender::connect("signals")?;
    let mut sent = 0;
    while sent < times {
        for _ in 0..BATCH.min(times - sent) {
            sender.signal(KIND, black_box(1))?;
            sent += 1;
        }
        while handled.load(Ordering::Relaxed) < sent {
            thread::yield_now();
        }
    }
    Ok(())
}
