//! Locks of data that several domains write where they lie (Psyche, sections 3.2 and 5.2), and
//! which ways to reach data may be mixed under which lock.
//!
//! Take this module if other domains must *write* an object without asking its home. Where they
//! only read, [versions](crate::ObjectHome) need no lock. Where all changes are made by calls, the
//! home's own locks do.
//!
//! # The rules of mixing
//!
//! *Access* is to read or write the data where they lie. *Invoke* is an ordinary call, which runs
//! at home at process level. *Interrupt* is an [invocation](crate::invoke) that runs in a handler.
//!
//! | on one object | under | enforced |
//! |---|---|---|
//! | access to read, and anything at home | no lock: [`ObjectHome`](crate::ObjectHome), [`HomedObject`](crate::HomedObject) | by types: a reader has no way to write; and by a seal of the memory |
//! | invoke alone, or interrupt alone | no lock: data of the handlers | by types: handlers own them, run one at a time, and must be `Send` |
//! | invoke and interrupt | [`mask`](crate::invoke::InvocationHome::mask), or a hybrid lock | checked: no handler begins in a section |
//! | access to write, and invoke | a hybrid lock, or a [`HomedSemaphore`] | by types: the data are reached by a guard alone |
//! | access to write, and interrupt | a hybrid lock, never a semaphore | by types: the data are reached by a guard alone; checked: a wait for a permit fails with [`Masked`](HybridFailure::Masked) |
//!
//! | while a thread | it may | enforced |
//! |---|---|---|
//! | is in a section or a handler, or has a lock at home | invoke nobody at interrupt level | checked: [`InvokeError::Masked`](crate::invoke::InvokeError::Masked) |
//! | | invoke nobody at process level | checked: [`ProcessInvoker`](crate::invoke::ProcessInvoker) gives no client |
//! | | take no lock of another home, and wait for no permit | checked: [`HybridFailure::Masked`] |
//! | | take further locks of its own home | nothing to check: sections nest |
//! | is in a handler of another home | begin no section | checked: `mask` panics, `lock` fails with `Masked` |
//! | has a lock elsewhere | invoke nobody, at either level | checked: [`InvokeError::HoldsLock`](crate::invoke::InvokeError::HoldsLock) |
//! | has a permit | do all that it may without | nothing to check |
//! | has a lock | not give it to another thread | by types: holds and guards are not `Send` |
//!
//! A client that is not in a `ProcessInvoker` is not checked: then the rule is the program's.
//!
//! # Examples
//! ```
//! use std::time::Duration;
//! use underpass::homed::invoke::{HomeInvoker, InvocationHandlers};
//! use underpass::homed::lock::{HybridHome, HybridObject};
//!
//! /// An operation on which both sides agree.
//! const ADD: u64 = 1;
//! /// No section lasts longer.
//! const SOON: Duration = Duration::from_secs(10);
//!
//! # let dir = std::env::temp_dir().join(format!("underpass-doc-hybrid-{}", std::process::id()));
//! # // SAFETY: no other thread has been started yet.
//! # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
//! // In the home's process:
//! let handlers = InvocationHandlers::new();
//! let (service, total) = HybridHome::new(0_u64, &handlers)?;
//! let handled = total.clone();
//! let (services, home) = handlers
//!     .on(ADD, move |[more, ..]| match handled.lock(SOON) {
//!         Ok(mut total) => [total.update(|total| *total += more).is_ok().into(), 0, 0, 0, 0, 0],
//!         Err(_) => [0; 6],
//!     })
//!     .start();
//! let server = underpass::Server::new().export("total", service);
//! let running = services.export(server, "add").start()?;
//!
//! // In another process, or in several: an invocation at interrupt level, and an access.
//! let add = HomeInvoker::connect("add")?;
//! assert_eq!(add.invoke(ADD, [40, 0, 0, 0, 0, 0], SOON)?[0], 1);
//! let there = HybridObject::<u64>::import("total")?;
//! let mut guard = there.lock(SOON).map_err(|e| e.to_string())?;
//! guard.update(|total| *total += 2)?;
//! drop(guard);
//!
//! // At home, and in the manual form:
//! let hold = total.acquire(SOON).map_err(|e| e.to_string())?;
//! assert_eq!(hold.get(), Ok(42));
//! hold.release();
//! # drop((running, home));
//! # std::fs::remove_dir_all(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A reader of versions can't write:
//!
//! ```compile_fail,E0599
//! fn write(object: underpass::homed::HomedObject<u64>) {
//!     let _ = object.update(|number| *number += 1);
//! }
//! ```
//!
//! Data of a handler are its own. Process-level code can't share them without a lock:
//!
//! ```compile_fail,E0277
//! use std::cell::Cell;
//! use std::rc::Rc;
//! use underpass::homed::invoke::InvocationHandlers;
//!
//! let total = Rc::new(Cell::new(0));
//! let theirs = total.clone();
//! let handlers = InvocationHandlers::new().on(1, move |operands| {
//!     theirs.set(theirs.get() + operands[0]);
//!     operands
//! });
//! ```
#![doc = include_str!("lock/README.md")]

#[cfg(not(underpass_loom))]
mod errors;
#[cfg(not(underpass_loom))]
mod hold;
#[cfg(not(underpass_loom))]
mod hybrid_home;
#[cfg(not(underpass_loom))]
mod hybrid_object;
pub(crate) mod hybrid_word;
#[cfg(not(underpass_loom))]
mod join;
#[cfg(not(underpass_loom))]
mod joined;
pub(crate) mod layout;
pub(crate) mod permit_words;
#[cfg(not(underpass_loom))]
mod remotes;
#[cfg(not(underpass_loom))]
mod semaphore;
#[cfg(not(underpass_loom))]
mod wait;

#[cfg(not(underpass_loom))]
pub use errors::{HybridFailure, HybridLockError};
#[cfg(not(underpass_loom))]
pub use hold::{HybridGuard, HybridHold, HybridHoldResult, HybridLockResult, HybridRecovery};
#[cfg(not(underpass_loom))]
pub use hybrid_home::HybridHome;
#[cfg(not(underpass_loom))]
pub use hybrid_object::HybridObject;
#[cfg(not(underpass_loom))]
pub use semaphore::{HomedPermit, HomedSemaphore};
