//! Locks, conditions, semaphores, barriers and channels, with the names and shapes of `std::sync`.
//!
//! User-level threads and plain kernel threads may use all of it, also both at once. A user-level
//! thread that waits blocks only itself. A kernel thread that waits sleeps in the kernel.
//!
//! *Decides:* in which order threads wait, which one is woken, and what a cancelled wait returns.
//!
//! *Must not know:* how a thread is suspended and woken, activations, processors. What it needs of
//! these is in `runtime.rs`.
//!
//! *Read first:* the proof below, then `wait_queue.rs`, then `raw_mutex.rs`.
#![doc = include_str!("README.md")]
#![deny(unsafe_code)]

mod barrier;
mod bias;
mod call_turn;
mod condvar;
mod holder;
mod lazy_lock;
#[allow(unsafe_code)] // The values under locks.
mod lock_cell;
pub mod mpmc;
pub mod mpsc;
mod mutex;
mod once;
mod once_lock;
mod poison;
mod queue_wait;
mod raw_mutex;
mod raw_rwlock;
mod runtime;
mod rwlock;
mod select;
mod select_token;
mod semaphore;
mod service_token;
mod spin_lock;
#[cfg(not(underpass_loom))]
#[allow(unsafe_code)] // The promises to the runtime.
mod suspend;
mod unwind_safe;
#[allow(unsafe_code)] // Waiters' nodes on their own stacks.
mod wait_queue;

pub use barrier::{Barrier, BarrierWaitResult};
#[doc(hidden)] // For the calls of `underpass-rpc`.
pub use call_turn::CallTurn;
pub use condvar::{Condvar, WaitTimeoutResult};
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
#[cfg(underpass_loom)] // As above.
pub use runtime::{Cancelled, stand_on};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use select::Select;
pub use semaphore::{AcquireTimeoutError, Permit, Semaphore};
#[doc(hidden)] // For the services of `underpass-rpc`.
pub use service_token::{ServiceToken, TokenError};
#[doc(hidden)] // For its calls.
pub use spin_lock::{SpinGuard, SpinLock};
pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
#[cfg(not(underpass_loom))]
pub use underpass_threads::Cancelled;
