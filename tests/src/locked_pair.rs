//! A pair of numbers under a hybrid lock.

use crate::commons::Pair;
use underpass::homed::lock::{HybridFailure, HybridGuard, HybridLockError, HybridLockResult};

/// The lock that was asked for, with the data whole: if an owner has died, they are repaired.
///
/// # Errors
/// The lock was not taken.
///
/// # Panics
/// If the two numbers differ though nobody died, or by more than a dead owner can leave.
pub fn repaired(locked: HybridLockResult<'_, Pair>) -> Result<HybridGuard<'_, Pair>, HybridFailure> {
    match locked {
        Ok(guard) => {
            let Pair { a, b } = guard.get()?;
            assert_eq!(a, b, "nobody died in the middle of a change");
            Ok(guard)
        }
        Err(HybridLockError::OwnerDied(mut broken)) => {
            let Pair { a, b } = broken.get()?;
            assert!(a == b || a == b + 1, "a dead owner has left {a} and {b}");
            broken.set(Pair { a, b: a });
            Ok(broken.repaired())
        }
        Err(HybridLockError::Failed(why)) => Err(why),
    }
}

/// Counts a pair up, in two steps.
///
/// # Errors
/// The lock was not taken.
///
/// # Panics
/// As [`repaired`].
pub fn count_pair_up(locked: HybridLockResult<'_, Pair>) -> Result<(), HybridFailure> {
    let mut pair = repaired(locked)?;
    let Pair { a, b } = pair.get()?;
    pair.set(Pair { a: a + 1, b });
    pair.set(Pair { a: a + 1, b: b + 1 });
    Ok(())
}

/// The name of the permits beside the pair `name`.
pub fn permits_of(name: &str) -> String {
    format!("{name}-permits")
}
