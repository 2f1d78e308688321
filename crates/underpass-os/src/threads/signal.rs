//! Signals by which kernel threads of this process interrupt each other.

use crate::fault;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

/// Signal numbers are below this.
const SIGNALS: usize = 65;

/// The function that runs in the handler, by the signal's number.
static HANDLERS: [OnceLock<fn()>; SIGNALS] = [const { OnceLock::new() }; SIGNALS];

/// As `HANDLERS`, for functions that run on the fault stack and learn which instruction they
/// interrupted.
static ASIDE: [OnceLock<fn(usize)>; SIGNALS] = [const { OnceLock::new() }; SIGNALS];

/// The signal that a terminal sends for Ctrl-\\. By default it ends a program.
pub const QUIT: i32 = libc::SIGQUIT;
/// The signal that comes to a kernel thread when it writes to a connection without a reader.
pub const PIPE: i32 = libc::SIGPIPE;
/// The signal that [`alarm`] sends.
pub const ALARM: i32 = libc::SIGALRM;

/// The `n`th real-time signal that the C library leaves to programs.
///
/// # Panics
/// If there are not that many.
pub fn realtime(n: i32) -> i32 {
    let signal = libc::SIGRTMIN() + n;
    assert!(signal <= libc::SIGRTMAX(), "there is no real-time signal number {n}");
    signal
}

/// Runs `handler` whenever `signal` comes to a kernel thread of this process, on the stack of the
/// interrupted code.
///
/// While it runs, the signal is blocked on its kernel thread. `errno` is restored afterwards.
/// System calls that can be restarted are restarted. `handler` may use only atomics, futexes and
/// thread-local words that its kernel thread has used before. The interrupted code may hold any
/// lock, the allocator's among them.
///
/// # Errors
/// `AddrInUse` if this process handles the signal in another way already: choose another signal.
/// `AlreadyExists` if another handler was given to this function before, for this signal.
/// `InvalidInput` if there is no such signal.
pub fn install(signal: i32, handler: fn()) -> io::Result<()> {
    let place = usize::try_from(signal).ok().and_then(|number| HANDLERS.get(number));
    let place = place.ok_or(io::ErrorKind::InvalidInput)?;
    if *place.get_or_init(|| handler) as usize != handler as usize {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this process has another handler already"));
    }
    // Not SA_ONSTACK: an interrupted thread may stay in the handler for long, and needs a stack of
    // its own.
    take(signal, on_signal as *const () as libc::sighandler_t, libc::SA_RESTART)
}

/// Restores the default action of `signal`, if [`install`] has installed its handler.
pub(crate) fn uninstall(signal: i32) {
    let ours = on_signal as *const () as libc::sighandler_t;
    if action(signal, None).is_ok_and(|found| found == ours) {
        // This cannot fail, because the same number has just been asked about.
        let _ = action(signal, Some((libc::SIG_DFL, 0)));
    }
}

/// As [`install`], but the handler runs on the kernel thread's fault stack if it has one (see
/// [`fault`]). `handler` gets the address of the interrupted instruction, or 0 where it is not
/// known.
///
/// # Errors
/// The errors of [`install`].
pub fn install_aside(signal: i32, handler: fn(usize)) -> io::Result<()> {
    let place = usize::try_from(signal).ok().and_then(|number| ASIDE.get(number));
    let place = place.ok_or(io::ErrorKind::InvalidInput)?;
    if *place.get_or_init(|| handler) as usize != handler as usize {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this process has another handler already"));
    }
    let flags = libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_SIGINFO;
    take(signal, on_signal_aside as *const () as libc::sighandler_t, flags)
}

/// Makes `signal` interrupt the system call in which its kernel thread waits, without any other
/// effect.
///
/// # Errors
/// The errors of [`install`].
pub fn install_interrupting(signal: i32) -> io::Result<()> {
    take(signal, on_interrupting as *const () as libc::sighandler_t, 0)
}

extern "C" fn on_interrupting(_: i32) {}

/// Makes this process ignore `signal`.
///
/// # Errors
/// `InvalidInput` if `signal` cannot be ignored.
pub fn ignore(signal: i32) -> io::Result<()> {
    action(signal, Some((libc::SIG_IGN, 0))).map(|_| ())
}

/// Makes `ours` the handler of `signal`, if it has none.
fn take(signal: i32, ours: libc::sighandler_t, flags: i32) -> io::Result<()> {
    let found = action(signal, None)?;
    if found == ours {
        return Ok(());
    }
    if found != libc::SIG_DFL && found != libc::SIG_IGN {
        let said = format!("something else in this process handles signal {signal}");
        return Err(io::Error::new(io::ErrorKind::AddrInUse, said));
    }
    action(signal, Some((ours, flags))).map(|_| ())
}

