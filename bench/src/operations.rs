//! The cheapest operations, for whatever repeats them to count their instructions.

pub(crate) use crate::threads::cases::ours::{fork_join, lock};
pub(crate) use crate::threads::cases::yields;

use crate::BenchError;
use std::hint::black_box;
use std::sync::{Arc, OnceLock};
use underpass::port::signal::{SignalHandlers, SignalSender};
use underpass::port::{PortOptions, PortSender};
use underpass::{Server, sync::mpmc};

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

/// Sends task signals to this process. The handler of each sends the next one, and the receiver
/// finds it when it looks again. So the receiver waits only for the first signal, no other rings
/// for it, and no thread spins.
pub(crate) fn signals(times: u64) -> Result<(), BenchError> {
    let right: Arc<OnceLock<SignalSender>> = Arc::default();
    let (over, ended) = mpmc::bounded(1);
    let next = Arc::clone(&right);
    // The datum is the number of signals that are still to come.
    let handlers = SignalHandlers::new().on(KIND, move |signal| {
        let sent = match signal.datum {
            0 => Ok(()),
            left => next.wait().signal(KIND, black_box(left - 1)).map(drop),
        };
        if signal.datum == 0 || sent.is_err() {
            // Nothing else is in the channel.
            let _ = over.try_send(sent);
        }
    });
    let (service, signals) = handlers.start();
    let _running = Server::new().export("signals", service).start()?;
    let sender = SignalSender::connect("signals")?;
    let _ = right.set(sender.clone());
    sender.signal(KIND, times.saturating_sub(1))?;
    ended.recv().map_err(|_| "the handlers have stopped")??;
    let (handled, silent) = (signals.handled(), sender.ways().silent);
    // The first signal rings, and the last handler may not have returned yet.
    if silent + 1 < times || handled + 1 < times {
        return Err(format!("of {times} signals {handled} were handled, and {silent} sent silently").into());
    }
    Ok(())
}
