//! Names that types of `underpass-shared` have in common with others.

use super::names::Namesakes;
use super::namesakes::STAND_IN;

/// Their rows.
pub const NAMESAKES: &[Namesakes] = &[
    Namesakes {
        names: &["TaskWaker"],
        files: &["crates/underpass-shared/src/runtime.rs", "crates/underpass-shared/src/task.rs"],
        because: STAND_IN,
    },
    Namesakes {
        names: &["RegionWords"],
        files: &["crates/underpass-shared/src/words.rs", "crates/underpass-shared/src/words.rs"],
        because: "under loom, words that it watches take the place of mapped memory",
    },
    Namesakes {
        names: &["Region"],
        files: &["crates/underpass-channel/src/region.rs", "crates/underpass-shared/src/region.rs"],
        because: "both are memory that domains share: of two, for calls, and of many, for objects; users see the second alone",
    },
    Namesakes {
        names: &["Barrier"],
        files: &["crates/underpass-shared/src/barrier.rs", "crates/underpass-sync/src/barrier.rs"],
        because: SHARED,
    },
    Namesakes {
        names: &["Condvar"],
        files: &["crates/underpass-shared/src/condvar.rs", "crates/underpass-sync/src/condvar.rs"],
        because: SHARED,
    },
    Namesakes {
        names: &["Mutex", "MutexGuard"],
        files: &["crates/underpass-shared/src/mutex.rs", "crates/underpass-sync/src/mutex.rs"],
        because: SHARED,
    },
    Namesakes {
        names: &["RwLock", "RwLockReadGuard", "RwLockWriteGuard"],
        files: &["crates/underpass-shared/src/rwlock.rs", "crates/underpass-sync/src/rwlock.rs"],
        because: SHARED,
    },
    Namesakes {
        names: &["Permit", "Semaphore"],
        files: &["crates/underpass-shared/src/semaphore.rs", "crates/underpass-sync/src/semaphore.rs"],
        because: SHARED,
    },
];

const SHARED: &str = "the objects of regions have the names of `std::sync`, as those of one domain have";