/// Sets the handler of `signal`, if one is given. Returns the earlier handler.
pub(crate) fn action(
    signal: i32,
    handler: Option<(libc::sighandler_t, i32)>,
) -> io::Result<libc::sighandler_t> {
    // SAFETY: all-zero is a value of this plain C struct: no flags, an empty mask, the default
    // action.
    let mut new: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut old = new;
    (new.sa_sigaction, new.sa_flags) = handler.unwrap_or((libc::SIG_DFL, 0));
    let set = if handler.is_some() { ptr::from_ref(&new) } else { ptr::null() };
    // SAFETY: `set` is null or points to a whole struct, `old` to another; the handler has the
    // signature that goes with the flags.
    match unsafe { libc::sigaction(signal, set, &mut old) } {
        0 => Ok(old.sa_sigaction),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_signal(signal: i32) {
    // SAFETY: this takes nothing, and returns the address of this kernel thread's own `errno`.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the address is valid for as long as the kernel thread lives.
    let before = unsafe { errno.read() };
    if let Some(handler) = HANDLERS.get(signal as usize).and_then(OnceLock::get) {
        handler();
    }
    // SAFETY: as above.
    unsafe { errno.write(before) };
}

extern "C" fn on_signal_aside(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: as in `on_signal`.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as in `on_signal`.
    let before = unsafe { errno.read() };
    if let Some(handler) = ASIDE.get(signal as usize).and_then(OnceLock::get) {
        handler(fault::instruction(context));
    }
    // SAFETY: as in `on_signal`.
    unsafe { errno.write(before) };
}

/// Sends [`ALARM`] to this process after that many seconds. A handler may call this.
pub fn alarm(seconds: u32) {
    // SAFETY: it takes a number, and is one system call.
    unsafe { libc::alarm(seconds) };
}

/// Ends this process with `status`, without running any clean-up. A handler may call this.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: it takes a number, and is one system call.
    unsafe { libc::_exit(status) }
}

/// Unblocks `signal` on the calling kernel thread.
///
/// # Errors
/// `InvalidInput` if there is no such signal.
pub fn unblock(signal: i32) -> io::Result<()> {
    mask(libc::SIG_UNBLOCK, signal)
}

/// Blocks `signal` on the calling kernel thread until [`unblock`].
///
/// # Errors
/// `InvalidInput` if there is no such signal.
pub fn block(signal: i32) -> io::Result<()> {
    mask(libc::SIG_BLOCK, signal)
}

fn mask(how: i32, signal: i32) -> io::Result<()> {
    // SAFETY: all-zero is a value of this plain C struct.
    let mut set: libc::sigset_t = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: `set` is a whole set of ours.
    unsafe { libc::sigemptyset(&mut set) };
    // SAFETY: as above; a number that is no signal is refused.
    if unsafe { libc::sigaddset(&mut set, signal) } != 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: `set` is initialized, and the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(how, &set, ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::current;
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }

    fn count() {
        COUNT.set(COUNT.get() + 1);
        // This fails, and sets `errno`.
        let _ = rustix::fs::open("", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty());
    }

    #[test]
    fn a_signal_comes_to_the_one_it_is_sent_to_when_it_may() {
        let signal = realtime(9);
        install(signal, count).unwrap();
        install(signal, count).unwrap();
        assert_eq!(install(signal, || ()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        COUNT.set(0);
        // A signal to the thread itself has been handled when the call returns.
        current().signal(signal).unwrap();
        assert_eq!(COUNT.get(), 1);
        block(signal).unwrap();
        current().signal(signal).unwrap();
        assert_eq!(COUNT.get(), 1);
        unblock(signal).unwrap();
        assert_eq!(COUNT.get(), 2);
    }

    #[test]
    fn a_handler_aside_is_told_what_it_interrupts() {
        fn note(instruction: usize) {
            COUNT.set(u32::from(instruction != 0) + 1);
        }
        let signal = realtime(12);
        install_aside(signal, note).unwrap();
        COUNT.set(0);
        current().signal(signal).unwrap();
        assert_eq!(COUNT.get(), 1 + u32::from(cfg!(target_arch = "x86_64")));
    }

    #[test]
    fn errno_is_kept() {
        let signal = realtime(10);
        install(signal, count).unwrap();
        // SAFETY: it takes nothing.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: it is this kernel thread's own.
        unsafe { errno.write(libc::EXDEV) };
        current().signal(signal).unwrap();
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EXDEV));
    }

    #[test]
    fn a_handler_of_somebody_else_is_left_alone() {
        extern "C" fn other(_: i32) {}
        let signal = realtime(11);
        action(signal, Some((other as *const () as libc::sighandler_t, 0))).unwrap();
        assert_eq!(install(signal, count).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn there_is_no_signal_number_1000() {
        assert_eq!(install(1000, count).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(block(1000).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
