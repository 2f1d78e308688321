//! Where kernel threads with descriptor tables of their own come from.

use super::{Table, plain_pair};
use crate::fork::Vital;
use crate::sockets::socket;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

/// A kernel thread that starts others, each with a [`Table`] of its own.
///
/// A thread gets its table by copying one and closing all of the copy. Each of these closings may
/// wait for a peer, if the peer's files are among them. So they are copied from a table in which no
/// peer's file ever is: that of the spawner, which has to be started before the process has any.
#[derive(Debug)]
pub struct Spawner {
    way: Vital,
    /// Held from the sending of an exchange to that of its order: they are taken in pairs.
    orders: Mutex<Sender<Order>>,
}

/// A kernel thread to be started.
struct Order {
    name: &'static str,
    run: Box<dyn FnOnce(Table) + Send>,
    told: SyncSender<io::Result<()>>,
}

impl Spawner {
    /// Starts one.
    ///
    /// # Errors
    /// No kernel thread; too many open files; no memory.
    pub fn start() -> io::Result<Self> {
        let (way, theirs) = plain_pair()?;
        let (orders, queue) = channel();
        start_with(theirs.as_fd(), "underpass-spawn", move |table| serve(&table, &queue))?;
        Ok(Self { way: Vital::new(way), orders: Mutex::new(orders) })
    }

    /// Starts a kernel thread with a table in which nothing is but `exchange`. The process has no
    /// copy of that then.
    ///
    /// Before Linux 5.9, and where `close_range` is refused, the thread shares the table of the
    /// process: then a lost thread keeps all descriptors open when the process is killed.
    ///
    /// # Errors
    /// No kernel thread; no memory; too many files are under way (`ETOOMANYREFS`).
    pub fn spawn(
        &self,
        name: &'static str,
        exchange: OwnedFd,
        run: impl FnOnce(Table) + Send + 'static,
    ) -> io::Result<()> {
        let (told, tells) = sync_channel(1);
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        socket::send(&self.way, &[0], &[exchange.as_fd()])?;
        // The thread lives as long as this sender.
        let _ = orders.send(Order { name, run: Box::new(run), told });
        drop(orders);
        tells.recv().unwrap_or_else(|_| Err(io::Error::other("the spawner has ended")))
    }
}

/// What the spawner's thread does.
fn serve(table: &Table, queue: &Receiver<Order>) {
    for Order { name, run, told } in queue {
        let started = match table.take() {
            Ok(Some(exchange)) => start_with(table.reach(&exchange), name, run),
            Ok(None) => return,
            Err(e) => Err(e),
        };
        let _ = told.send(started);
    }
}

/// Starts a kernel thread that shares the caller's table, and then has one of its own, with a copy
/// of `exchange`.
fn start_with(
    exchange: BorrowedFd<'_>,
    name: &'static str,
    run: impl FnOnce(Table) + Send + 'static,
) -> io::Result<()> {
    let (has_table, tells) = sync_channel(1);
    let number = exchange.as_raw_fd();
    let thread = move || {
        // SAFETY: the caller waits until it is told, so `exchange` is open for as long as this is
        // used.
        let table = Table::of_this_thread(unsafe { BorrowedFd::borrow_raw(number) });
        match table {
            Ok(table) => {
                let _ = has_table.send(Ok(()));
                run(table);
            }
            Err(e) => _ = has_table.send(Err(e)),
        }
    };
    std::thread::Builder::new().name(name.to_owned()).stack_size(64 * 1024).spawn(thread)?;
    tells.recv().unwrap_or_else(|_| Err(io::Error::other("the thread has ended")))
}
