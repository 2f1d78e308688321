//! Arguments and results: into a message and out of it, wherever they lie.
//!
//! [`message`] chooses the place. [`annexes`] are memory that both sides map, for values that are
//! too large for a slot's A-stack. [`aside`] and [`parcel`] are what travels over the socket:
//! files, and bytes for which there is no other room. [`file_thread`] receives the files that a
//! peer passes, and [`passed_file`] holds them. [`sealed`] and [`shared`] are memory that is read
//! where its writer wrote it.

pub(crate) mod annexes;
pub(crate) mod aside;
pub(crate) mod file_thread;
pub(crate) mod message;
pub(crate) mod parcel;
pub(crate) mod passed_file;
pub(crate) mod sealed;
pub(crate) mod shared;
