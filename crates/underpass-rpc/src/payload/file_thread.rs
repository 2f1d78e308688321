//! The kernel thread that receives, keeps and closes the files that one user's domains pass.
//!
//! A peer can hold the kernel locks of a file that it has passed for ever. So a thread that closes
//! or reads such a file may never return (decision 0056). The clerk and the workers must not be
//! lost in this way. So they leave each message that brings files in its socket, and have the *file
//! thread* of the sender's user receive it. A file thread has a descriptor table of its own: if its
//! closer is lost, SIGKILL still closes all descriptors that the process shares with other users.
//! The table is copied from that of the spawner, which never contains a peer's file.
//!
//! *The exchange.* A pair of sockets connects the two tables. The process sends a copy of a socket
//! along with the job that needs it. The file thread sends back what the process may have: memory
//! files, and transit sockets that contain any other file. The jobs and their outcomes themselves
//! lie in memory, in the same order; one lock covers the queue and the sending.
//!
//! *Closing.* What may wait for a peer is done by a second kernel thread, the *closer*, which
//! shares the file thread's table. So if one of a user's files is slow to close, the user's other
//! domains are not held up: the file thread itself waits for nothing.
//!
//! *Its life.* It is started for the first job of its user. It ends when it keeps nothing and has
//! had no job for a while. The clerk notices that by the end of the exchange.
//!
//! What the thread does with its files is in `keeper.rs`.

mod keeper;

use self::keeper::FileKeeper;
use crate::control::clerk::clerk;
use crate::control::timer;
use crate::payload::passed_file::{CountedFile, PassedFile};
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
/// How long it waits at most in one go while its closer is busy. Nobody tells it when the closer is
/// done.
const HELD_UP: Duration = Duration::from_secs(1);
/// How long to wait before a descriptor is sent again, if too many are in flight in the whole
/// system.
const AGAIN: Duration = Duration::from_millis(20);
/// Descriptors that may be in flight to a file thread at once. A socket's buffer has room for more.
const UNDER_WAY: usize = 64;
/// A user who leaves so many jobs undone gets no further bindings. That is several bindings' worth
/// of files.
const BEHIND: usize = 1024;
/// How many outcomes of one file thread the clerk takes in one go.
const TURN: usize = 64;

/// A message as the process gets it.
#[derive(Debug, Default)]
pub(crate) struct ReceivedMessage {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cut: bool,
    pub(crate) lost_files: bool,
    pub(crate) sender: Option<Credentials>,
    pub(crate) files: Vec<PassedFile>,
}

/// What the clerk does with a message that was received.
type Then = Box<dyn FnOnce(io::Result<ReceivedMessage>) + Send>;

/// What a file thread is to do.
enum Job {
    /// Receive the next message of the socket that comes over the exchange.
    Receive { room: usize, then: Then },
    /// Close the transit socket that is kept under this number.
    Close { number: u64, was: Was },
    /// Close the descriptor that comes over the exchange.
    CloseThis { counted: CountedFile },
    /// Do what may wait for a peer, and needs no descriptor.
    Run(Box<dyn FnOnce() + Send>),
}

/// How a transit socket is closed.
#[derive(Debug)]
pub(crate) enum Was {
    /// Its file was taken out: the close can't be held up.
    Opened,
    /// Its file is closed with it, and counts until then.
    Unopened(Option<CountedFile>),
}

/// In which form a file reaches the process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileForm {
    /// It is memory, and the file thread has not kept it.
    Memory,
    /// A transit socket, with this number.
    Sealed(u64),
}

/// What is known of a file that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) kind: FileForm,
    /// It is an end of a connection to which the process may send.
    pub(crate) is_connection: bool,
    pub(crate) may_keep_others: bool,
}

/// What the thread tells the clerk, one outcome with each message over the exchange.
enum Outcome {
    /// There is room for one more descriptor.
    HasRoom,
    /// It has received a message, or found none. The message's files come along.
    Received { message: io::Result<ReceivedMessage>, files: Vec<Described>, then: Then },
}

#[derive(Default)]
struct JobQueue {
    /// Jobs whose descriptors were sent, or that need none.
    jobs: VecDeque<Job>,
    /// Descriptors in flight to the thread.
    under_way: usize,
    /// Jobs that wait for room on the exchange, with their descriptors.
    unsent: VecDeque<(Job, OwnedFd)>,
    outcomes: VecDeque<Outcome>,
    /// A timer is set to send the unsent ones again.
    tries_again: bool,
    /// The thread takes no more jobs.
    ended: bool,
}

/// The file thread of one user, as the process has it. The thread has no share of it: its table
/// could not close the process's end of the exchange.
pub(crate) struct FileThread {
    exchange: Socket,
    shared: Arc<SharedQueue>,
}

