//! Signals that are read from a file, so that a thread can wait for them beside other files.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// SIGCHLD: a child has ended.
pub const CHILD: i32 = libc::SIGCHLD;

/// The signals by which users and supervisors speak to a program, and which a program that stands
/// for another one passes on.
pub const FOR_PROGRAMS: [i32; 8] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
];

/// Signals of this process that come to a file instead of a handler.
#[derive(Debug)]
pub struct SignalFile {
    file: OwnedFd,
    signals: libc::sigset_t,
}

/// A signal that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalRead {
    /// Its number.
    pub number: i32,
    /// Whether a process has sent it. Otherwise the kernel did: a terminal's signals come to all
    /// processes in its foreground.
    pub is_from_process: bool,
}

impl SignalFile {
    /// Has these signals come to a file. Call it before this process starts its first thread: other
    /// threads still handle them.
    ///
    /// # Errors
    /// There is no such signal, or too many files are open.
    pub fn new(signals: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the call initializes the set.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: it was initialized.
        let mut set = unsafe { set.assume_init() };
        for &signal in signals {
            // SAFETY: the set is initialized; a number that is no signal is refused.
            if unsafe { libc::sigaddset(&mut set, signal) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        change_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: the set is initialized, and -1 stands for a new file.
        let file = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has returned a new file, which nobody else has.
        Ok(Self { file: unsafe { OwnedFd::from_raw_fd(file) }, signals: set })
    }

    /// The next signal that has come, if there is one.
    pub fn read(&self) -> Option<SignalRead> {
        const LEN: usize = size_of::<libc::signalfd_siginfo>();
        let mut bytes = [0; LEN];
        if rustix::io::read(&self.file, &mut bytes).ok()? != LEN {
            return None;
        }
        // The number stands first, and the code as the third number of 32 bits.
        let word = |n: usize| bytes.as_chunks::<4>().0.get(n).map(|word| i32::from_ne_bytes(*word));
        let is_from_process = matches!(word(2)?, libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL);
        Some(SignalRead { number: word(0)?, is_from_process })
    }

    /// The program that `command` starts has these signals as usual.
    pub fn unblock_in(&self, command: &mut Command) {
        let signals = self.signals;
        // SAFETY: between `fork` and `exec` the closure makes one system call, and takes neither
        // locks nor memory.
        unsafe { command.pre_exec(move || change_mask(libc::SIG_UNBLOCK, &signals)) };
    }
}

impl AsFd for SignalFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn change_mask(how: i32, signals: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is initialized, and the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(how, signals, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::children;

    #[test]
    fn a_signal_says_whether_a_process_has_sent_it() {
        // It concerns this test's thread alone.
        let file = SignalFile::new(&[libc::SIGURG]).unwrap();
        assert_eq!(file.read(), None);
        crate::thread::current().signal(libc::SIGURG).unwrap();
        assert_eq!(file.read(), Some(SignalRead { number: libc::SIGURG, is_from_process: true }));
        assert_eq!(file.read(), None);
        let mut command = Command::new("sh");
        command.args(["-c", "trap 'exit 7' URG; echo ready; while :; do sleep 0.1; done"]);
        command.stdout(std::process::Stdio::piped());
        file.unblock_in(&mut command);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        children::send(child.id(), libc::SIGURG).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }
}
