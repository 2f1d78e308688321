//! Processes that are forked off: they share the sockets of the process that they come from, and
//! have none of its kernel threads.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Numbers of files that are kept track of: as many as a process may have open, unless root lets it
/// have more.
const NUMBERS: usize = 1 << 20;

/// The sockets that stand for the life of this process, each a bit, and how many words have had
/// any.
static SOCKETS: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];
static WORDS: AtomicUsize = AtomicUsize::new(0);

/// Whether this process was forked off one that had such sockets: its number need not tell, where
/// each has a namespace of its own.
static FORKED: AtomicBool = AtomicBool::new(false);

/// That this process is no such one: of those that come from each other, the first that asks.
///
/// # Errors
/// It is, and may do nothing with what it shares.
pub fn check() -> io::Result<()> {
    static FIRST: OnceLock<u32> = OnceLock::new();
    let first = *FIRST.get_or_init(std::process::id) == std::process::id();
    // Relaxed: it was written before this process had a second kernel thread.
    match first && !FORKED.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err(io::Error::other(
            "this process was forked off one that uses Underpass, and has no part in its bindings; have it execute a program, or fork before the first of them",
        )),
    }
}

/// Whether this process was forked off one that had a socket by which peers learn of its end.
/// Unlike [`check`], it asks the kernel nothing.
pub fn is_forked() -> bool {
    // Relaxed: as in `check`.
    FORKED.load(Ordering::Relaxed)
}

/// From now on `before` runs before each `fork` of this process, on the kernel thread that forks,
/// and then `parent` and `child`, each where it says. (A `clone` that goes around the C library
/// calls none of them.)
///
/// # Errors
/// No memory.
pub fn watch(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> io::Result<()> {
    // SAFETY: the functions are there as long as the process.
    match unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A socket by whose end a peer learns that this process has ended. A child that is forked off gets
/// something in its place, under the same number, that is connected to nobody; so the peer learns
/// of it however long the child lives. (But for a `fork` in the very moment between the making of
/// the socket and of this.)
#[derive(Debug)]
pub(crate) struct Vital {
    fd: OwnedFd,
}

impl Vital {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        static WATCHED: OnceLock<()> = OnceLock::new();
        // Without memory for that a child has what it has.
        WATCHED.get_or_init(|| drop(watch(nothing, nothing, child)));
        let (word, bit) = place(fd.as_raw_fd());
        if let Some(sockets) = SOCKETS.get(word) {
            // Relaxed: the child has what the kernel thread that forks has seen, and a fork just
            // now comes too early.
            sockets.fetch_or(bit, Ordering::Relaxed);
            WORDS.fetch_max(word + 1, Ordering::Relaxed);
        }
        Self { fd }
    }
}

impl Vital {
    /// Its end tells nobody anything any more.
    fn is_vital_no_more(&self) {
        // Before the number can be another's.
        let (word, bit) = place(self.fd.as_raw_fd());
        if let Some(sockets) = SOCKETS.get(word) {
            // Release: not after the close that follows. A fork copies the table of files under the
            // lock that the close has had, and memory afterwards: a child in which the number is
            // another's sees the bit gone.
            sockets.fetch_and(!bit, Ordering::Release);
        }
    }
}

impl Drop for Vital {
    fn drop(&mut self) {
        self.is_vital_no_more();
    }
}

impl From<Vital> for OwnedFd {
    fn from(vital: Vital) -> Self {
        vital.is_vital_no_more();
        let vital = ManuallyDrop::new(vital);
        // SAFETY: `vital` is not used any more, and not dropped.
        unsafe { std::ptr::read(&raw const vital.fd) }
    }
}

impl AsFd for Vital {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn place(fd: RawFd) -> (usize, u64) {
    (fd as usize / 64, 1 << (fd % 64))
}

extern "C" fn nothing() {}

/// In the child, on its only kernel thread: system calls, and no memory.
extern "C" fn child() {
    FORKED.store(true, Ordering::Relaxed);
    let words = SOCKETS[..WORDS.load(Ordering::Relaxed)].iter().enumerate();
    let mut sockets = words.flat_map(|(word, bits)| {
        let bits = bits.load(Ordering::Relaxed);
        (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| (word * 64 + bit) as RawFd)
    });
    let none = || {
        // SAFETY: three numbers.
        unsafe {
            libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
        }
    };
    let Some(first) = sockets.next() else { return };
    let mut unconnected = none();
    if unconnected < 0 {
        if io::Error::last_os_error().raw_os_error() != Some(libc::EMFILE) {
            return;
        }
        // Files have run out: in the only place that there is.
        // SAFETY: in this process nothing uses it, and it gets another meaning just now.
        unsafe { libc::close(first) };
        unconnected = none();
    }
    for socket in std::iter::once(first).chain(sockets).filter(|&socket| socket != unconnected) {
        // SAFETY: two descriptors of this process, of which the second is a `Vital`'s, who has one
        // still.
        unsafe { libc::dup3(unconnected, socket, libc::O_CLOEXEC) };
    }
    if unconnected != first {
        // SAFETY: made above, and known to nobody else.
        unsafe { libc::close(unconnected) };
    }
}