/// What the process and the thread share.
#[derive(Default)]
struct SharedQueue {
    queue: Mutex<JobQueue>,
    jobs_came: Condvar,
    /// How many things the closer has still to do.
    unclosed: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Threads {
    by_user: HashMap<u32, Arc<FileThread>>,
    /// Jobs for which no thread could be started. They are done when one can.
    left: Vec<(u32, Job, OwnedFd)>,
}

/// All file threads.
static THREADS: Mutex<Option<Threads>> = Mutex::new(None);

/// The holder of this lock keeps its processor, since the clerk waits for it.
fn threads() -> MutexGuard<'static, Option<Threads>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether so many files of `user`'s domains wait to be received or closed that the user has to
/// wait.
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
/// The clerk calls `then` with it.
///
/// # Errors
/// No kernel thread, or no file; `then` is dropped.
pub(crate) fn receive(
    user: u32,
    socket: impl AsFd,
    room: usize,
    then: impl FnOnce(io::Result<ReceivedMessage>) + Send + 'static,
) -> io::Result<()> {
    fork::check()?;
    let job = Job::Receive { room, then: Box::new(then) };
    let held = critical();
    let mut threads = threads();
    let pushed = match threads.get_or_insert_default().of(user) {
        Ok(thread) => thread.push_with(job, socket.as_fd()),
        Err(e) => Err((e, job)),
    };
    // The drop of the job may need this lock.
    drop(threads);
    drop(held);
    pushed.map_err(|(e, _)| e)
}

/// Has `user`'s file thread close a socket whose queue may hold files, or that others can reach.
pub(crate) fn close(user: u32, file: OwnedFd, counted: CountedFile) {
    // In a forked child the file is a copy, and there are no other kernel threads.
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

/// Tries again to start file threads for the jobs that were left.
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

/// Has `user`'s file thread do what may wait for a peer. If there can be no kernel thread for it,
/// it is not done.
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

    /// Keeps a job for which there is no file thread. A timer tries it again.
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
        let shared = Arc::new(SharedQueue::default());
        let thread = Arc::new(Self { exchange, shared: shared.clone() });
        let clerk = clerk()?;
        let key = clerk.hear_exchange(&thread)?;
        let begun = clerk.spawner().spawn("underpass-files", theirs, move |table| shared.run(table));
        begun.inspect_err(|_| clerk.unwatch(key))?;
        Ok(thread)
    }

    fn queue(&self) -> MutexGuard<'_, JobQueue> {
        self.shared.queue()
    }

    pub(crate) fn exchange(&self) -> &Socket {
        &self.exchange
    }

    fn push(&self, job: Job) {
        self.queue().jobs.push_back(job);
        self.shared.jobs_came.notify_one();
    }

    /// Adds a job for a copy of `file`.
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

    /// Adds a job for `file`, of which the process keeps no copy.
    fn push_file(self: &Arc<Self>, job: Job, file: OwnedFd) {
        self.queue().unsent.push_back((job, file));
        self.send(&mut self.queue());
        self.shared.jobs_came.notify_one();
    }

    /// Sends `file`, unless there is no room for it, or others wait for room.
    fn send_now(&self, queue: &mut JobQueue, file: BorrowedFd<'_>) -> bool {
        let first = queue.unsent.is_empty() && queue.under_way < UNDER_WAY;
        let sent = first && self.exchange.send(&[0], &[file]).is_ok();
        queue.under_way += usize::from(sent);
        sent
    }

    /// Sends as many descriptors as there is room for. The thread reports when there is more.
    fn send(self: &Arc<Self>, queue: &mut JobQueue) {
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

    /// Too many files are in flight in the whole system (`ETOOMANYREFS`).
    #[cold]
    fn try_again(self: &Arc<Self>, queue: &mut JobQueue) {
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

    /// Takes the outcomes that the thread has sent, at most [`TURN`]. The clerk calls it. Returns
    /// `false` if the thread has ended.
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
        // There may be more. The clerk's poll will report it again.
        true
    }

    /// Puts the descriptors into a message, each in its form.
    fn assemble(
        self: &Arc<Self>,
        message: ReceivedMessage,
        of: Vec<Described>,
        came: Vec<OwnedFd>,
    ) -> ReceivedMessage {
        let lost_files = message.lost_files || came.len() < of.len();
        let mut came = came.into_iter();
        let files = of.into_iter().filter_map(|file| PassedFile::new(came.next(), file, self)).collect();
        ReceivedMessage { lost_files, files, ..message }
    }

    /// The process no longer needs the transit socket that is kept under `number`.
    pub(crate) fn close_kept(&self, number: u64, was: Was) {
        // A forked child has none of it.
        if fork::check().is_ok() {
            let _held = critical();
            self.push(Job::Close { number, was });
        }
    }
}

impl SharedQueue {
    fn queue(&self) -> MutexGuard<'_, JobQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of the kernel thread.
    fn run(&self, table: Table) {
        let mut keeper = FileKeeper::new(self, table);
        while let Some(job) = self.next(&mut keeper) {
            keeper.work(job);
        }
    }

    /// The next job for `keeper`. Nothing if the thread is to end.
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
                // No job can be pushed here: a pusher holds the lock of all threads, unless it
                // holds something that this thread keeps.
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

    /// Tells the clerk `outcome`, and gives it `files`.
    fn tell(&self, table: &Table, outcome: Outcome, files: &[BorrowedFd<'_>]) {
        self.queue().outcomes.push_back(outcome);
        if table.give(files).is_err() {
            // Too many files are in flight: they are lost. Without files it fails only if the
            // process ends.
            let _ = table.give(&[]);
        }
    }
}

impl fmt::Debug for FileThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileThread").finish_non_exhaustive()
    }
}
