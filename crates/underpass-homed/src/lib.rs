//! Objects with a home: Psyche's choice between remote access and remote invocation (section 2),
//! for domains.
//!
//! *Decides:* how the representation of an object lies in memory that its home alone writes, how
//! others read it, and what they are told when its home dies.
//!
//! *Must not know:* how a binding is made and ends (`underpass-rpc`), how memory is mapped
//! (`underpass-os`), the locks of regions (`underpass-shared`).
//!
//! *Read first:* the proof below, then `versions.rs`, then `home.rs`. For operations that interrupt
//! the home: the [second proof](invoke), then `invoke/requests.rs`. For locks of data that several
//! domains write: the [third proof](lock), then `lock/hybrid_word.rs`. For the choice between
//! access and invocation: `choice.rs`. For what `#[underpass::object]` generates: `operations.rs`.
#![doc = include_str!("README.md")]
#![deny(unsafe_code)]
#![cfg_attr(underpass_loom, allow(dead_code))] // Models use a part.

#[cfg(not(underpass_loom))]
mod calibration;
#[cfg(not(underpass_loom))]
mod choice;
#[cfg(not(underpass_loom))]
mod errors;
#[cfg(fuzzing)]
pub mod fuzz;
#[cfg(not(underpass_loom))]
mod home;
pub mod invoke;
mod layout;
pub mod lock;
#[cfg(underpass_loom)]
pub mod model;
#[cfg(not(underpass_loom))]
mod object;
#[cfg(not(underpass_loom))]
mod open;
#[cfg(not(underpass_loom))]
mod operations;
#[cfg(not(underpass_loom))]
mod pace;
mod versions;
#[allow(unsafe_code)] // Memory that the home writes while others read it.
mod words;

#[cfg(not(underpass_loom))]
pub use choice::{ChosenWay, Explanation, HomeState};
#[cfg(not(underpass_loom))]
pub use errors::{HomedError, ObjectImportError, PublishError};
#[cfg(not(underpass_loom))]
pub use home::ObjectHome;
#[cfg(not(underpass_loom))]
pub use object::{HomedObject, ObjectVersion};
#[cfg(not(underpass_loom))]
pub use operations::{BoundObject, ObjectBindError, ObjectServices, OperatedHome, OperationError};
#[cfg(not(underpass_loom))]
#[doc(hidden)] // For generated code.
pub use operations::{EitherPlan, HomeOperations, OperandReader, OperandWriter};
