//! Why a lock of an object was not taken as usual.

use std::error::Error;
use std::fmt;

/// Why an object's lock or permit was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HybridFailure {
    /// The deadline passed. *Remedy:* try again, or find out which domain holds the lock; one that
    /// is stopped holds what it has.
    TimedOut,
    /// Another thread has it. *Remedy:* wait for it.
    WouldBlock,
    /// The calling thread is in a critical section or a handler, or holds a lock at home. There it
    /// may take no lock of another home, and wait for no permit (Psyche, section 3.2). *Remedy:*
    /// leave it first.
    Masked,
    /// An owner died, and its successor gave the data up. *Remedy:* make a new object.
    Poisoned,
    /// The home has died or has ended the object. *Remedy:* import from a new home.
    HomeDied,
    /// The home has taken this domain's right to the object away. *Remedy:* ask its owner.
    Revoked,
    /// The bytes are no value of the type: another domain has spoilt them. *Remedy:* write a value.
    Invalid,
    /// A forked child has no object. *Remedy:* import in the child.
    Forked,
}

impl fmt::Display for HybridFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "the deadline passed; look whether a domain that holds the object is stopped",
            Self::WouldBlock => "the object is in use; wait for it",
            Self::Masked => {
                "no other home's lock and no permit is waited for in a critical section or a handler; leave it first"
            }
            Self::Poisoned => "an owner died and its successor gave the data up; make a new object",
            Self::HomeDied => "the object's home has died; import the object from a new home",
            Self::Revoked => "the object's home has revoked the right to it; ask its owner",
            Self::Invalid => "the bytes of the object are no value of its type; write a value",
            Self::Forked => "a forked child has no objects; import the object in the child",
        })
    }
}

impl Error for HybridFailure {}

/// Why a hybrid lock was not taken as usual.
///
/// `R` is what the next owner gets: a [`HybridRecovery`](super::HybridRecovery), or a
/// [`HybridHold`](super::HybridHold) in the manual form.
#[must_use]
pub enum HybridLockError<R> {
    /// The lock is taken. Its last owner died or panicked while it held it, so the data may be half
    /// changed. *Remedy:* check or repair them.
    OwnerDied(R),
    /// The lock is not taken.
    Failed(HybridFailure),
}

impl<R> HybridLockError<R> {
    /// Why the lock was not taken, or `None` if it was.
    pub fn failure(&self) -> Option<HybridFailure> {
        match self {
            Self::OwnerDied(_) => None,
            Self::Failed(why) => Some(*why),
        }
    }
}

impl<R> From<HybridFailure> for HybridLockError<R> {
    fn from(why: HybridFailure) -> Self {
        Self::Failed(why)
    }
}

impl<R> fmt::Debug for HybridLockError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerDied(_) => f.write_str("OwnerDied"),
            Self::Failed(why) => f.debug_tuple("Failed").field(why).finish(),
        }
    }
}

impl<R> fmt::Display for HybridLockError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerDied(_) => f.write_str("the last owner died while it held the lock; repair the data"),
            Self::Failed(why) => why.fmt(f),
        }
    }
}

impl<R> Error for HybridLockError<R> {}
