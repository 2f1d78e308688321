//! Reports system calls that a seccomp filter does not allow to another process.
//!
//! A filter can make the kernel hold a call up and notify the owner of the filter's *listener*, a
//! descriptor. No signal handler in the calling process can prevent that.

use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// One instruction of a filter.
pub use libc::sock_filter as Instruction;

/// The code of an instruction that returns a constant (`BPF_RET | BPF_K`).
const RETURN: u16 = 6;

/// The descriptor that receives the notifications of a filter.
#[derive(Debug)]
pub struct SeccompListener(OwnedFd);

/// An event that a [`SeccompListener`] receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// A kernel thread makes the forbidden call of this number, and is held up.
    Call(i64),
    /// A kernel thread has made a forbidden call, and a signal has ended that call before it could
    /// be examined.
    TakenBack,
    /// A signal came to the listening kernel thread.
    Interrupted,
    /// No kernel thread is behind the filter any more.
    Ended,
}

impl SeccompListener {
    /// Puts a filter around all kernel threads of this process, for good. Where `program` returns
    /// `SECCOMP_RET_TRAP`, the kernel holds the call up and notifies the listener. If another
    /// filter's answer is stricter, that answer counts.
    ///
    /// When the last copy of the listener is closed, a call that is held up fails with `ENOSYS`.
    ///
    /// # Errors
    /// `ResourceBusy` if this process is already behind a filter with a listener, for example a
    /// container's. `InvalidInput` before Linux 5.7. No filter is installed then.
    pub fn install(program: &[Instruction]) -> io::Result<Self> {
        let mut program = program.to_vec();
        for instruction in &mut program {
            if instruction.code == RETURN && instruction.k == libc::SECCOMP_RET_TRAP {
                instruction.k = libc::SECCOMP_RET_USER_NOTIF;
            }
        }
        let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
        rustix::thread::set_no_new_privs(true)?;
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER
            | libc::SECCOMP_FILTER_FLAG_TSYNC
            | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
        // SAFETY: the kernel copies `len` instructions, which are there.
        let made = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
        };
        match i32::try_from(made) {
            // SAFETY: the kernel has just opened it for the caller.
            Ok(made @ 0..) => Ok(Self(unsafe { OwnedFd::from_raw_fd(made) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A listener that another process has installed and passed.
    pub fn adopt(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Waits for the next event. When no kernel thread is behind the filter any more, Linux before
    /// 6.11 keeps waiting. A signal to the waiting thread ends that wait, if its handler was
    /// installed by [`install_interrupting`](crate::signal::install_interrupting).
    ///
    /// No call is missed: the kernel counts the calls, also those that a signal ended.
    ///
    /// # Errors
    /// The descriptor is no listener.
    pub fn next(&self) -> io::Result<Notification> {
        // SAFETY: all-zero is a value of this plain C struct, and what the kernel asks for.
        let mut call: libc::seccomp_notif = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the kernel writes a whole struct of this size, which the request names.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
        if done == 0 {
            return Ok(Notification::Call(call.data.nr.into()));
        }
        match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(Notification::Interrupted),
            e if e.raw_os_error() == Some(libc::ENOENT) => {
                Ok(if self.has_ended()? { Notification::Ended } else { Notification::TakenBack })
            }
            e => Err(e),
        }
    }

    fn has_ended(&self) -> io::Result<bool> {
        let mut asked = [PollFd::new(&self.0, PollFlags::empty())];
        rustix::io::retry_on_intr(|| poll(&mut asked, Some(&Default::default())))?;
        Ok(asked[0].revents().contains(PollFlags::HUP))
    }
}

impl AsFd for SeccompListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal;
    use crate::thread::{Tid, current};
    use std::process::Command;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    const SELF: &str = "sandbox::forbidden::tests::a_listener_hears_of_calls_until_it_is_interrupted";
    const BEHIND: &str = "UNDERPASS_TEST_BEHIND_A_FILTER";
    const NUMBER: i64 = libc::SYS_vhangup;

    /// Sends the kernel thread's number, then makes the forbidden call. Returns the `errno`.
    fn call(tell: Sender<Tid>) -> Option<i32> {
        tell.send(current()).unwrap();
        // SAFETY: it takes nothing, and is not made.
        let done = unsafe { libc::syscall(NUMBER) };
        assert_eq!(done, -1);
        io::Error::last_os_error().raw_os_error()
    }

    /// Runs in a process of its own, which stays behind the filter.
    #[test]
    fn a_listener_hears_of_calls_until_it_is_interrupted() {
        if std::env::var_os(BEHIND).is_none() {
            let mut again = Command::new(std::env::current_exe().unwrap());
            let ran = again.args([SELF, "--exact", "--nocapture"]).env(BEHIND, "1").output().unwrap();
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success() && said.contains("1 passed"), "{said}{ran:?}");
            return;
        }
        // Loads the number; returns `TRAP` for this one, and `ALLOW` for all others.
        let is = Instruction { code: 0x15, jt: 0, jf: 1, k: NUMBER as u32 };
        let returns = |k| Instruction { code: RETURN, jt: 0, jf: 0, k };
        let load = Instruction { code: 0x20, jt: 0, jf: 0, k: 0 };
        let program = [load, is, returns(libc::SECCOMP_RET_TRAP), returns(libc::SECCOMP_RET_ALLOW)];
        let listener = SeccompListener::install(&program).unwrap();
        // A process can have only one listener.
        let second = SeccompListener::install(&program).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::ResourceBusy);
        let signal = signal::realtime(13);
        signal::install_interrupting(signal).unwrap();
        let (tell, told) = channel();

        // A signal ends the call before the listener examines it. The kernel has counted it.
        let its_tell = tell.clone();
        let caller = std::thread::spawn(|| call(its_tell));
        let tid = told.recv().unwrap();
        poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).unwrap();
        tid.signal(signal).unwrap();
        assert_eq!(caller.join().unwrap(), Some(libc::EINTR));
        assert_eq!(listener.next().unwrap(), Notification::TakenBack);

        let its_tell = tell.clone();
        let caller = std::thread::spawn(|| call(its_tell));
        told.recv().unwrap();
        assert_eq!(listener.next().unwrap(), Notification::Call(NUMBER));
        let listens = std::thread::spawn(move || {
            tell.send(current()).unwrap();
            (listener.next().unwrap(), listener)
        });
        let tid = told.recv().unwrap();
        // A signal that comes before the thread waits ends nothing, so signals are sent repeatedly.
        // Without a pause they would queue up and keep the thread in its handler.
        while !listens.is_finished() {
            tid.signal(signal).unwrap_or(());
            std::thread::sleep(Duration::from_millis(1));
        }
        let (heard, listener) = listens.join().unwrap();
        assert_eq!(heard, Notification::Interrupted);
        drop(listener);
        assert_eq!(caller.join().unwrap(), Some(libc::ENOSYS));
    }
}
