//! Keeps descriptors that a peer has made in kernel threads that may hang in a system call for
//! ever.
//!
//! A peer can hold a kernel lock of any object that it can reach, for ever. It makes a system call
//! that takes the lock and then faults on a page that never comes. Another thread that calls the
//! kernel for the same object then waits, and not even SIGKILL ends that wait. So such descriptors
//! live in a kernel thread of their own that may hang. That thread has its own descriptor table:
//! when SIGKILL closes the descriptors of the process, it does so even while that thread hangs.
//!
//! [`ForeignFile`] is such a descriptor. It cannot leave its kernel thread. Its number is available
//! only through a [`Table`], which only such a thread has.

mod spawner;

pub use self::spawner::Spawner;

use crate::fork::Vital;
use crate::kind;
use crate::peer::Connected;
use crate::sockets::control_message::{ALL, receive};
use crate::sockets::socket;
use crate::{Credentials, Socket};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// The most files that any message can carry (`SCM_MAX_FD`).
const MOST: usize = 253;

/// A descriptor that a peer has made or can reach, in the table of the kernel thread that received
/// it. Closing it may take for ever, and so may any other use of it.
#[derive(Debug)]
pub struct ForeignFile {
    fd: OwnedFd,
    /// On any other kernel thread, this number means another file.
    _stays: PhantomData<*const ()>,
}

impl ForeignFile {
    fn new(fd: OwnedFd) -> Self {
        Self { fd, _stays: PhantomData }
    }

    /// Whether the file is memory (`memfd`). Such a descriptor may go to any thread: mapping it,
    /// reading it by offset and closing it wait for no lock that a peer can hold.
    pub fn is_memory(&self) -> bool {
        kind::is_memory(&self.fd)
    }

    /// Whether closing this copy never waits while there is another copy.
    pub fn copies_close_at_once(&self) -> bool {
        kind::copies_close_at_once(&self.fd)
    }

    /// Whether the file is an end of a connection, of which a [`SendingEnd`] can be made.
    pub fn is_connection(&self) -> bool {
        Socket::is_one(&self.fd)
    }

    /// Whether the file may keep other files open: see [`kind::may_keep_others`].
    pub fn may_keep_others(&self) -> bool {
        kind::may_keep_others(&self.fd)
    }
}

/// The descriptor table of a kernel thread that may hang because of a peer. It also holds the
/// thread's way to the rest of the process: one end of a connection that this process has made.
#[derive(Debug)]
pub struct Table {
    exchange: OwnedFd,
    _stays: PhantomData<*const ()>,
}

/// A message that the kernel thread of a [`Table`] has received.
#[derive(Debug)]
pub struct Arrived {
    /// The bytes that there was room for.
    pub bytes: Vec<u8>,
    /// The message was longer than the room.
    pub cut: bool,
    /// More files were sent: the kernel closed them, for want of room.
    pub lost_files: bool,
    /// The sender, if the socket was [told to ask](Socket::ask_for_senders) before.
    pub sender: Option<Credentials>,
    /// What came along.
    pub files: Vec<ForeignFile>,
}

impl Table {
    /// Gives the calling kernel thread a descriptor table of its own, which holds only `exchange`,
    /// under its own number. The table that the thread had before is unchanged.
    ///
    /// Before Linux 5.9, and where `close_range` is refused, the thread goes on sharing the
    /// process's table.
    fn of_this_thread(exchange: BorrowedFd<'_>) -> io::Result<Self> {
        let number = exchange.as_raw_fd() as u32;
        let is_own = close_range(number + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE).is_ok()
            && (number == 0 || close_range(0, number - 1, 0).is_ok());
        let exchange = match is_own {
            // SAFETY: the copy under this number is in the table of this thread alone, and nothing
            // else closes it.
            true => unsafe { OwnedFd::from_raw_fd(number as i32) },
            false => exchange.try_clone_to_owned()?,
        };
        if is_own {
            keep_standard_numbers(&exchange)?;
        }
        Ok(Self { exchange, _stays: PhantomData })
    }

