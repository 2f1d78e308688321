//! The clerk: one kernel thread of each domain. It makes bindings for importers, and reads the
//! sockets: a peer rings, passes a file or dies.
//!
//! It sleeps in the kernel while none of that happens, and no call depends on it.

mod admission;
mod authorizer;
mod offer;
mod sharing;
mod table;

pub(crate) use self::offer::{Offer, share_a_version};
pub(crate) use self::table::Exported;

use self::authorizer::Authorizer;
use self::table::{WatchEntry, WatchTable};
use crate::binding::exit_events::notify;
use crate::binding::family::Family;
use crate::binding::row::{BindingRow, ServedRow};
use crate::call::client::ClientEnd;
use crate::control::peer_death::PeerDeathWatch;
use crate::control::timer;
use crate::control::watched_end::WatchedEnd;
use crate::counters;
use crate::dispatch::blocked_handlers::recount;
use crate::dispatch::server::ServerEnd;
use crate::payload::file_thread::{self, FileThread};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use underpass_os::foreign::Spawner;
use underpass_os::{Poller, Ready, clock, fork};
use underpass_processor::{Line, lines};
use underpass_threads::wake_all_idle;

/// How long a client may take to send its hello, in ns.
const PATIENCE: u64 = 2_000_000_000;

/// The clerk of this domain.
pub(crate) struct Clerk {
    poller: Poller,
    table: Mutex<WatchTable>,
    /// Starts file threads. It exists before the first file of a peer comes.
    spawner: Spawner,
    authorizer: Authorizer,
}

/// The clerk of this domain. The first call starts it.
pub(crate) fn clerk() -> io::Result<&'static Clerk> {
    fork::check()?;
    static CLERK: OnceLock<&'static Clerk> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(clerk) = CLERK.get() {
        return Ok(clerk);
    }
    crate::binding::forked::watch()?;
    underpass_wire::watch_stacks(underpass_threads::stack_bounds);
    // Read it now: the domain may enter a sandbox later.
    clock::ahead_ns();
    let clerk: &'static Clerk = Box::leak(Box::new(Clerk {
        poller: Poller::new()?,
        table: Mutex::default(),
        spawner: Spawner::start()?,
        authorizer: Authorizer::default(),
    }));
    std::thread::Builder::new()
        .name("underpass-clerk".to_owned())
        .stack_size(256 * 1024)
        .spawn(|| clerk.run())?;
    crate::dispatch::blocked_handlers::begin(clerk);
    Ok(CLERK.get_or_init(|| clerk))
}

/// Starts a kernel thread with a descriptor table of its own, as [`Spawner::spawn`] does. For other
/// crates: the clerk's spawner exists before the first file of a peer comes.
///
/// # Errors
/// The same as of [`Spawner::spawn`]. Also if there is no clerk and none can be started.
#[doc(hidden)]
pub fn spawn_apart(
    name: &'static str,
    exchange: OwnedFd,
    run: impl FnOnce(underpass_os::foreign::Table) + Send + 'static,
) -> io::Result<()> {
    clerk()?.spawner().spawn(name, exchange, run)
}

