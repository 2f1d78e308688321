//! The last words of a process that made a system call which it may not make.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// Who is told, or -1.
static LISTENER: AtomicI32 = AtomicI32::new(-1);

/// Where the kernel puts the number of the refused call into a `siginfo_t`, on processors of 64 bits.
const NUMBER: usize = 24;

/// The mark with which the message begins.
pub const MARK: u8 = b'F';

/// Has this process write [`MARK`] and the number of a system call that seccomp refuses by a trap, four bytes, to `listener`, and then end by `SIGSYS`.
/// `listener` stays open until the process ends.
///
/// # Errors
/// What `sigaction` says.
pub fn tell(listener: BorrowedFd<'static>) -> io::Result<()> {
    // Relaxed: the handler is installed after it, by a system call.
    LISTENER.store(listener.as_raw_fd(), Ordering::Relaxed);
    // SAFETY: all-zero is a value of this plain C struct.
    let mut new: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // The second one, which the handler sends, meets the default.
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND | libc::SA_NODEFER;
    new.sa_sigaction = on_forbidden as *const () as libc::sighandler_t;
    // SAFETY: the handler has the signature that goes with the flags.
    match unsafe { libc::sigaction(libc::SIGSYS, &new, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_forbidden(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a whole `siginfo_t` of 128 bytes, and the number lies within.
    let at = unsafe { info.cast::<u8>().add(NUMBER) };
    // SAFETY: as above; whatever the bytes are, they are a number.
    let number = unsafe { at.cast::<i32>().read_unaligned() };
    let [a, b, c, d] = number.to_ne_bytes();
    let said = [MARK, a, b, c, d];
    // Relaxed: see `tell`.
    let listener = LISTENER.load(Ordering::Relaxed);
    // SAFETY: the bytes are ours; a descriptor that is none is refused.
    unsafe { libc::write(listener, said.as_ptr().cast(), said.len()) };
    // SAFETY: it takes nothing.
    let process = unsafe { libc::getpid() };
    // SAFETY: it takes nothing.
    let thread = unsafe { libc::gettid() };
    // SAFETY: three numbers; it ends this process.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGSYS) };
}
