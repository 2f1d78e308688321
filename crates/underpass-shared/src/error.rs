//! Why an operation on shared memory has failed.

use std::error::Error;
use std::fmt;

/// Why an operation on an object of a region has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncError {
    /// The deadline passed. *Remedy:* try again, or find out which member holds the object; one
    /// that is stopped holds what it has.
    TimedOut,
    /// The object is in use, and the caller did not want to wait. *Remedy:* wait.
    WouldBlock,
    /// An owner died, and its successor gave the data up. *Remedy:* export a new region.
    Poisoned,
    /// An owner died or panicked, and the data were not repaired yet; only a writer can do that.
    /// *Remedy:* take the lock to write.
    Broken,
    /// The region's exporter has died, has closed the region, or has ended this domain's
    /// membership. *Remedy:* import the region again.
    Ended,
    /// The calling thread was cancelled while it waited. *Remedy:* let the thread end.
    Cancelled,
    /// The bytes are no value of their type: nobody has written one yet, or a member has spoilt
    /// them. *Remedy:* write a value.
    Invalid,
    /// There are no permits or readers that could be counted beyond those that are. *Remedy:* give
    /// some back.
    Full,
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "the deadline passed; look whether a member of the region is stopped",
            Self::WouldBlock => "the object is in use; wait for it",
            Self::Poisoned => "an owner died and its successor gave the data up; export a new region",
            Self::Broken => {
                "an owner died in the middle of a change; take the lock to write, and repair the data"
            }
            Self::Ended => {
                "the region's exporter is gone, or has ended this membership; import the region again"
            }
            Self::Cancelled => "the wait ended because the thread was cancelled; let the thread end",
            Self::Invalid => "the bytes in shared memory are no value of their type; write a value",
            Self::Full => "no more can be counted; give some back first",
        })
    }
}

impl Error for SyncError {}

/// Why a lock was not taken as usual.
///
/// `R` is what the next owner gets: see [`Recovery`](crate::Recovery).
#[must_use]
pub enum LockError<R> {
    /// The lock is taken. Its last owner died or panicked while it held it, so the data may be half
    /// changed. *Remedy:* check or repair them, then [`repaired`](crate::Recovery::repaired).
    OwnerDied(R),
    /// The lock is not taken.
    Failed(SyncError),
}

impl<R> LockError<R> {
    /// Why the lock was not taken, or `None` if it was.
    pub fn failure(&self) -> Option<SyncError> {
        match self {
            Self::OwnerDied(_) => None,
            Self::Failed(why) => Some(*why),
        }
    }
}

impl<R> From<SyncError> for LockError<R> {
    fn from(why: SyncError) -> Self {
        Self::Failed(why)
    }
}

impl<R> fmt::Debug for LockError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerDied(_) => f.write_str("OwnerDied"),
            Self::Failed(why) => f.debug_tuple("Failed").field(why).finish(),
        }
    }
}

impl<R> fmt::Display for LockError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerDied(_) => f.write_str("the last owner died while it held the lock; repair the data"),
            Self::Failed(why) => why.fmt(f),
        }
    }
}

impl<R> Error for LockError<R> {}