impl Clerk {
    fn table(&self) -> MutexGuard<'_, WatchTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    pub(crate) fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Watches `row` under a new key. Fails with `NotFound` if `row` belongs to an export that was
    /// withdrawn.
    fn watch(&self, row: WatchEntry, of: Option<u64>) -> io::Result<u64> {
        let mut table = self.table();
        if of.is_some_and(|export| table.row(export).is_none()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let key = table.next_key();
        if let Some(file) = row.file() {
            match &row {
                WatchEntry::Export(_) => self.poller.add_quietly(file, key)?,
                _ => self.poller.add(file, key)?,
            }
        }
        table.insert(key, row, clock::now_ns());
        Ok(key)
    }

    /// Adds an export and returns its key. Clients are not accepted before [`admit`](Self::admit)
    /// is called with this key.
    pub(crate) fn export(&self, exported: Exported) -> io::Result<u64> {
        self.watch(WatchEntry::Export(Arc::new(exported)), None)
    }

    /// Accepts clients of an export from now on.
    pub(crate) fn admit(&self, key: u64) {
        if let Some(WatchEntry::Export(exported)) = self.table().row(key) {
            self.poller.listen_again(&exported.listening, key);
        }
    }

    /// Removes the name, and closes the pending connections to it.
    pub(crate) fn withdraw(&self, key: u64) {
        let mut table = self.table();
        let pending =
            |row: &WatchEntry| matches!(row, WatchEntry::PendingConnection { .. }) && row.is_of(key);
        let gone = table.keys(|row_key, row| row_key == key || pending(row));
        let gone: Vec<_> = gone.into_iter().filter_map(|key| table.remove(key)).collect();
        drop(table);
        gone.iter().for_each(|row| self.stop_polling(row));
    }

    /// Stops polling a row's descriptor.
    fn stop_polling(&self, row: &WatchEntry) {
        if let Some(file) = row.file() {
            self.poller.remove(file);
        }
    }

    /// Polls a control socket only for its hang-up, while a file thread receives from it.
    pub(crate) fn quieten(&self, socket: impl AsFd, key: u64) {
        self.poller.quieten(socket, key);
    }

    /// Polls the socket for everything again.
    pub(crate) fn listen_again(&self, socket: impl AsFd, key: u64) {
        self.poller.listen_again(socket, key);
    }

    /// Watches a file thread until it has ended.
    pub(crate) fn hear_exchange(&self, thread: &Arc<FileThread>) -> io::Result<u64> {
        self.watch(WatchEntry::FileThread(thread.clone()), None)
    }

    /// The bindings of these exports.
    pub(crate) fn bindings(&self, exports: &[u64]) -> Vec<Arc<BindingRow>> {
        self.table().bindings(exports)
    }

    /// The binding has ended before it has expired.
    pub(crate) fn forget_expiry(&self, row: &BindingRow) {
        self.table().forget_expiry(row);
    }

    /// Drops everything that is open of an export's bindings, which are closed.
    pub(crate) fn let_go(&self, export: u64) {
        let mut table = self.table();
        let mut gone = table.keys(|_, row| row.is_of(export));
        gone.extend(table.closed_connections());
        let gone: Vec<_> = gone.into_iter().filter_map(|key| table.remove(key)).collect();
        drop(table);
        gone.into_iter().for_each(|row| self.end(row));
    }

    /// Stops watching a row.
    fn end(&self, row: WatchEntry) {
        self.stop_polling(&row);
        if let WatchEntry::Channel { end, line } = row {
            let further = end.is_unwatched();
            forget(&line);
            further.into_iter().for_each(|key| self.unwatch(key));
        }
    }

    /// Watches the client's end of a binding from now on.
    pub(crate) fn bound(&self, end: &Arc<ClientEnd>) -> io::Result<u64> {
        let line: Arc<dyn Line> = end.clone();
        // Add the line before the clerk can learn of the binding's end.
        lines::add(line.clone());
        counters::add_end(Arc::downgrade(end) as _);
        let key = self
            .watch(WatchEntry::Channel { end: end.clone(), line: line.clone() }, None)
            .inspect_err(|_| forget(&line))?;
        if WatchedEnd::has_socket(&**end) {
            end.mailbox().control().watched_as(key);
        }
        Ok(key)
    }

    /// Calls `of` when `process` has ended.
    pub(crate) fn watch_process(&self, process: OwnedFd, of: Weak<PeerDeathWatch>) -> io::Result<u64> {
        self.watch(WatchEntry::Process { process, of }, None)
    }

    /// Gives a hint when `bell` becomes readable: a signal asks this process to end.
    pub(crate) fn hear_end_signal(&self, bell: BorrowedFd<'static>) -> io::Result<()> {
        match self.watch(WatchEntry::EndSignal(bell), None) {
            // Another server of this process watches it already.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.map(drop),
        }
    }

    /// Stops watching under this key.
    pub(crate) fn unwatch(&self, key: u64) {
        let gone = self.table().remove(key);
        if let Some(row) = gone {
            self.end(row);
        }
    }

    /// Hangs up all connections, and accepts no more. The sockets stay open.
    pub(crate) fn hang_up(&self) {
        self.table().rows().for_each(|row| match row {
            WatchEntry::Export(exported) => {
                self.poller.remove(&exported.listening);
                exported.listening.hang_up();
            }
            WatchEntry::PendingConnection { socket, .. } | WatchEntry::Ticket { socket, .. } => {
                socket.hang_up()
            }
            WatchEntry::Channel { end, .. } => end.mailbox().control().hang_up_alone(),
            WatchEntry::FileThread(_) | WatchEntry::EndSignal(_) | WatchEntry::Process { .. } => {}
        });
    }

    /// Wakes the clerk, because there is something to do earlier than it computed.
    pub(crate) fn wake(&self) {
        self.poller.ring();
    }

    /// The server's ends of all channels.
    pub(crate) fn served(&self) -> Vec<Arc<ServerEnd>> {
        self.table().served()
    }

    fn run(&self) -> ! {
        let mut blocked = Vec::new();
        loop {
            match self.poller.wait(self.timeout()) {
                Ok(ready) => ready.iter().for_each(|ready| match ready {
                    Ready::Bell => {}
                    Ready::File(key) => self.handle_event(*key),
                }),
                // This fails only if our own descriptors are broken. Then the clerk can watch
                // nothing any more.
                Err(_) => std::thread::park(),
            }
            self.do_due_work();
            recount(self, &mut blocked);
        }
    }

    /// How long the clerk may sleep, in ns.
    fn timeout(&self) -> Option<u64> {
        let table = self.table();
        let oldest = table.oldest_pending().map(|since| since + PATIENCE);
        let next = table
            .paused
            .iter()
            .map(|(_, until)| *until)
            .chain(oldest)
            .chain(table.next_expiry())
            .chain(timer::next())
            .min();
        next.map(|next| next.saturating_sub(clock::now_ns()))
    }

    /// Runs due timers, closes pending connections that send no hello in time, revokes expired
    /// bindings, and accepts clients again after files had run out.
    fn do_due_work(&self) {
        let now = clock::now_ns();
        timer::run_due(now);
        let is_late =
            |table: &WatchTable| table.oldest_pending().is_some_and(|since| since + PATIENCE <= now);
        while self.close_pending(|table| if is_late(table) { table.take_oldest_pending() } else { None }) {}
        let mut table = self.table();
        let mut paused = std::mem::take(&mut table.paused);
        paused.retain(|&(key, until)| {
            if let (true, Some(WatchEntry::Export(exported))) = (until <= now, table.row(key)) {
                // If this fails too, the name accepts nobody until the domain has memory again.
                let _ = self.poller.add(&exported.listening, key);
            }
            until > now
        });
        table.paused = paused;
        let expired = table.take_expired(now);
        drop(table);
        for row in expired {
            row.revoke();
        }
    }

    /// An event came for `key`.
    fn handle_event(&self, key: u64) {
        let mut table = self.table();
        match table.row(key) {
            Some(
                WatchEntry::PendingConnection { .. }
                | WatchEntry::Ticket { .. }
                | WatchEntry::EndSignal(_)
                | WatchEntry::Process { .. },
            ) => {
                let row = table.remove(key);
                drop(table);
                if let Some(row) = row {
                    self.handle_last_event(row);
                }
            }
            Some(WatchEntry::Export(exported)) => {
                let exported = exported.clone();
                drop(table);
                self.accept(key, &exported);
            }
            Some(WatchEntry::FileThread(thread)) => {
                let thread = thread.clone();
                drop(table);
                if !thread.hear() {
                    file_thread::forget(&thread);
                    self.unwatch(key);
                }
            }
            Some(WatchEntry::Channel { end, .. }) => {
                let end = end.clone();
                drop(table);
                end.mailbox().control().attend();
                if end.is_closed() {
                    self.unwatch(key);
                }
            }
            None => {}
        }
    }

    /// An event came for a row that is watched for one event only.
    fn handle_last_event(&self, row: WatchEntry) {
        self.stop_polling(&row);
        match row {
            WatchEntry::PendingConnection { socket, export, .. } => self.read_hello(socket, export),
            WatchEntry::Ticket { socket, by, quota } => self.redeem(&socket, by, quota),
            WatchEntry::EndSignal(_) => notify(),
            WatchEntry::Process { of, .. } => {
                // The sockets bring the rest.
                if let Some(of) = of.upgrade() {
                    of.ended();
                }
            }
            WatchEntry::Export(_) | WatchEntry::Channel { .. } | WatchEntry::FileThread(_) => {}
        }
    }

    /// Opens a row of the connection `family` for a binding of an export that was not withdrawn.
    /// Returns `false` if that fails.
    fn add_row(&self, family: &Family, served: ServedRow) -> bool {
        let row = served.binding.clone();
        // Under one lock, so that a withdrawal finds the row.
        let mut table = self.table();
        let added = table.row(row.export()).is_some() && family.add_row(served);
        if added {
            table.expires(&row);
        }
        drop(table);
        if added && row.binding().expires.is_some() {
            // The binding expires, maybe earlier than the clerk wakes.
            self.poller.ring();
        }
        added
    }

    /// The row of a value expires by itself.
    pub(crate) fn expires(&self, row: &Arc<BindingRow>) {
        self.table().expires(row);
        self.poller.ring();
    }

    /// The connection with this secret.
    fn connection(&self, secret: u128) -> Option<Arc<Family>> {
        self.table().connection(secret)
    }

    /// Watches the server's end of a channel from now on, but does not serve its calls yet. Returns
    /// `false` if that fails.
    fn enrol(&self, end: &Arc<ServerEnd>) -> bool {
        let line: Arc<dyn Line> = end.clone();
        let row = WatchEntry::Channel { end: end.clone(), line };
        let key = if end.family().join(end) { self.watch(row, None).ok() } else { None };
        let enrolled = key.is_some();
        match key {
            Some(key) if !end.has_socket() => end.family().add_key(key),
            Some(key) => end.mailbox().control().watched_as(key),
            None => {}
        }
        if !enrolled {
            // Without the watch nobody would learn of the client's death, so there must be no
            // binding.
            end.close();
            end.mailbox().hang_up();
        }
        enrolled
    }

    /// Watches and serves the reverse channel of a connection, of which this domain is the client.
    /// Returns `false` if that fails.
    pub(crate) fn serve_reverse(&self, end: &Arc<ServerEnd>) -> bool {
        let enrolled = self.enrol(end);
        if enrolled {
            self.serve(end);
        }
        enrolled
    }

    /// Serves a channel that is enrolled.
    fn serve(&self, end: &Arc<ServerEnd>) {
        let line: Arc<dyn Line> = end.clone();
        counters::add_end(Arc::downgrade(end) as _);
        // The channel is in the table by now. So if its user's channels are being shut, either this
        // call sees it, or the thread that shuts them finds the channel in the table.
        end.follow();
        let active = lines::add(line.clone());
        if end.is_closed() {
            // The channel was closed in the meantime, and the closing thread may have found no line
            // to remove.
            forget(&line);
        } else if active {
            // Sleeping processors don't watch this line yet. Waking them also makes them release
            // removed lines.
            LAG.store(false, Ordering::Relaxed);
            wake_all_idle();
        }
    }
}

/// Removes `line` from the lines that processors poll. Sleeping processors release it soon, or when
/// the next line is added.
fn forget(line: &Arc<dyn Line>) {
    // Also if it was dormant: a processor that sleeps since before it was put away still has it.
    lines::remove(line);
    // Relaxed, except `WAKE_PENDING`: one wake-up too many does no harm.
    LAG.store(true, Ordering::Relaxed);
    // SYNC with the `WAKE_PENDING` swap in `wake_laggards`: if this thread finds a timer set
    // already, that timer sees this thread's `LAG`.
    if !WAKE_PENDING.swap(true, Ordering::AcqRel) {
        timer::set(clock::deadline_ns(SOON), wake_laggards);
    }
}

/// Sleeping processors may still hold lines that were removed.
static LAG: AtomicBool = AtomicBool::new(false);
/// A timer is set that wakes them.
static WAKE_PENDING: AtomicBool = AtomicBool::new(false);
/// How long they may hold them. Where bindings come and go all the time, each new binding wakes the
/// processors anyway, and a removal need not.
const SOON: Duration = Duration::from_millis(10);

fn wake_laggards() {
    // SYNC with the `WAKE_PENDING` swap of the thread that removed a line.
    WAKE_PENDING.swap(false, Ordering::AcqRel);
    if LAG.swap(false, Ordering::Relaxed) {
        wake_all_idle();
    }
}
