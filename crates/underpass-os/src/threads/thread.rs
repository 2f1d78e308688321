//! Kernel threads, as the kernel sees them.

use rustix::fs::{Mode, OFlags, open};
use std::ffi::CStr;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// The number of a kernel thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tid(i32);

impl Tid {
    /// As the system calls take it.
    pub(crate) fn pid(self) -> Option<rustix::process::Pid> {
        rustix::process::Pid::from_raw(self.0)
    }
}

/// The number of the calling kernel thread.
///
/// # Examples
/// ```
/// let other = std::thread::spawn(underpass_os::thread::current).join().unwrap();
/// assert_ne!(other, underpass_os::thread::current());
/// ```
pub fn current() -> Tid {
    Tid(rustix::thread::gettid().as_raw_pid())
}

/// The shortest slice that the kernel's fair scheduler gives, in ns.
const SHORTEST_SLICE: u64 = 100_000;

/// Gives the calling kernel thread the shortest slice of the kernel's fair scheduler. When it is
/// woken, it then interrupts kernel threads of longer slices at once (Linux 6.12), instead of at
/// the end of theirs. It gets no more processor time than before, and needs no privilege.
///
/// # Errors
/// The kernel or a sandbox refuses the call. The thread is scheduled in another way (`chrt`).
///
/// # Examples
/// ```
/// if underpass_os::thread::shorten_slice().is_err() {
///     println!("it is woken as any other thread");
/// }
/// ```
pub fn shorten_slice() -> io::Result<()> {
    // SAFETY: it consists of integers, for which all zeros are a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of_val(&attributes) as u32;
    let of = &raw mut attributes;
    // SAFETY: the kernel writes at most `size` bytes there.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, of, size, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // Its policy and its niceness stay.
    (attributes.size, attributes.sched_runtime) = (size, SHORTEST_SLICE);
    // SAFETY: the kernel reads `size` bytes there.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// All kernel threads of this process at this moment.
///
/// # Errors
/// There is no `/proc`.
pub fn all() -> io::Result<Vec<Tid>> {
    let found = std::fs::read_dir("/proc/self/task")?;
    Ok(found.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Tid)).collect())
}

/// A number that distinguishes the calling kernel thread from every other living one. It is never
/// 0, is a multiple of 16, and has no other meaning.
///
/// It takes one instruction and is read anew each time. So it is also right in a user-level thread
/// that has moved to another kernel thread meanwhile.
///
/// # Examples
/// ```
/// use underpass_os::thread::here;
/// assert_eq!(here(), here());
/// std::thread::scope(|scope| assert_ne!(scope.spawn(here).join().unwrap(), here()));
/// ```
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
#[inline(always)]
pub fn here() -> usize {
    let thread: usize;
    // SAFETY: the ABI has the kernel thread's control block at `fs:0`, and there the block's own
    // address; nothing is written.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("mov {}, fs:[0]", out(reg) thread, options(nostack, preserves_flags, readonly));
    }
    // SAFETY: the ABI has the address of the kernel thread's control block in this register;
    // nothing is written.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) thread, options(nostack, preserves_flags, nomem));
    }
    thread
}

/// As above, without assembly.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
#[inline(never)]
pub fn here() -> usize {
    #[repr(align(16))]
    struct Place(#[allow(dead_code)] u8);
    thread_local!(static PLACE: Place = const { Place(0) });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// A word in which other threads find the number of the kernel thread that runs something, if one
/// does.
///
/// # Examples
/// ```
/// use underpass_os::thread::{TidCell, current};
/// let runs = TidCell::new();
/// assert_eq!(runs.get(), None);
/// runs.set(Some(current()));
/// assert_eq!(runs.get(), Some(current()));
/// ```
#[derive(Debug, Default)]
pub struct TidCell(AtomicI32);

impl TidCell {
    /// Without a kernel thread.
    pub const fn new() -> Self {
        Self(AtomicI32::new(0))
    }

    /// Sets the kernel thread, or none.
    pub fn set(&self, tid: Option<Tid>) {
        // Relaxed, here and below: the number stands by itself.
        self.0.store(tid.map_or(0, |tid| tid.0), Ordering::Relaxed);
    }

    /// The kernel thread.
    pub fn get(&self) -> Option<Tid> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&number| number != 0).map(Tid)
    }
}

impl Tid {
    /// The plain number.
    pub fn as_raw(self) -> i32 {
        self.0
    }

    /// Whether it has not ended yet.
    pub fn exists(self) -> bool {
        self.signal(0).is_ok()
    }

