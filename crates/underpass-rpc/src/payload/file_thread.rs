//! The kernel thread that receives, keeps and closes the files that one user's domains pass.
//!
//! A peer can hold the kernel locks of a file that it has passed for ever, so whoever closes or
//! reads such a file may be lost (decision 0056). The clerk and the workers must not be. So they
//! leave each message that brings files in its socket, and have the *file thread* of the sender's
//! user receive it. A file thread has a descriptor table of its own: if its closer is lost, SIGKILL
//! still closes all that the process has in common with other users. The table is copied from that
//! of the spawner, in which no peer's file ever is.
//!
//! *The exchange.* A pair of sockets connects the two tables. The process sends a copy of a socket
//! along with the job that needs it. The file thread sends back what the process may have: memory,
//! and transit sockets with any other file. The jobs and their outcomes themselves lie in memory, in the
//! same order; one lock covers the queue and the sending.
//!
//! *Closing.* What may wait for a peer is done by a second kernel thread, the *closer*, which
//! shares the file thread's table. So one of a user's files that is slow to close does not hold up
//! the user's other domains: the file thread itself waits for nothing.
//!
//! *Its life.* It is started for the first job of its user, and ends when it has kept nothing and
//! heard nothing for a while. The clerk hears that by the end of the exchange.
//!
//! What the thread does with its files is in `keeper.rs`.

mod keeper;

use self::keeper::FileKeeper;
use crate::control::clerk::clerk;
use crate::control::timer;
use crate::payload::passed_file::{Counted, PassedFile};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use underpass_os::foreign::Table;
use underpass_os::{Credentials, Socket, clock, fork};
use underpass_threads::critical;

/// How long a file thread waits for its next job before it ends.
const LINGER: Duration = Duration::from_millis(20);
/// How long it waits at once, at the most, while its closer is busy, of whose end nobody tells it.
const HELD_UP: Duration = Duration::from_secs(1);
/// After what time it is tried again to send a descriptor, if too many are under way in all.
const AGAIN: Duration = Duration::from_millis(20);
/// Descriptors that may be under way to a file thread at once. A socket's buffer has room for more.
const UNDER_WAY: usize = 64;
/// A user who leaves so many jobs undone gets no further bindings: several bindings' worth of
/// files.
const BEHIND: usize = 1024;
/// What the clerk hears of one file thread in one go.
const TURN: usize = 64;

/// A message as the process gets it.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cut: bool,
    pub(crate) lost_files: bool,
    pub(crate) sender: Option<Credentials>,
    pub(crate) files: Vec<PassedFile>,
}

/// What the clerk does with a message that was received.
type Then = Box<dyn FnOnce(io::Result<Message>) + Send>;

/// What a file thread is to do.
enum Job {
    /// To receive the next message of the socket that comes over the exchange.
    Receive { room: usize, then: Then },
    /// To close the transit socket that it has kept under this number.
    Close { number: u64, was: Was },
    /// To close what comes over the exchange.
    CloseThis { counted: Counted },
    /// To do what may wait for a peer, and needs no descriptor.
    Run(Box<dyn FnOnce() + Send>),
}

/// How a transit socket is closed.
#[derive(Debug)]
pub(crate) enum Was {
    /// Its file was taken out: nobody can hold it up.
    Opened,
    /// Its file is closed with it, and counts until then.
    Unopened(Option<Counted>),
}

/// How a file that was kept goes to the process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// It is memory, and was not kept.
    Memory,
    /// A transit socket, of which this is the number.
    Sealed(u64),
}

/// Of a file that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) kind: Kind,
    /// It is an end of a connection such as a domain passes to be sent to.
    pub(crate) is_connection: bool,
    pub(crate) may_keep_others: bool,
}

/// What the thread tells the clerk, one thing with each message over the exchange.
enum Outcome {
    /// There is room for one more descriptor.
    HasRoom,
    /// It has received a message, or found none. The message's files come along.
    Received { message: io::Result<Message>, files: Vec<Described>, then: Then },
}

#[derive(Default)]
struct Queue {
    /// Those whose descriptors are under way, or that need none.
    jobs: VecDeque<Job>,
    /// Descriptors under way to the thread.
    under_way: usize,
    /// Those that wait for room on the exchange.
    unsent: VecDeque<(Job, OwnedFd)>,
    outcomes: VecDeque<Outcome>,
    /// What could not be sent is tried again by a timer.
    tries_again: bool,
    /// It takes no more jobs.
    ended: bool,
}

/// The file thread of one user, as the process has it. No share of it goes to the thread, which
/// could not close the process's end of the exchange.
pub(crate) struct FileThread {
    exchange: Socket,
    shared: Arc<Shared>,
}

/// What the process and the thread have in common.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    jobs_came: Condvar,
    /// What the closer has to do.
    unclosed: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Threads {
    by_user: HashMap<u32, Arc<FileThread>>,
    /// What no thread could be started for: it is closed when one can.
    left: Vec<(u32, Job, OwnedFd)>,
}

/// The file threads that there are.
static THREADS: Mutex<Option<Threads>> = Mutex::new(None);

