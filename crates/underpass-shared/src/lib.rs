//! Memory of several domains, with locks and conditions that serve the threads of all of them:
//! OThreads' synchronization across domains (section 5).
//!
//! *Decides:* who is a member of a region, what lies in it, how threads wait there and are woken
//! across domains, and what a member's death does to what it held.
//!
//! *Must not know:* how a thread is suspended (`runtime.rs`), rings and A-stacks.
//!
//! *Read first:* the proof below, then `domain.rs`, then `raw_lock.rs`.
#![doc = include_str!("README.md")]
#![deny(unsafe_code)]
#![cfg_attr(underpass_loom, allow(dead_code))] // Models use a part.

#[cfg(not(underpass_loom))]
mod barrier;
mod bell;
#[cfg(not(underpass_loom))]
mod condvar;
mod domain;
mod error;
#[cfg(not(underpass_loom))]
mod host;
mod layout;
#[cfg(not(underpass_loom))]
mod limit;
mod member;
#[cfg(not(underpass_loom))]
mod member_counts;
#[cfg(underpass_loom)]
pub mod model;
#[cfg(not(underpass_loom))]
mod mutex;
#[cfg(not(underpass_loom))]
mod place;
mod raw_lock;
#[cfg(not(underpass_loom))]
mod region;
mod runtime;
#[cfg(not(underpass_loom))]
mod rwlock;
#[cfg(not(underpass_loom))]
mod semaphore;
#[cfg(not(underpass_loom))]
#[allow(unsafe_code)] // Copies of values, out of shared memory and into it.
mod shareable;
#[cfg(not(underpass_loom))]
#[allow(unsafe_code)] // The promises to the runtime.
mod suspend;
#[cfg(not(underpass_loom))]
mod task;
mod thread_name;
mod waiters;
#[allow(unsafe_code)] // Memory that every member may write.
mod words;

#[cfg(not(underpass_loom))]
pub use barrier::Barrier;
#[cfg(not(underpass_loom))]
pub use condvar::{Condvar, CondvarResult, Notified};
#[cfg(not(underpass_loom))]
pub use error::{LockError, SyncError};
#[cfg(not(underpass_loom))]
pub use mutex::{LockResult, Mutex, MutexGuard, Recovery};
#[cfg(not(underpass_loom))]
pub use place::{RegionLayout, RegionPlace};
#[cfg(not(underpass_loom))]
pub use region::{Region, RegionError, RegionExport};
#[cfg(not(underpass_loom))]
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard, WriteResult};
#[cfg(not(underpass_loom))]
pub use semaphore::{Permit, Semaphore};
#[cfg(not(underpass_loom))]
pub use shareable::Shareable;
#[cfg(not(underpass_loom))]
#[doc(hidden)] // For generated code, and for objects with a home.
pub use shareable::{bytes_of, mix, shape_of, value_from, with_value_from};