    /// Sends `signal` to this kernel thread of this process (`tgkill`).
    ///
    /// # Errors
    /// `NotFound` if it has ended. `WouldBlock` if too many signals are pending already (`ulimit
    /// -i`).
    pub fn signal(self, signal: i32) -> io::Result<()> {
        let process = rustix::process::getpid().as_raw_pid();
        // SAFETY: `tgkill` takes three numbers and touches no memory of ours.
        match unsafe { libc::syscall(libc::SYS_tgkill, process, self.0, signal) } {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                e if e.raw_os_error() == Some(libc::ESRCH) => Err(io::ErrorKind::NotFound.into()),
                e => Err(e),
            },
        }
    }

    /// The address of the futex word on which this kernel thread of this process sleeps, if it
    /// does.
    pub fn sleeps_on(self) -> Option<usize> {
        let line = std::fs::read_to_string(format!("/proc/self/task/{}/syscall", self.0)).ok()?;
        parse_call(&line)
    }
}

/// A line holds the number of the system call and its arguments. The first argument is the address.
fn parse_call(line: &str) -> Option<usize> {
    let mut words = line.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let first = usize::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    (number == libc::SYS_futex).then_some(first)
}

/// What a kernel thread does, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It runs, or is ready to run.
    Running,
    /// It sleeps in the kernel, for an event (`S`) or for a device or a page (`D`).
    Blocked,
    /// It is stopped, or is ending.
    Other,
}

/// A kernel thread of this process whose state is read repeatedly.
#[derive(Debug)]
pub struct Task {
    stat: OwnedFd,
}

impl Task {
    /// Opens the kernel thread of this number. It takes no memory, and neither does
    /// [`state`](Self::state).
    ///
    /// # Errors
    /// `NotFound` if there is no such thread, or no `/proc`. Too many files are open.
    pub fn open(tid: Tid) -> io::Result<Self> {
        let mut path = [0u8; 40];
        // The rest stays zero, and ends the path.
        write!(&mut path[..], "/proc/self/task/{}/stat", tid.0)?;
        let path = CStr::from_bytes_until_nul(&path).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(Self { stat: open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())? })
    }

    /// Its current state.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn state(&self) -> io::Result<TaskState> {
        let mut line = [0u8; 128];
        let read = rustix::io::pread(&self.stat, &mut line, 0)?;
        Ok(parse(&line[..read]))
    }
}

/// The state follows the name. The name is in parentheses, may contain parentheses itself, and has
/// at most 15 bytes.
fn parse(line: &[u8]) -> TaskState {
    let name_ends = line.iter().rposition(|&byte| byte == b')');
    match name_ends.and_then(|at| line.get(at + 2)) {
        Some(b'R') => TaskState::Running,
        Some(b'S' | b'D') => TaskState::Blocked,
        _ => TaskState::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_short_slice_changes_neither_policy_nor_niceness() {
        let of = || {
            let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", current().0)).unwrap();
            let words: Vec<_> = stat.rsplit(')').next().unwrap().split_ascii_whitespace().collect();
            // The niceness and the policy.
            (words[16].to_owned(), words[38].to_owned())
        };
        let before = of();
        // It may be refused, for example on another kernel.
        let _ = shorten_slice();
        assert_eq!(of(), before);
    }

    #[test]
    fn a_name_can_hold_anything() {
        assert_eq!(parse(b"12 (a) S (b)) R 1 2"), TaskState::Running);
        assert_eq!(parse(b"12 (x) D 1"), TaskState::Blocked);
        assert_eq!(parse(b"12 (x) Z 1"), TaskState::Other);
        assert_eq!(parse(b""), TaskState::Other);
        assert_eq!(parse(b"12 (x)"), TaskState::Other);
    }

    #[test]
    fn only_a_sleep_on_a_word_is_one() {
        let line = format!("{} 0x7f00 0x80 0x2 0x0 0x0 0x0 0x7ffe 0x7f12\n", libc::SYS_futex);
        assert_eq!(parse_call(&line), Some(0x7f00));
        assert_eq!(parse_call("0 0x3 0x7f00 0x2 0x0 0x0 0x0 0x7ffe 0x7f12\n"), None);
        assert_eq!(parse_call("running\n"), None);
        assert_eq!(current().sleeps_on(), None);
    }

    #[test]
    fn a_running_thread_and_a_blocked_one_have_their_states() {
        assert_eq!(Task::open(current()).unwrap().state().unwrap(), TaskState::Running);
        let (say, heard) = mpsc::channel();
        let (end, wait) = mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            say.send(current()).unwrap();
            wait.recv().unwrap_err();
        });
        let task = Task::open(heard.recv().unwrap()).unwrap();
        while task.state().unwrap() != TaskState::Blocked {
            std::thread::yield_now();
        }
        drop(end);
        other.join().unwrap();
    }

    #[test]
    fn a_thread_that_does_not_exist_cannot_be_signalled() {
        assert_eq!(Tid(i32::MAX).signal(0).unwrap_err().kind(), io::ErrorKind::NotFound);
        current().signal(0).unwrap();
    }
}