/// Whoever holds it keeps its processor, since the clerk waits for it.
fn threads() -> MutexGuard<'static, Option<Threads>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether so much of what `user`'s domains have passed waits to be received or closed that the
/// user has to wait.
pub(crate) fn is_behind(user: u32) -> bool {
    if fork::check().is_err() {
        return false;
    }
    let _held = critical();
    threads().as_ref().and_then(|threads| threads.by_user.get(&user)).is_some_and(|thread| {
        let queue = thread.queue();
        // Relaxed: a count.
        queue.jobs.len() + queue.unsent.len() + thread.shared.unclosed.load(Ordering::Relaxed) > BEHIND
    })
}

/// The file thread has ended.
pub(crate) fn forget(thread: &Arc<FileThread>) {
    let _held = critical();
    if let Some(threads) = threads().as_mut() {
        threads.by_user.retain(|_, other| !Arc::ptr_eq(thread, other));
    }
}

/// Has `user`'s file thread receive the next message of `socket`, of which `room` bytes are kept.
/// The clerk does `then` with it.
///
/// # Errors
/// No kernel thread, or no file; `then` is dropped.
pub(crate) fn receive(
    user: u32,
    socket: impl AsFd,
    room: usize,
    then: impl FnOnce(io::Result<Message>) + Send + 'static,
) -> io::Result<()> {
    fork::check()?;
    let job = Job::Receive { room, then: Box::new(then) };
    let held = critical();
    let mut threads = threads();
    let pushed = match threads.get_or_insert_default().of(user) {
        Ok(thread) => thread.push_with(job, socket.as_fd()),
        Err(e) => Err((e, job)),
    };
    // To drop the job may want the threads.
    drop(threads);
    drop(held);
    pushed.map_err(|(e, _)| e)
}

/// Has `user`'s file thread close a socket whose queue may hold files, or that others can reach.
pub(crate) fn close(user: u32, file: OwnedFd, counted: Counted) {
    // In a child that was forked off it is a copy, and there are no other kernel threads.
    if fork::check().is_err() {
        return;
    }
    let _held = critical();
    let mut threads = threads();
    let threads = threads.get_or_insert_default();
    let job = Job::CloseThis { counted };
    match threads.of(user) {
        Ok(thread) => thread.push_file(job, file),
        Err(_) => threads.leave(user, job, file),
    }
}

/// Tries again to start file threads for what was left.
fn close_what_is_left() {
    let _held = critical();
    let mut threads = threads();
    let Some(threads) = threads.as_mut() else { return };
    for (user, job, file) in mem::take(&mut threads.left) {
        match threads.of(user) {
            Ok(thread) => thread.push_file(job, file),
            Err(_) => threads.leave(user, job, file),
        }
    }
}

/// Has `user`'s file thread do what may wait for a peer. Without a kernel thread for it, it is not
/// done.
pub(crate) fn run(user: u32, act: impl FnOnce() + Send + 'static) {
    if fork::check().is_err() {
        return;
    }
    let _held = critical();
    if let Ok(thread) = threads().get_or_insert_default().of(user) {
        thread.push(Job::Run(Box::new(act)));
    }
}

impl Threads {
    /// The file thread of `user`, which is started if there is none.
    fn of(&mut self, user: u32) -> io::Result<Arc<FileThread>> {
        if let Some(thread) = self.by_user.get(&user)
            && !thread.queue().ended
        {
            return Ok(thread.clone());
        }
        let thread = FileThread::start()?;
        self.by_user.insert(user, thread.clone());
        Ok(thread)
    }

    /// Keeps what there is no file thread for. It is tried again by a timer.
    #[cold]
    fn leave(&mut self, user: u32, job: Job, file: OwnedFd) {
        if self.left.is_empty() {
            timer::set(clock::deadline_ns(AGAIN), close_what_is_left);
        }
        self.left.push((user, job, file));
    }
}

impl FileThread {
    fn start() -> io::Result<Arc<Self>> {
        let (exchange, theirs) = Socket::pair()?;
        let shared = Arc::new(Shared::default());
        let thread = Arc::new(Self { exchange, shared: shared.clone() });
        let clerk = clerk()?;
        let key = clerk.hear_exchange(&thread)?;
        let begun = clerk.spawner().spawn("underpass-files", theirs, move |table| shared.run(table));
        begun.inspect_err(|_| clerk.unwatch(key))?;
        Ok(thread)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.shared.queue()
    }

    pub(crate) fn exchange(&self) -> &Socket {
        &self.exchange
    }

    fn push(&self, job: Job) {
        self.queue().jobs.push_back(job);
        self.shared.jobs_came.notify_one();
    }

    /// A job for a copy of `file`.
    fn push_with(self: &Arc<Self>, job: Job, file: BorrowedFd<'_>) -> Result<(), (io::Error, Job)> {
        let mut queue = self.queue();
        if self.send_now(&mut queue, file) {
            queue.jobs.push_back(job);
        } else if queue.unsent.len() < BEHIND {
            match file.try_clone_to_owned() {
                Ok(copy) => queue.unsent.push_back((job, copy)),
                Err(e) => return Err((e, job)),
            }
            self.send(&mut queue);
        } else {
            return Err((io::ErrorKind::WouldBlock.into(), job));
        }
        drop(queue);
        self.shared.jobs_came.notify_one();
        Ok(())
    }

