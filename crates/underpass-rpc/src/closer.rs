//! Who closes what a peer has passed and nobody has taken. See decision 0045.
//!
//! To close a file may take as long as its sender likes, and who hears for all, as the clerk does, must not wait for one. What can't take long is closed in place; all else by a kernel thread of the sender's
//! user, which is there as long as it has something to close. So a user whose files are slow to close waits for himself alone. Until they are closed they count for their channel, and its place counts for the user.

use crate::limits::Place;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use underpass_channel::layout::FILES_WAITING;
use underpass_os::{Socket, fork, kind};
use underpass_threads::critical;

/// What of one channel is still to be closed.
#[derive(Debug)]
pub(crate) struct Tally {
    user: u32,
    files: AtomicUsize,
    /// The user's room for the channel, at a server.
    _place: Option<Arc<Place>>,
}

impl Tally {
    pub(crate) fn new(user: u32, place: Option<Arc<Place>>) -> Arc<Self> {
        Arc::new(Self { user, files: AtomicUsize::new(0), _place: place })
    }

    /// That of who is at the other end of `socket`.
    fn of(socket: &Socket) -> Arc<Self> {
        // Those of whom nothing is known wait for one another.
        Self::new(socket.peer().map_or(u32::MAX, |peer| peer.uid), None)
    }

    /// One more channel of the same user.
    pub(crate) fn another(&self) -> Arc<Self> {
        Self::new(self.user, None)
    }

    /// Files that are still to be closed.
    pub(crate) fn files(&self) -> usize {
        // Relaxed: a count.
        self.files.load(Ordering::Relaxed)
    }

    /// Whether they are more than an honest peer's.
    pub(crate) fn is_full(&self) -> bool {
        self.files() > FILES_WAITING
    }

    fn close(self: &Arc<Self>, file: OwnedFd) {
        if !kind::is_closed_at_once(&file) {
            self.leave(Rest::File(file));
        }
    }

    /// Closes a socket that is no connection of this domain's.
    pub(crate) fn let_go(self: &Arc<Self>, socket: Socket) {
        self.leave(Rest::Socket(socket));
    }

    fn leave(self: &Arc<Self>, rest: Rest) {
        // Relaxed: a count.
        self.files.fetch_add(1, Ordering::Relaxed);
        close(self.user, Job { rest: Some(rest), of: self.clone() });
    }
}

/// A connection, of which whoever has the last share is not held up by what lies in its queue.
#[derive(Debug)]
pub(crate) struct Connection {
    /// There until it is dropped.
    socket: Option<Socket>,
    tally: Mutex<Option<Arc<Tally>>>,
}

impl Connection {
    pub(crate) fn new(socket: Socket) -> Arc<Self> {
        Arc::new(Self { socket: Some(socket), tally: Mutex::default() })
    }

    /// For whom it counts: at first for who is at its other end.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.get_or_insert_with(|| Tally::of(self)).clone()
    }

    pub(crate) fn counts_for(&self, tally: &Arc<Tally>) {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner) = Some(tally.clone());
    }
}

impl Deref for Connection {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        self.socket.as_ref().expect("it is there until it is dropped")
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(socket) = self.socket.take() else { return };
        // In a child that was forked off it is the parent's.
        if fork::check().is_err() {
            return;
        }
        // From now on nothing comes to what has come.
        socket.hang_up();
        while let Some(unread) = socket.unread() {
            if unread.with_files || socket.receive_any(&mut []).is_err() {
                // They stay where they are, and are closed with it.
                let tally = self.tally.get_mut().unwrap_or_else(PoisonError::into_inner).take();
                return tally.unwrap_or_else(|| Tally::of(&socket)).leave(Rest::Socket(socket));
            }
        }
    }
}

/// Files that a peer has passed; those that are not taken out are closed by whom it does not hold up.
#[derive(Debug)]
pub(crate) struct Foreign {
    files: VecDeque<OwnedFd>,
    of: Arc<Tally>,
}

impl Foreign {
    pub(crate) fn new(files: Vec<OwnedFd>, of: &Arc<Tally>) -> Self {
        Self { files: files.into(), of: of.clone() }
    }

