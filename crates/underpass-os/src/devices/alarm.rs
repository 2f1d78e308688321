//! A time at which a poller reports.

use rustix::io::read;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A `timerfd`: a [`Poller`](crate::Poller) that watches it reports it from a certain time on. No
/// operation blocks.
///
/// It is set once for many waits. A timeout of the poller would have to be set for each wait.
#[derive(Debug)]
pub struct Alarm {
    fd: OwnedFd,
}

impl Alarm {
    /// One that is not set.
    ///
    /// # Errors
    /// Too many open files.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { fd: timerfd_create(TimerfdClockId::Monotonic, flags)? })
    }

    /// It goes off at `when_ns` of [`clock::now_ns`](crate::clock::now_ns), and at no other time.
    pub fn set(&self, when_ns: u64) {
        // 0 would mean never.
        let when = when_ns.max(1);
        let at = Timespec { tv_sec: (when / 1_000_000_000) as i64, tv_nsec: (when % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        // It can fail only for a time that can't be.
        let _ = timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &once);
    }

    /// Ends its report. Returns whether it had gone off.
    pub fn has_gone_off(&self) -> bool {
        read(&self.fd, &mut [0; 8]).is_ok()
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ns;
    use crate::{Poller, Ready};

    #[test]
    fn it_goes_off_once_at_the_time_that_was_set_last() {
        let (alarm, poller) = (Alarm::new().unwrap(), Poller::new().unwrap());
        poller.add(&alarm, 7).unwrap();
        assert!(!alarm.has_gone_off(), "it is not set");
        alarm.set(u64::MAX / 4);
        assert_eq!(poller.wait(Some(0)).unwrap(), []);
        let when = now_ns() + 1_000_000;
        alarm.set(when);
        assert_eq!(poller.wait(None).unwrap(), [Ready::File(7)]);
        assert!(now_ns() >= when);
        assert!(alarm.has_gone_off() && !alarm.has_gone_off());
        alarm.set(0);
        assert_eq!(poller.wait(None).unwrap(), [Ready::File(7)], "a time that has passed");
    }
}