    /// A job for `file`, of which the process has no copy then.
    fn push_file(self: &Arc<Self>, job: Job, file: OwnedFd) {
        self.queue().unsent.push_back((job, file));
        self.send(&mut self.queue());
        self.shared.jobs_came.notify_one();
    }

    /// Sends `file`, unless there is no room for it, or others wait for some.
    fn send_now(&self, queue: &mut Queue, file: BorrowedFd<'_>) -> bool {
        let first = queue.unsent.is_empty() && queue.under_way < UNDER_WAY;
        let sent = first && self.exchange.send(&[0], &[file]).is_ok();
        queue.under_way += usize::from(sent);
        sent
    }

    /// Sends what there is room for. The thread says when there is more.
    fn send(self: &Arc<Self>, queue: &mut Queue) {
        while queue.under_way < UNDER_WAY
            && let Some((job, file)) = queue.unsent.pop_front()
        {
            if self.exchange.send(&[0], &[file.as_fd()]).is_err() {
                queue.unsent.push_front((job, file));
                return self.try_again(queue);
            }
            queue.under_way += 1;
            queue.jobs.push_back(job);
        }
    }

    /// Too many files are under way in all (`ETOOMANYREFS`).
    #[cold]
    fn try_again(self: &Arc<Self>, queue: &mut Queue) {
        if !mem::replace(&mut queue.tries_again, true) {
            let own = self.clone();
            timer::set(clock::deadline_ns(AGAIN), move || {
                let _held = critical();
                let mut queue = own.queue();
                queue.tries_again = false;
                own.send(&mut queue);
                drop(queue);
                own.shared.jobs_came.notify_one();
            });
        }
    }

    /// Hears what the thread has done, on the clerk's thread, or a part of it; `false` if it has
    /// ended.
    pub(crate) fn hear(self: &Arc<Self>) -> bool {
        for _ in 0..TURN {
            let received = match self.exchange.receive_any(&mut [0; 1]) {
                Ok(received) if received.len > 0 => received,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                _ => return false,
            };
            let held = critical();
            let mut queue = self.queue();
            let outcome = queue.outcomes.pop_front();
            self.send(&mut queue);
            drop(queue);
            drop(held);
            self.shared.jobs_came.notify_one();
            if let Some(Outcome::Received { message, files, then }) = outcome {
                then(message.map(|message| self.assemble(message, files, received.files)));
            }
        }
        // There may be more, of which the clerk is told again.
        true
    }

    /// Puts the descriptors into a message, each as what it is.
    fn assemble(self: &Arc<Self>, message: Message, of: Vec<Described>, came: Vec<OwnedFd>) -> Message {
        let lost_files = message.lost_files || came.len() < of.len();
        let mut came = came.into_iter();
        let files = of.into_iter().filter_map(|file| PassedFile::new(came.next(), file, self)).collect();
        Message { lost_files, files, ..message }
    }

    /// The process needs the transit socket that was kept under `number` no more.
    pub(crate) fn close_kept(&self, number: u64, was: Was) {
        // A child that was forked off has none of it.
        if fork::check().is_ok() {
            let _held = critical();
            self.push(Job::Close { number, was });
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does.
    fn run(&self, table: Table) {
        let mut keeper = FileKeeper::new(self, table);
        while let Some(job) = self.next(&mut keeper) {
            keeper.work(job);
        }
    }

    /// The next job for `keeper`; nothing once the thread is to end.
    fn next(&self, keeper: &mut FileKeeper<'_>) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            let Some(span) = keeper.patience() else {
                queue = self.jobs_came.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (again, waited) =
                self.jobs_came.wait_timeout(queue, span).unwrap_or_else(PoisonError::into_inner);
            queue = again;
            if !waited.timed_out() {
                continue;
            }
            if !keeper.closer_is_idle() {
                drop(queue);
                keeper.closer_is_held_up();
                queue = self.queue();
            } else if span == LINGER {
                // Nobody pushes meanwhile: whoever does, and is no holder of what this one keeps,
                // has the lock of all threads.
                drop(queue);
                let _all = threads();
                queue = self.queue();
                let idle = keeper.patience() == Some(LINGER);
                if idle && queue.jobs.is_empty() && queue.unsent.is_empty() {
                    queue.ended = true;
                    return None;
                }
            }
        }
    }

    /// Tells the clerk, and gives it `files`.
    fn tell(&self, table: &Table, outcome: Outcome, files: &[BorrowedFd<'_>]) {
        self.queue().outcomes.push_back(outcome);
        if table.give(files).is_err() {
            // Too many files are under way: they are lost. Without any it fails only if the process
            // ends.
            let _ = table.give(&[]);
        }
    }
}

impl fmt::Debug for FileThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileThread").finish_non_exhaustive()
    }
}
