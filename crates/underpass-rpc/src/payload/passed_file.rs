//! Files that a peer has passed. The user's file thread closes those that nobody takes out.
//!
//! No operation here waits for the file's maker: the clerk and the workers can hold and release
//! memory files and transit sockets without waiting. A thread that takes the file itself out may
//! have to wait for its maker from then on, in every system call (decision 0056).

use crate::binding::limits::{ChannelCharge, FileQuota};
use crate::payload::file_thread::{self, Described, FileForm, FileThread, Was};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use underpass_channel::layout::FILES_WAITING;
use underpass_os::Connected;
use underpass_os::foreign::{SendingEnd, TransitSocket};

/// The files of one binding that are still to be closed.
#[derive(Debug)]
pub(crate) struct Unclosed {
    user: u32,
    files: AtomicUsize,
    /// At a server: the user's quota for the binding, which is in use until the last file is
    /// closed.
    charge: Option<Arc<ChannelCharge>>,
}

impl Unclosed {
    pub(crate) fn new(user: u32, charge: Option<Arc<ChannelCharge>>) -> Arc<Self> {
        Arc::new(Self { user, files: AtomicUsize::new(0), charge })
    }

    /// For the user at the other end of `socket`. If nothing is known of the user, all such users
    /// share one.
    pub(crate) fn of_peer(socket: &impl Connected) -> Arc<Self> {
        Self::new(socket.peer().map_or(u32::MAX, |peer| peer.uid), None)
    }

    pub(crate) fn user(&self) -> u32 {
        self.user
    }

    /// Files that are still to be closed.
    pub(crate) fn files(&self) -> usize {
        // Relaxed: a count.
        self.files.load(Ordering::Relaxed)
    }

    /// Whether there are more of them than an honest peer has.
    pub(crate) fn is_full(&self) -> bool {
        self.files() > FILES_WAITING
    }

    /// BudgetShare for the files of one message, if the user's files are counted.
    ///
    /// # Errors
    /// `WouldBlock` if the user has none left.
    pub(crate) fn room_for_message(&self) -> io::Result<Option<FileQuota>> {
        let room = self.charge.as_ref().map(ChannelCharge::room_for_message);
        room.map(|room| room.ok_or(io::ErrorKind::WouldBlock.into())).transpose()
    }

    /// The same for `count` files that wait to be sent to the user.
    ///
    /// # Errors
    /// `WouldBlock` if the user has none left.
    pub(crate) fn room_for_files(&self, count: usize) -> io::Result<Option<FileQuota>> {
        let room = self.charge.as_ref().map(|charge| charge.room_for_files(count));
        room.map(|room| room.ok_or(io::ErrorKind::WouldBlock.into())).transpose()
    }

    /// A file has come, and is not taken out yet.
    fn came(self: &Arc<Self>) -> Untaken {
        Untaken { unclosed: self.clone(), _of_user: self.charge.as_ref().map(ChannelCharge::one_file) }
    }

    /// Has the user's file thread close `file`, which others may reach or in which files lie.
    pub(crate) fn close(self: &Arc<Self>, file: OwnedFd) {
        file_thread::close(self.user, file, self.came().give_up());
    }
}

/// One file that is not taken out yet.
#[derive(Debug)]
struct Untaken {
    unclosed: Arc<Unclosed>,
    _of_user: Option<FileQuota>,
}

impl Untaken {
    /// The file will not be taken out: it is to be closed.
    fn give_up(self) -> CountedFile {
        // Relaxed: a count.
        self.unclosed.files.fetch_add(1, Ordering::Relaxed);
        CountedFile(self)
    }
}

/// One file that is still to be closed.
#[derive(Debug)]
pub(crate) struct CountedFile(Untaken);

