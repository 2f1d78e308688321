//! A region of tests, and a process that is a member of it.

use crate::server::Room;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use underpass::shared::{Barrier, Condvar, LockError, Mutex, MutexGuard, RwLock, Semaphore, SyncError};

/// Two numbers that are equal, except in the middle of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, underpass::Shareable)]
#[repr(C)]
pub struct Pair {
    /// Changed first.
    pub a: u64,
    /// Changed second.
    pub b: u64,
}

/// One object of each kind.
#[derive(Debug, underpass::RegionLayout)]
pub struct Commons {
    /// Counted up.
    pub pair: Mutex<Pair>,
    /// Even or odd: it says which side's turn it is.
    pub turn: Mutex<u64>,
    /// `turn` has changed.
    pub changed: Condvar,
    /// At first none.
    pub permits: Semaphore,
    /// Of two threads.
    pub barrier: Barrier<2>,
    /// Equal numbers.
    pub table: RwLock<[u64; 8]>,
}

/// The lock that was asked for, with the data whole: if an owner has died, they are repaired.
///
/// # Errors
/// The lock was not taken.
///
/// # Panics
/// If the two numbers differ though nobody died, or by more than a dead owner can leave.
pub fn repair<'a>(
    locked: Result<MutexGuard<'a, Pair>, LockError<underpass::shared::Recovery<MutexGuard<'a, Pair>>>>,
) -> Result<MutexGuard<'a, Pair>, SyncError> {
    match locked {
        Ok(guard) => {
            let Pair { a, b } = guard.get()?;
            assert_eq!(a, b, "nobody died in the middle of a change");
            Ok(guard)
        }
        Err(LockError::OwnerDied(mut broken)) => {
            let Pair { a, b } = broken.get()?;
            assert!(a == b || a == b + 1, "a dead owner has left {a} and {b}");
            broken.set(Pair { a, b: a });
            Ok(broken.repaired())
        }
        Err(LockError::Failed(why)) => Err(why),
    }
}

/// A process that is a member of a region. It is killed when dropped.
#[derive(Debug)]
pub struct MemberProcess {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// The process goes on, or ends, when this is closed.
    orders: Option<ChildStdin>,
}

impl MemberProcess {
    /// Starts `binary` (`env!("CARGO_BIN_EXE_underpass-test-shared")`) with `arguments`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(binary: &str, arguments: &[&str]) -> Self {
        Self::start_with(binary, arguments, |_| {})
    }

    /// As [`start`](Self::start), with a change to the command.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_with(binary: &str, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        Room::directory();
        let mut command = Command::new(binary);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().expect("the member starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let orders = child.stdin.take();
        Self { child, lines, orders }
    }

    /// The next line that it prints. Empty if it has ended.
    ///
    /// # Panics
    /// If it can't be read.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a pipe can be read");
        line.trim_end().to_owned()
    }

    /// Waits until it prints `line`.
    ///
    /// # Panics
    /// If it prints another one.
    pub fn says(&mut self, line: &str) {
        assert_eq!(self.line(), line);
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go on from where it waits for orders.
    pub fn go_on(&mut self) {
        self.orders = None;
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// If it ends with an error.
    pub fn ends(mut self) {
        self.orders = None;
        let status = self.child.wait().expect("a child can be waited for");
        assert!(status.success(), "the member ended: {status}");
    }

    /// Whether it has ended, however.
    ///
    /// # Panics
    /// If it can't be waited for.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Waits until it is gone, however it ends.
    ///
    /// # Panics
    /// If it can't be waited for.
    pub fn is_gone(&mut self) {
        self.child.wait().expect("a child can be waited for");
    }

    /// `kill -9`, if it lives.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

impl Drop for MemberProcess {
    fn drop(&mut self) {
        // If it has ended already, that is fine too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