    /// Takes the next descriptor from the exchange. `None` if the other end is gone.
    ///
    /// # Errors
    /// Too many open files.
    pub fn take(&self) -> io::Result<Option<ForeignFile>> {
        loop {
            match receive(self.exchange.as_fd(), &mut [0; 1], ALL, 0) {
                Ok(message) => return Ok(message.files.into_iter().next().map(ForeignFile::new)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => wait(&self.exchange, PollFlags::IN)?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Gives copies of `files` to the process, with one byte. The thread keeps its own copies.
    ///
    /// # Errors
    /// The other end is gone, or too many files are in flight (`ETOOMANYREFS`).
    pub fn give(&self, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files for one message"));
        }
        loop {
            match sendmsg(&self.exchange, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => wait(&self.exchange, PollFlags::OUT)?,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// The descriptor itself, for a system call that may wait for ever.
    pub fn reach<'a>(&self, file: &'a ForeignFile) -> BorrowedFd<'a> {
        file.fd.as_fd()
    }

    /// Receives the next message of `socket` and keeps its first `room` bytes.
    ///
    /// # Errors
    /// `WouldBlock` if there is no message.
    pub fn receive(&self, socket: &ForeignFile, room: usize) -> io::Result<Arrived> {
        let mut bytes = vec![0; room];
        let message = receive(socket.fd.as_fd(), &mut bytes, ALL, 0)?;
        bytes.truncate(message.len);
        Ok(Arrived {
            bytes,
            cut: message.cut,
            lost_files: message.lost || message.unknown,
            sender: message.sender.as_ref().map(Credentials::of),
            files: message.files.into_iter().map(ForeignFile::new).collect(),
        })
    }

    /// Puts a copy of `file` into an [`TransitSocket`] for the process. This thread stays
    /// responsible for closing the file, for as long as it keeps the returned copy of the envelope.
    ///
    /// # Errors
    /// Too many files are open or in flight.
    pub fn seal(&self, file: &ForeignFile) -> io::Result<ForeignFile> {
        let (transit_socket, into) = plain_pair()?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file.fd.as_fd()];
        let pushed = control.push(SendAncillaryMessage::ScmRights(&files));
        debug_assert!(pushed, "there is room for one");
        sendmsg(&into, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
        Ok(ForeignFile::new(transit_socket))
    }
}

/// In a table of its own, descriptors 0 to 2 are not the standard streams. A peer's file must not
/// take these numbers, so copies of `exchange` occupy them.
fn keep_standard_numbers(exchange: &OwnedFd) -> io::Result<()> {
    loop {
        let copy = ManuallyDrop::new(fcntl_dupfd_cloexec(exchange, 0)?);
        if copy.as_raw_fd() > 2 {
            drop(ManuallyDrop::into_inner(copy));
            return Ok(());
        }
    }
}

/// Both ends of a connection that carries a file. No peer learns of a death by it.
fn plain_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn close_range(first: u32, last: u32, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: this closes descriptors of a table that the caller has just made, or makes now.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn wait(file: impl AsFd, what: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::new(&file, what)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// The kernel thread that closes files for a [`Table`]. It shares the table's descriptors and may
/// hang. The thread of the table goes on receiving.
#[derive(Debug)]
pub struct Closer {
    work: Sender<Work>,
    /// The number of files that are not closed yet.
    undone: Arc<AtomicUsize>,
}

/// An action that may take for ever, and a value that is dropped after it.
struct Work {
    act: Box<dyn FnOnce() + Send>,
    _undone: Undone,
}

struct Undone(Arc<AtomicUsize>);

impl Drop for Undone {
    fn drop(&mut self) {
        // Relaxed: a count.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Closer {
    /// Starts a closing thread for the table of the calling thread. It counts its pending work in
    /// `undone`.
    ///
    /// # Errors
    /// No kernel thread could be started.
    pub fn start(_of: &Table, undone: Arc<AtomicUsize>) -> io::Result<Self> {
        let (sender, work) = channel::<Work>();
        let builder = std::thread::Builder::new().name("underpass-closer".to_owned());
        builder.stack_size(64 * 1024).spawn(move || work.iter().for_each(|work| (work.act)()))?;
        Ok(Self { work: sender, undone })
    }

    /// Closes `file`, and then drops `after`.
    pub fn close<T: Send + 'static>(&self, file: ForeignFile, after: T) {
        // The file goes to a thread that shares the table, and to no other.
        let file = file.fd;
        self.run(move || {
            drop(file);
            drop(after);
        });
    }

    /// Runs an action that may take for ever.
    pub fn run(&self, act: impl FnOnce() + Send + 'static) {
        // Relaxed: a count.
        self.undone.fetch_add(1, Ordering::Relaxed);
        let work = Work { act: Box::new(act), _undone: Undone(self.undone.clone()) };
        // The thread lives as long as this sender.
        let _ = self.work.send(work);
    }

    /// Whether no work is pending.
    pub fn is_idle(&self) -> bool {
        self.undone.load(Ordering::Relaxed) == 0
    }
}

/// A file in the queue of a connection that this process has made, which nothing has received yet.
/// Closing the transit socket never waits while its kernel thread has a copy.
#[derive(Debug)]
pub struct TransitSocket(OwnedFd);

impl TransitSocket {
    /// Wraps a file that came from [`Table::give`], sealed by [`Table::seal`].
    pub fn new(file: OwnedFd) -> Self {
        Self(file)
    }

    /// Takes the file out. From then on, the caller's system calls may wait for the maker of the
    /// file.
    ///
    /// # Errors
    /// Too many files are open. The file is still in the transit socket then.
    pub fn open(&self) -> io::Result<OwnedFd> {
        // If this process has no room, the kernel closes the file. This only peeks at the message,
        // so that copy is not the last one, and closing it does not wait.
        let message = receive(self.0.as_fd(), &mut [0; 1], ALL, libc::MSG_PEEK)?;
        let file = message.files.into_iter().next().ok_or(io::Error::from_raw_os_error(libc::EMFILE))?;
        // Removing the message does not close the last copy either, because the file is now open
        // here.
        while receive(self.0.as_fd(), &mut [0; 1], 0, 0)
            .is_err_and(|e| e.kind() == io::ErrorKind::Interrupted)
        {}
        Ok(file)
    }
}

/// The end of a connection that a peer has made and passed, for sending only. Another holder of
/// this end could hold the lock that a receipt takes. Sending never waits.
#[derive(Debug)]
pub struct SendingEnd {
    fd: Vital,
}

impl SendingEnd {
    /// Adopts the connection's end in `file`.
    ///
    /// # Errors
    /// `InvalidData` if `file` is no such end.
    pub fn adopt(file: OwnedFd) -> io::Result<Self> {
        match Socket::is_one(&file) {
            true => Ok(Self { fd: Vital::new(file) }),
            false => {
                let why = "the peer passed a file that is no connection";
                Err(io::Error::new(io::ErrorKind::InvalidData, why))
            }
        }
    }
}

impl SendingEnd {
    /// Sends one message, with files.
    ///
    /// # Errors
    /// The errors of [`Socket::send`].
    pub fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        socket::send(&self.fd, bytes, files)
    }

    /// Ends the connection in both directions.
    pub fn hang_up(&self) {
        socket::hang_up(&self.fd);
    }

    /// Whether the other end has hung up or is closed. This takes no lock that a peer can hold.
    pub fn is_over(&self) -> bool {
        let over = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let mut file = [PollFd::new(&self.fd, PollFlags::RDHUP)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut file, Some(&now)), Ok(1)) && file[0].revents().intersects(over)
    }
}

impl From<SendingEnd> for OwnedFd {
    fn from(end: SendingEnd) -> Self {
        end.fd.into()
    }
}

impl AsFd for SendingEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Connected for SendingEnd {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, Read, pipe};

    /// Runs `act` on a kernel thread with a table of its own. Returns the process's end and the
    /// result.
    fn beside<R: Send + 'static>(
        act: impl FnOnce(Table) -> R + Send + 'static,
    ) -> (Socket, std::sync::mpsc::Receiver<R>) {
        let (ours, theirs) = Socket::pair().unwrap();
        let (done, result) = channel();
        let run = move |table| _ = done.send(act(table));
        Spawner::start().unwrap().spawn("foreign-test", theirs, run).unwrap();
        (ours, result)
    }

    fn is_closed(mut reader: PipeReader) -> bool {
        reader.read(&mut [0]).unwrap() == 0
    }

    #[test]
    fn a_table_has_nothing_of_the_process() {
        let (_reader, _writer) = pipe().unwrap();
        let (_ours, files) = beside(move |_table| {
            let tid = rustix::thread::gettid().as_raw_pid();
            let files = std::fs::read_dir(format!("/proc/self/task/{tid}/fd")).unwrap();
            let files =
                files.flatten().filter(|file| !matches!(file.file_name().to_str(), Some("0" | "1" | "2")));
            let names = files.filter_map(|file| std::fs::read_link(file.path()).ok());
            names.map(|name| name.display().to_string()).collect::<Vec<_>>()
        });
        // The exchange, and the directory that is being read.
        let files = files.recv().unwrap();
        assert!(files.len() <= 2 && !files.iter().any(|file| file.starts_with("pipe:")), "{files:?}");
    }

    #[test]
    fn files_come_and_go_over_the_exchange() {
        let (reader, writer) = pipe().unwrap();
        let (from, to) = plain_pair().unwrap();
        let to = Socket::adopt(to).unwrap();
        to.send(b"with a file", &[writer.as_fd()]).unwrap();
        drop(writer);
        let (given, taken) = channel();
        let (ours, ended) = beside(move |table| {
            let socket = table.take().unwrap().unwrap();
            let arrived = table.receive(&socket, 4).unwrap();
            assert_eq!((&arrived.bytes[..], arrived.cut, arrived.lost_files), (&b"with"[..], true, false));
            let file = arrived.files.into_iter().next().unwrap();
            assert!(!file.is_memory() && file.copies_close_at_once() && !file.may_keep_others());
            let transit_socket = table.seal(&file).unwrap();
            Closer::start(&table, Arc::default()).unwrap().close(file, ());
            table.give(&[table.reach(&transit_socket)]).unwrap();
            taken.recv().unwrap();
        });
        ours.send(&[0], &[from.as_fd()]).unwrap();
        let transit_socket = loop {
            match ours.receive(&mut [0; 1]) {
                Ok(mut received) => break TransitSocket::new(received.files.remove(0)),
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
            std::thread::yield_now();
        };
        let file = transit_socket.open().unwrap();
        rustix::io::write(&file, b"x").unwrap();
        drop(file);
        given.send(()).unwrap();
        ended.recv().unwrap();
        let mut read = Vec::new();
        let mut reader = reader;
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"x");
    }

    #[test]
    fn a_file_that_finds_no_room_stays_in_its_transit_socket() {
        let (reader, writer) = pipe().unwrap();
        let (ours, transit_socket) = plain_pair().unwrap();
        Socket::adopt(ours).unwrap().send(&[0], &[writer.as_fd()]).unwrap();
        drop(writer);
        let transit_socket = TransitSocket::new(transit_socket);
        // Acts as the kernel does when it finds no room.
        drop(receive(transit_socket.0.as_fd(), &mut [0; 1], ALL, libc::MSG_PEEK).unwrap());
        let file = transit_socket.open().unwrap();
        rustix::io::write(&file, b"x").unwrap();
        assert!(transit_socket.open().is_err(), "it is empty");
        drop(file);
        let (mut reader, mut read) = (reader, Vec::new());
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"x", "neither the transit_socket nor anybody else has a copy");
    }

    #[test]
    fn a_threads_files_are_closed_when_it_ends() {
        let (reader, writer) = pipe().unwrap();
        let (ours, ended) = beside(|table| std::mem::forget(table.take().unwrap()));
        ours.send(&[0], &[writer.as_fd()]).unwrap();
        drop(writer);
        ended.recv().unwrap();
        assert!(is_closed(reader));
    }
}