    /// None, in place of these.
    pub(crate) fn none(&self) -> Self {
        Self::new(Vec::new(), &self.of)
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OwnedFd> {
        self.files.iter()
    }

    /// Takes the first one out.
    pub(crate) fn take(&mut self) -> Option<OwnedFd> {
        self.files.pop_front()
    }

    /// The same, if it is `such`.
    pub(crate) fn take_if(&mut self, such: impl FnOnce(&OwnedFd) -> bool) -> Option<OwnedFd> {
        self.files.pop_front_if(|file| such(file))
    }

    /// The same, if it is memory.
    pub(crate) fn take_memory(&mut self) -> Option<OwnedFd> {
        self.take_if(|file| kind::is_memory(file))
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.files.drain(..).for_each(|file| self.of.close(file));
    }
}

/// What is to be closed.
#[derive(Debug)]
enum Rest {
    File(#[expect(dead_code, reason = "to be dropped")] OwnedFd),
    Socket(#[expect(dead_code, reason = "to be dropped")] Socket),
    #[cfg(test)]
    Slow(#[expect(dead_code, reason = "to be dropped")] tests::Slow),
}

#[derive(Debug)]
struct Job {
    rest: Option<Rest>,
    of: Arc<Tally>,
}

impl Drop for Job {
    fn drop(&mut self) {
        drop(self.rest.take());
        self.of.files.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What each user's closer has still to do. A user who is there has one.
static CLOSERS: Mutex<Option<HashMap<u32, VecDeque<Job>>>> = Mutex::new(None);
/// Users who have one.
static USERS: AtomicUsize = AtomicUsize::new(0);

/// Whoever holds it keeps its processor, since the clerk waits for it.
fn closers() -> MutexGuard<'static, Option<HashMap<u32, VecDeque<Job>>>> {
    CLOSERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a domain of `user` may pass more: so much is still to be closed of what it has passed that it has to wait.
pub(crate) fn is_behind(socket: &Socket) -> bool {
    /// Several bindings' worth.
    const MOST: usize = 4 * FILES_WAITING;
    // Relaxed: it is late by as much as anybody is.
    if USERS.load(Ordering::Relaxed) == 0 || fork::check().is_err() {
        return false;
    }
    let Ok(peer) = socket.peer() else { return false };
    let _held = critical();
    closers().as_ref().and_then(|users| users.get(&peer.uid)).is_some_and(|jobs| jobs.len() > MOST)
}

fn close(user: u32, job: Job) {
    // A child that was forked off has no other kernel threads, and finds the lock as somebody has left it. It closes but copies.
    if fork::check().is_err() {
        return;
    }
    let held = critical();
    let mut users = closers();
    let begins = match users.get_or_insert_default().entry(user) {
        Entry::Occupied(mut jobs) => {
            jobs.get_mut().push_back(job);
            false
        }
        Entry::Vacant(place) => {
            place.insert(VecDeque::from([job]));
            // Relaxed: it only says that it is worth a look.
            USERS.fetch_add(1, Ordering::Relaxed);
            true
        }
    };
    drop(users);
    drop(held);
    if begins {
        let thread = std::thread::Builder::new().name("underpass-closer".to_owned()).stack_size(64 * 1024);
        // Without a thread for it, in place.
        if thread.spawn(move || work(user)).is_err() {
            work(user);
        }
    }
}

/// Closes what there is of `user`'s.
fn work(user: u32) {
    loop {
        let held = critical();
        let mut closers = closers();
        let Some(users) = closers.as_mut() else { return };
        let job = users.get_mut(&user).and_then(VecDeque::pop_front);
        if job.is_none() && users.remove(&user).is_some() {
            USERS.fetch_sub(1, Ordering::Relaxed);
        }
        drop(closers);
        drop(held);
        match job {
            Some(job) => drop(job),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, Read, pipe};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// What is closed when the other end of the channel is gone.
    #[derive(Debug)]
    pub(super) struct Slow(Receiver<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.recv().unwrap_err();
        }
    }

    fn slow(of: &Arc<Tally>) -> Sender<()> {
        let (go, wait) = channel();
        of.leave(Rest::Slow(Slow(wait)));
        go
    }

    fn file(of: &Arc<Tally>) -> PipeReader {
        let (reader, writer) = pipe().unwrap();
        of.leave(Rest::File(writer.into()));
        reader
    }

    /// For ever, if somebody can write still.
    fn is_closed(mut reader: PipeReader) {
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }

    fn is_there(user: u32) -> bool {
        closers().as_ref().is_some_and(|users| users.contains_key(&user))
    }

    fn is_gone(user: u32) {
        while is_there(user) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_user_waits_for_himself_alone() {
        let (one, other) = (Tally::new(1001, None), Tally::new(1002, None));
        let go = slow(&one);
        let behind = [file(&one), file(&one.another())];
        for _ in 0..10 {
            is_closed(file(&other));
        }
        is_gone(1002);
        assert!(is_there(1001) && one.files() == 2);
        drop(go);
        behind.into_iter().for_each(is_closed);
        is_gone(1001);
        assert_eq!((one.files(), other.files()), (0, 0));
    }

    #[test]
    fn who_has_left_too_much_is_told_by_its_count() {
        let tally = Tally::new(1003, None);
        let go = slow(&tally);
        let behind: Vec<_> = (0..FILES_WAITING).map(|_| file(&tally)).collect();
        assert!(tally.is_full() && tally.files() == FILES_WAITING + 1);
        drop(go);
        behind.into_iter().for_each(is_closed);
        is_gone(1003);
        assert!(!tally.is_full());
    }

    #[test]
    fn a_connection_goes_with_its_queue_if_files_lie_there() {
        let (ours, theirs) = Socket::pair().unwrap();
        let theirs = Socket::adopt(theirs).unwrap();
        let (reader, writer) = pipe().unwrap();
        let connection = Connection::new(ours);
        let tally = Tally::new(1004, None);
        connection.counts_for(&tally);
        let go = slow(&tally);
        theirs.send(b"", &[]).unwrap();
        theirs.send(b"file", &[writer.as_fd()]).unwrap();
        drop(writer);
        drop(connection);
        assert_eq!(tally.files(), 2);
        assert!(theirs.send(b"late", &[]).is_err(), "it has ended all the same");
        drop(go);
        is_closed(reader);
        is_gone(1004);
        // One in which none lie is closed in place.
        let (ours, theirs) = Socket::pair().unwrap();
        Socket::adopt(theirs).unwrap().send(b"words", &[]).unwrap();
        let connection = Connection::new(ours);
        connection.counts_for(&tally);
        let go = slow(&tally);
        drop(connection);
        assert_eq!(tally.files(), 1);
        drop(go);
        is_gone(1004);
    }
}
