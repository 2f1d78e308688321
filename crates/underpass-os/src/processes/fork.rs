//! Handles forked processes. They share the sockets of their parent process, but have none of its
//! kernel threads.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The file numbers that are tracked. A process may have at most this many files open, unless root
/// raises the limit.
const NUMBERS: usize = 1 << 20;

/// One bit for each socket whose end signals the end of this process. The count says how many words
/// have ever been used.
static SOCKETS: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];
static WORDS: AtomicUsize = AtomicUsize::new(0);

/// Whether this process was forked from one that had such sockets. Its process number alone does
/// not show that, since a child in another PID namespace may have the same number.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Checks that this process is not a forked child. Of processes that were forked from each other,
/// the first one that asks passes.
///
/// # Errors
/// The process is a forked child, and must not use what it shares with its parent.
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

/// Whether this process was forked from one that had a socket by which peers learn of its end.
/// Unlike [`check`], it makes no system call.
pub fn is_forked() -> bool {
    // Relaxed: as in `check`.
    FORKED.load(Ordering::Relaxed)
}

/// Runs `before` before each later `fork` of this process, on the forking kernel thread. Afterwards
/// `parent` runs in the parent and `child` in the child. (A `clone` that bypasses the C library
/// runs none of them.)
///
/// # Errors
/// There is no memory.
pub fn watch(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> io::Result<()> {
    // SAFETY: the functions are there as long as the process.
    match unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A socket whose end tells a peer that this process has ended. In a forked child, an unconnected
/// socket replaces it under the same number. So the peer learns of the end however long the child
/// lives. (A `fork` between the making of the socket and this registration is the exception.)
#[derive(Debug)]
pub(crate) struct Vital {
    fd: OwnedFd,
}

impl Vital {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        static WATCHED: OnceLock<()> = OnceLock::new();
        // Without memory for the hook, a child keeps the parent's sockets.
        WATCHED.get_or_init(|| drop(watch(nothing, nothing, child)));
        let (word, bit) = place(fd.as_raw_fd());
        if let Some(sockets) = SOCKETS.get(word) {
            // Relaxed: the child sees what the forking kernel thread has seen. A concurrent fork
            // comes too early in any case.
            sockets.fetch_or(bit, Ordering::Relaxed);
            WORDS.fetch_max(word + 1, Ordering::Relaxed);
        }
        Self { fd }
    }
}

impl Vital {
    /// Removes the registration: the socket's end tells peers nothing from now on.
    fn is_vital_no_more(&self) {
        // Done before the number can belong to another file.
        let (word, bit) = place(self.fd.as_raw_fd());
        if let Some(sockets) = SOCKETS.get(word) {
            // Release: this must not move after the close that follows. A fork copies the table of
            // files under the lock that the close has taken, and the memory afterwards. So if the
            // number belongs to another file in the child, the child also sees the bit cleared.
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

/// Runs in the child, on its only kernel thread. It makes system calls and allocates no memory.
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
        // No file number is free, so take the first one. SAFETY: in this process nothing uses it,
        // and it is replaced just now.
        unsafe { libc::close(first) };
        unconnected = none();
    }
    for socket in std::iter::once(first).chain(sockets).filter(|&socket| socket != unconnected) {
        // SAFETY: both are descriptors of this process. The second belongs to a `Vital`. Its
        // owner still holds it.
        unsafe { libc::dup3(unconnected, socket, libc::O_CLOEXEC) };
    }
    if unconnected != first {
        // SAFETY: made above, and known to nobody else.
        unsafe { libc::close(unconnected) };
    }
}
