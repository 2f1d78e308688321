//! The clerk: one kernel thread of each domain. It makes bindings for importers, and reads the
//! sockets: a peer rings, passes a file or dies.
//!
//! It sleeps in the kernel while none of that happens, and no call depends on it.

mod door;
mod porter;
mod sharing;
mod table;

pub(crate) use self::table::{Exported, Offer};

use self::porter::Porter;
use self::table::{Table, Watched};
use crate::binding::changes::hint;
use crate::binding::family::Family;
use crate::call::client::ClientEnd;
use crate::control::alarm;
use crate::control::deathwatch::Deathwatch;
use crate::counters;
use crate::dispatch::blocked::recount;
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
use underpass_threads::rouse_all;

/// How long a client may take to send its hello, in ns.
const PATIENCE: u64 = 2_000_000_000;

/// The clerk of this domain.
pub(crate) struct Clerk {
    poller: Poller,
    table: Mutex<Table>,
    /// Starts file threads. It exists before the first file of a peer comes.
    spawner: Spawner,
    porter: Porter,
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
        porter: Porter::default(),
    }));
    std::thread::Builder::new()
        .name("underpass-clerk".to_owned())
        .stack_size(256 * 1024)
        .spawn(|| clerk.run())?;
    crate::dispatch::blocked::begin(clerk);
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
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn porter(&self) -> &Porter {
        &self.porter
    }

    pub(crate) fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Watches `row` under a new key. Fails with `NotFound` if `row` belongs to an export that was
    /// withdrawn.
    fn watch(&self, row: Watched, of: Option<u64>) -> io::Result<u64> {
        let mut table = self.table();
        if of.is_some_and(|export| table.row(export).is_none()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let key = table.next_key();
        if let Some(file) = row.file() {
            match &row {
                Watched::Export(_) => self.poller.add_quietly(file, key)?,
                _ => self.poller.add(file, key)?,
            }
        }
        table.insert(key, row, clock::now_ns());
        Ok(key)
    }

    /// Adds an export and returns its key. Clients are not accepted before [`admit`](Self::admit)
    /// is called with this key.
    pub(crate) fn export(&self, exported: Exported) -> io::Result<u64> {
        self.watch(Watched::Export(Arc::new(exported)), None)
    }

    /// Accepts clients of an export from now on.
    pub(crate) fn admit(&self, key: u64) {
        if let Some(Watched::Export(exported)) = self.table().row(key) {
            self.poller.listen_again(&exported.listening, key);
        }
    }

    /// Removes the name, and closes the pending connections to it.
    pub(crate) fn withdraw(&self, key: u64) {
        let mut table = self.table();
        let newcomer = |row: &Watched| matches!(row, Watched::Newcomer { .. }) && row.is_of(key);
        let gone = table.keys(|row_key, row| row_key == key || newcomer(row));
        let gone: Vec<_> = gone.into_iter().filter_map(|key| table.remove(key)).collect();
        drop(table);
        gone.iter().for_each(|row| self.ignore(row));
    }

    /// Stops polling a row's descriptor.
    fn ignore(&self, row: &Watched) {
        if let Some(file) = row.file() {
            self.poller.remove(file);
        }
    }

    /// Polls a binding's socket only for its hang-up, while a file thread receives from it.
    pub(crate) fn quieten(&self, socket: impl AsFd, key: u64) {
        self.poller.quieten(socket, key);
    }

    /// Polls the socket for everything again.
    pub(crate) fn listen_again(&self, socket: impl AsFd, key: u64) {
        self.poller.listen_again(socket, key);
    }

    /// Watches a file thread until it has ended.
    pub(crate) fn hear_exchange(&self, thread: &Arc<FileThread>) -> io::Result<u64> {
        self.watch(Watched::FileThread(thread.clone()), None)
    }

    /// The bindings of these exports.
    pub(crate) fn bindings(&self, exports: &[u64]) -> Vec<Arc<Family>> {
        self.table().families(exports)
    }

    /// Drops everything that is open of an export's bindings, which are closed.
    pub(crate) fn let_go(&self, export: u64) {
        let mut table = self.table();
        let gone = table.keys(|_, row| row.is_of(export));
        let gone: Vec<_> = gone.into_iter().filter_map(|key| table.remove(key)).collect();
        drop(table);
        gone.into_iter().for_each(|row| self.end(row));
    }

    /// Stops watching a row.
    fn end(&self, row: Watched) {
        self.ignore(&row);
        if let Watched::Server { end, line, .. } = row {
            end.close();
            forget(&line);
            let further = if end.is_further() { Vec::new() } else { end.family().take_keys() };
            for row in further.into_iter().filter_map(|key| self.table().remove(key)) {
                self.end(row);
            }
        }
    }

    /// Watches the client's end of a binding from now on.
    pub(crate) fn bound(&self, end: &Arc<ClientEnd>) -> io::Result<u64> {
        let line: Arc<dyn Line> = end.clone();
        // Add the line before the clerk can learn of the binding's end.
        lines::add(line.clone());
        counters::enlist(Arc::downgrade(end) as _);
        let key = self
            .watch(Watched::Client { end: end.clone(), line: line.clone() }, None)
            .inspect_err(|_| forget(&line))?;
        if !end.is_further() {
            end.mailbox().control().watched_as(key);
        }
        Ok(key)
    }

    /// The client has dropped a binding.
    pub(crate) fn released(&self, key: u64) {
        let gone = self.table().remove(key);
        if let Some(Watched::Client { end, line }) = gone {
            if !end.is_further() {
                self.poller.remove(end.mailbox());
                end.mailbox().hang_up();
                end.end_further().into_iter().for_each(|key| self.released(key));
            }
            forget(&line);
        }
    }

    /// Calls `of` when `process` has ended.
    pub(crate) fn mourn(&self, process: OwnedFd, of: Weak<Deathwatch>) -> io::Result<u64> {
        self.watch(Watched::Process { process, of }, None)
    }

    /// Gives a hint when `bell` becomes readable: a signal asks this process to end.
    pub(crate) fn hear_end_signal(&self, bell: BorrowedFd<'static>) -> io::Result<()> {
        match self.watch(Watched::EndSignal(bell), None) {
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
            Watched::Export(exported) => {
                self.poller.remove(&exported.listening);
                exported.listening.hang_up();
            }
            Watched::Newcomer { socket, .. } | Watched::Ticket { socket, .. } => socket.hang_up(),
            Watched::Client { end, .. } => end.mailbox().control().hang_up_alone(),
            Watched::Server { end, .. } => end.mailbox().control().hang_up_alone(),
            Watched::FileThread(_) | Watched::EndSignal(_) | Watched::Process { .. } => {}
        });
    }

    /// Wakes the clerk, because there is something to do earlier than it computed.
    pub(crate) fn hurry(&self) {
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
                    Ready::File(key) => self.attend(*key),
                }),
                // This fails only if our own descriptors are broken. Then the clerk can watch
                // nothing any more.
                Err(_) => std::thread::park(),
            }
            self.tidy();
            recount(self, &mut blocked);
        }
    }

    /// How long the clerk may sleep, in ns.
    fn timeout(&self) -> Option<u64> {
        let table = self.table();
        let oldest = table.oldest_newcomer().map(|since| since + PATIENCE);
        let next = table
            .paused
            .iter()
            .map(|(_, until)| *until)
            .chain(oldest)
            .chain(table.next_expiry())
            .chain(alarm::next())
            .min();
        next.map(|next| next.saturating_sub(clock::now_ns()))
    }

    /// Runs due timers, closes pending connections that send no hello in time, revokes expired
    /// bindings, and accepts clients again after files had run out.
    fn tidy(&self) {
        let now = clock::now_ns();
        alarm::ring(now);
        let is_late = |table: &Table| table.oldest_newcomer().is_some_and(|since| since + PATIENCE <= now);
        while self.send_off(|table| if is_late(table) { table.dismiss_oldest() } else { None }) {}
        let mut table = self.table();
        let mut paused = std::mem::take(&mut table.paused);
        paused.retain(|&(key, until)| {
            if let (true, Some(Watched::Export(exported))) = (until <= now, table.row(key)) {
                // If this fails too, the name accepts nobody until the domain has memory again.
                let _ = self.poller.add(&exported.listening, key);
            }
            until > now
        });
        table.paused = paused;
        let expired = table.take_expired(now);
        drop(table);
        for family in expired {
            family.revoke();
        }
    }

    /// An event came for `key`.
    fn attend(&self, key: u64) {
        let mut table = self.table();
        match table.row(key) {
            Some(
                Watched::Newcomer { .. }
                | Watched::Ticket { .. }
                | Watched::EndSignal(_)
                | Watched::Process { .. },
            ) => {
                let row = table.remove(key);
                drop(table);
                if let Some(row) = row {
                    self.attend_once(row);
                }
            }
            Some(Watched::Export(exported)) => {
                let exported = exported.clone();
                drop(table);
                self.accept(key, &exported);
            }
            Some(Watched::FileThread(thread)) => {
                let thread = thread.clone();
                drop(table);
                if !thread.hear() {
                    file_thread::forget(&thread);
                    self.unwatch(key);
                }
            }
            Some(Watched::Client { end, .. }) => {
                let end = end.clone();
                drop(table);
                end.mailbox().control().attend();
                if end.is_closed() {
                    self.released(key);
                }
            }
            Some(Watched::Server { end, .. }) => {
                let end = end.clone();
                drop(table);
                end.mailbox().control().attend();
                let gone = if end.is_closed() { self.table().remove(key) } else { None };
                if let Some(row) = gone {
                    self.end(row);
                }
            }
            None => {}
        }
    }

    /// An event came for a row that is watched for one event only.
    fn attend_once(&self, row: Watched) {
        self.ignore(&row);
        match row {
            Watched::Newcomer { socket, export, .. } => self.greet(socket, export),
            Watched::Ticket { socket, by, seat } => self.redeem(&socket, by, seat),
            Watched::EndSignal(_) => hint(),
            Watched::Process { of, .. } => {
                // The sockets bring the rest.
                if let Some(of) = of.upgrade() {
                    of.ended();
                }
            }
            Watched::Export(_) | Watched::Client { .. } | Watched::Server { .. } | Watched::FileThread(_) => {
            }
        }
    }

    /// Watches the server's end of a channel from now on, but does not serve its calls yet. Returns
    /// `false` if that fails.
    fn enrol(&self, end: &Arc<ServerEnd>) -> bool {
        let line: Arc<dyn Line> = end.clone();
        let export = end.family().export();
        let row = Watched::Server { end: end.clone(), line, export };
        let key = if end.family().join(end) { self.watch(row, Some(export)).ok() } else { None };
        let enrolled = key.is_some();
        match key {
            Some(key) if end.is_further() => end.family().has_key(key),
            Some(key) => end.mailbox().control().watched_as(key),
            None => {}
        }
        if !enrolled {
            // Without the watch nobody would learn of the client's death, so there must be no
            // binding.
            end.close();
            end.mailbox().hang_up();
        } else if end.family().binding().expires.is_some() {
            // The binding expires, maybe earlier than the clerk wakes.
            self.poller.ring();
        }
        enrolled
    }

    /// Serves a channel that is enrolled.
    fn serve(&self, end: &Arc<ServerEnd>) {
        let line: Arc<dyn Line> = end.clone();
        counters::enlist(Arc::downgrade(end) as _);
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
            rouse_all();
        }
    }
}

/// Removes `line` from the lines that processors poll. Sleeping processors release it soon, or when
/// the next line is added.
fn forget(line: &Arc<dyn Line>) {
    // Relaxed, except `ROUSES`: one wake-up too many does no harm.
    if lines::remove(line) {
        LAG.store(true, Ordering::Relaxed);
        // SYNC with the `ROUSES` swap in `rouse_who_lags`: if this thread finds a timer set
        // already, that timer sees this thread's `LAG`.
        if !ROUSES.swap(true, Ordering::AcqRel) {
            alarm::set(clock::deadline_ns(SOON), rouse_who_lags);
        }
    }
}

/// Sleeping processors may still hold lines that were removed.
static LAG: AtomicBool = AtomicBool::new(false);
/// A timer is set that wakes them.
static ROUSES: AtomicBool = AtomicBool::new(false);
/// How long they may hold them. Where bindings come and go all the time, each new binding wakes the
/// processors anyway, and a removal need not.
const SOON: Duration = Duration::from_millis(10);

fn rouse_who_lags() {
    // SYNC with the `ROUSES` swap of the thread that removed a line.
    ROUSES.swap(false, Ordering::AcqRel);
    if LAG.swap(false, Ordering::Relaxed) {
        rouse_all();
    }
}
