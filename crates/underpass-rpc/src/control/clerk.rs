//! The clerk: one kernel thread a domain that hands out bindings, and hears when a peer rings,
//! passes a file or dies.
//!
//! It sleeps in the kernel all the time that nothing of that happens, and is on the way of no call.

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

/// How long a client may take to say hello, in ns.
const PATIENCE: u64 = 2_000_000_000;

/// This domain's clerk.
pub(crate) struct Clerk {
    poller: Poller,
    table: Mutex<Table>,
    /// It starts file threads, and is there before any file of a peer.
    spawner: Spawner,
    porter: Porter,
}

/// This domain's, started when first asked for.
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
    // Now: later a sandbox may stand around this domain.
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
    crate::dispatch::blocked_handlers::begin(clerk);
    Ok(CLERK.get_or_init(|| clerk))
}

/// Starts a kernel thread with a descriptor table of its own, as [`Spawner::spawn`] does. For other
/// rooms: the clerk's spawner is there before any file of a peer.
///
/// # Errors
/// As of [`Spawner::spawn`]; there is no clerk and none can be started.
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

    /// Watches something, under a key of its own; not if it is of an export that was withdrawn.
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

    /// Will hand out bindings of an interface, once its key is [opened](Self::admit): until then
    /// nobody who connects is accepted. Gives the key.
    pub(crate) fn export(&self, exported: Exported) -> io::Result<u64> {
        self.watch(Watched::Export(Arc::new(exported)), None)
    }

    /// Hands out bindings of an export from now on.
    pub(crate) fn admit(&self, key: u64) {
        if let Some(Watched::Export(exported)) = self.table().row(key) {
            self.poller.listen_again(&exported.listening, key);
        }
    }

    /// Removes the name; sends off who is about to have a binding of it.
    pub(crate) fn withdraw(&self, key: u64) {
        let mut table = self.table();
        let newcomer = |row: &Watched| matches!(row, Watched::Newcomer { .. }) && row.is_of(key);
        let gone = table.keys(|row_key, row| row_key == key || newcomer(row));
        let gone: Vec<_> = gone.into_iter().filter_map(|key| table.remove(key)).collect();
        drop(table);
        gone.iter().for_each(|row| self.ignore(row));
    }

    /// Nothing is heard of a row any more.
    fn ignore(&self, row: &Watched) {
        if let Some(file) = row.file() {
            self.poller.remove(file);
        }
    }

    /// Hears no more of a binding's socket, while a file thread receives from it, but its end.
    pub(crate) fn quieten(&self, socket: impl AsFd, key: u64) {
        self.poller.quieten(socket, key);
    }

    /// Hears of it again.
    pub(crate) fn listen_again(&self, socket: impl AsFd, key: u64) {
        self.poller.listen_again(socket, key);
    }

    /// Hears of a file thread, until that has ended.
    pub(crate) fn hear_exchange(&self, thread: &Arc<FileThread>) -> io::Result<u64> {
        self.watch(Watched::FileThread(thread.clone()), None)
    }

    /// The bindings of these exports.
    pub(crate) fn bindings(&self, exports: &[u64]) -> Vec<Arc<Family>> {
        self.table().families(exports)
    }

    /// Lets go of the bindings of an export, which are closed: all that is open of them.
    pub(crate) fn let_go(&self, export: u64) {
        let mut table = self.table();
        let gone = table.keys(|_, row| row.is_of(export));
        let gone: Vec<_> = gone.into_iter().filter_map(|key| table.remove(key)).collect();
        drop(table);
        gone.into_iter().for_each(|row| self.end(row));
    }

    /// A row is watched no more.
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

    /// Looks after the client's end of a binding from now on.
    pub(crate) fn bound(&self, end: &Arc<ClientEnd>) -> io::Result<u64> {
        let line: Arc<dyn Line> = end.clone();
        // Before the clerk can hear of its end.
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

    /// The client wants no more of a binding.
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

    /// Tells `of` when `process` has ended.
    pub(crate) fn mourn(&self, process: OwnedFd, of: Weak<Deathwatch>) -> io::Result<u64> {
        self.watch(Watched::Process { process, of }, None)
    }

    /// Gives a hint when `bell` rings, by a signal that asks this process to end.
    pub(crate) fn hear_end_signal(&self, bell: BorrowedFd<'static>) -> io::Result<()> {
        match self.watch(Watched::EndSignal(bell), None) {
            // Another server of this process has it heard.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.map(drop),
        }
    }

    /// Nobody wants to know that any more.
    pub(crate) fn unwatch(&self, key: u64) {
        let gone = self.table().remove(key);
        if let Some(row) = gone {
            self.end(row);
        }
    }

    /// Ends all connections, and listens for no more. Their sockets stay open.
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

    /// There is something to do earlier than it thinks.
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
                // It fails only if our own files are broken; then there is nothing to hear any
                // more.
                Err(_) => std::thread::park(),
            }
            self.tidy();
            recount(self, &mut blocked);
        }
    }

    /// Until when the clerk can sleep, in ns from now.
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

    /// Sends off newcomers that don't say hello, revokes bindings whose time has ended, and accepts
    /// again where files had run out.
    fn tidy(&self) {
        let now = clock::now_ns();
        alarm::ring(now);
        let is_late = |table: &Table| table.oldest_newcomer().is_some_and(|since| since + PATIENCE <= now);
        while self.send_off(|table| if is_late(table) { table.dismiss_oldest() } else { None }) {}
        let mut table = self.table();
        let mut paused = std::mem::take(&mut table.paused);
        paused.retain(|&(key, until)| {
            if let (true, Some(Watched::Export(exported))) = (until <= now, table.row(key)) {
                // If not even that works, the name stays silent until the domain has memory again.
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

    /// Something came for `key`.
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

    /// Something came for what is watched until then.
    fn attend_once(&self, row: Watched) {
        self.ignore(&row);
        match row {
            Watched::Newcomer { socket, export, .. } => self.greet(socket, export),
            Watched::Ticket { socket, by, seat } => self.redeem(&socket, by, seat),
            Watched::EndSignal(_) => hint(),
            Watched::Process { of, .. } => {
                // Its sockets tell the rest.
                if let Some(of) = of.upgrade() {
                    of.ended();
                }
            }
            Watched::Export(_) | Watched::Client { .. } | Watched::Server { .. } | Watched::FileThread(_) => {
            }
        }
    }

    /// Looks after the server's end of a channel from now on, whose calls are not served yet;
    /// `false` if that can't be.
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
            // Nobody would hear of the client's death: better no binding.
            end.close();
            end.mailbox().hang_up();
        } else if end.family().binding().expires.is_some() {
            // The clerk may sleep for longer than that.
            self.poller.ring();
        }
        enrolled
    }

    /// Serves a channel from now on that is enrolled.
    fn serve(&self, end: &Arc<ServerEnd>) {
        let line: Arc<dyn Line> = end.clone();
        counters::enlist(Arc::downgrade(end) as _);
        // It is in the table by now: either this sees that its user's channels are shut, or who
        // shuts them sees it.
        end.follow();
        let active = lines::add(line.clone());
        if end.is_closed() {
            // Meanwhile, and who closed it may have found no line to take away.
            forget(&line);
        } else if active {
            // Processors that sleep don't watch this line yet. They let go of others, too.
            LAG.store(false, Ordering::Relaxed);
            wake_all_idle();
        }
    }
}

/// No processor looks at `line` any more; those that sleep let go of it soon, or when the next line
/// comes.
fn forget(line: &Arc<dyn Line>) {
    // Relaxed, but for `WAKE_PENDING`: a rousing too many does no harm.
    if lines::remove(line) {
        LAG.store(true, Ordering::Relaxed);
        // SYNC with `WAKE_PENDING` swap in `wake_lagging`: who finds an alarm set has that one see its
        // `LAG`.
        if !WAKE_PENDING.swap(true, Ordering::AcqRel) {
            alarm::set(clock::deadline_ns(SOON), wake_lagging);
        }
    }
}

/// Processors that sleep may hold on to lines that were taken away.
static LAG: AtomicBool = AtomicBool::new(false);
/// They will be roused.
static WAKE_PENDING: AtomicBool = AtomicBool::new(false);
/// How long they may: where bindings come and go all the time, who comes rouses them anyway, and
/// who goes needs not.
const SOON: Duration = Duration::from_millis(10);

fn wake_lagging() {
    // SYNC with `WAKE_PENDING` swap in who took a line away.
    WAKE_PENDING.swap(false, Ordering::AcqRel);
    if LAG.swap(false, Ordering::Relaxed) {
        wake_all_idle();
    }
}