impl Drop for CountedFile {
    fn drop(&mut self) {
        // Relaxed: a count.
        self.0.unclosed.files.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One file that a peer has passed.
#[derive(Debug)]
pub(crate) struct PassedFile {
    held: Held,
    is_connection: bool,
    may_keep_others: bool,
}

#[derive(Debug)]
enum Held {
    Memory(OwnedFd),
    // The file thread releases its copy after this copy of the transit socket.
    Sealed(TransitSocket, KeptByThread),
}

/// What the file thread keeps, until this is dropped.
#[derive(Debug)]
struct KeptByThread {
    number: u64,
    thread: Arc<FileThread>,
    untaken: Option<Untaken>,
    was_opened: bool,
}

impl Drop for KeptByThread {
    fn drop(&mut self) {
        let was = match self.was_opened {
            true => Was::Opened,
            false => Was::Unopened(self.untaken.take().map(Untaken::give_up)),
        };
        self.thread.close_kept(self.number, was);
    }
}

impl PassedFile {
    /// The file that came as `file`. Nothing if this process had no room for it.
    pub(crate) fn new(file: Option<OwnedFd>, described: Described, thread: &Arc<FileThread>) -> Option<Self> {
        let kept = |number| KeptByThread { number, thread: thread.clone(), untaken: None, was_opened: false };
        let held = match (described.kind, file) {
            (FileForm::Memory, file) => Held::Memory(file?),
            (FileForm::Sealed(number), file) => {
                let kept = kept(number);
                Held::Sealed(TransitSocket::new(file?), kept)
            }
        };
        let Described { is_connection, may_keep_others, .. } = described;
        Some(Self { held, is_connection, may_keep_others })
    }

    /// From now on it counts for `unclosed`.
    fn counts_for(&mut self, unclosed: &Arc<Unclosed>) {
        match &mut self.held {
            Held::Memory(_) => {}
            Held::Sealed(_, kept) => kept.untaken = Some(unclosed.came()),
        }
    }

    /// Takes the file out. Each system call with it may wait for its maker.
    ///
    /// # Errors
    /// Too many open files.
    fn take(self) -> io::Result<OwnedFd> {
        match self.held {
            Held::Memory(file) => Ok(file),
            Held::Sealed(transit_socket, mut kept) => {
                let file = transit_socket.open();
                kept.was_opened = file.is_ok();
                // Before the file thread's copy.
                drop(transit_socket);
                file
            }
        }
    }
}

/// An end of a connection that a peer has made. This side sends over it, and does nothing else. The
/// file thread of the peer's user closes it.
#[derive(Debug)]
pub struct PassedSocket {
    /// `Some` until it is dropped.
    end: Option<SendingEnd>,
    unclosed: Arc<Unclosed>,
}

impl PassedSocket {
    /// The end of a connection that a program has got as a value, and hands over.
    ///
    /// # Errors
    /// `InvalidData` if it is no such end.
    pub fn adopt(file: OwnedFd) -> io::Result<Self> {
        let end = SendingEnd::adopt(file)?;
        let unclosed = Unclosed::of_peer(&end);
        Ok(Self { end: Some(end), unclosed })
    }

    /// The end, to send over.
    ///
    /// # Panics
    /// Never: it is there until this is dropped.
    pub fn end(&self) -> &SendingEnd {
        self.end.as_ref().expect("it is there until it is dropped")
    }

    /// The count to which its files belong.
    pub(crate) fn unclosed(&self) -> &Arc<Unclosed> {
        &self.unclosed
    }
}

impl Drop for PassedSocket {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            self.unclosed.close(end.into());
        }
    }
}

/// Files that came with one message. The file thread closes those that nobody takes out.
#[derive(Debug)]
pub(crate) struct PassedFiles {
    files: VecDeque<PassedFile>,
    of: Arc<Unclosed>,
}

impl PassedFiles {
    pub(crate) fn new(files: Vec<PassedFile>, of: &Arc<Unclosed>) -> Self {
        let mut files = VecDeque::from(files);
        files.iter_mut().for_each(|file| file.counts_for(of));
        Self { files, of: of.clone() }
    }

    /// No files, in place of these.
    pub(crate) fn none(&self) -> Self {
        Self::new(Vec::new(), &self.of)
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether one of them may keep others open, such as the peer's own end of the connection.
    pub(crate) fn may_keep_others(&self) -> bool {
        self.files.iter().any(|file| file.may_keep_others)
    }

    /// Takes the first one out, for a procedure or a caller. Each system call with it may wait for
    /// its maker from then on.
    pub(crate) fn take(&mut self) -> Option<io::Result<OwnedFd>> {
        self.files.pop_front().map(PassedFile::take)
    }

    /// The first, if it is memory.
    pub(crate) fn take_memory(&mut self) -> Option<OwnedFd> {
        let memory = self.files.pop_front_if(|file| matches!(file.held, Held::Memory(_)))?;
        memory.take().ok()
    }

    /// The first, if it is the end of a connection to which this side may send.
    pub(crate) fn take_socket(&mut self) -> Option<PassedSocket> {
        let file = self.files.pop_front_if(|file| file.is_connection)?;
        let end = SendingEnd::adopt(file.take().ok()?).ok()?;
        Some(PassedSocket { end: Some(end), unclosed: self.of.clone() })
    }
}

#[cfg(test)]
impl PassedFiles {
    /// Memory, as if it had come.
    pub(crate) fn of_memory(files: Vec<OwnedFd>) -> Self {
        let memory = |file| {
            assert!(underpass_os::kind::is_memory(&file));
            PassedFile { held: Held::Memory(file), is_connection: false, may_keep_others: false }
        };
        Self::new(files.into_iter().map(memory).collect(), &Unclosed::new(0, None))
    }
}
