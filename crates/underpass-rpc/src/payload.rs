//! Arguments and results: into a message and out of it, wherever they lie.
//!
//! [`message`] chooses the place. [`overflow_buffers`] are memory that both sides map, for values
//! that are too large for a slot's A-stack. [`out_of_band_value`] and [`out_of_band`] are what
//! travels over the socket: files, and bytes for which there is no other room. [`file_thread`]
//! receives the files that a peer passes, and [`passed_file`] holds them. [`sealed`] and [`shared`]
//! are memory that is read where its writer wrote it. [`interfaces`] are values that are called,
//! and [`prefix`] is what a request can carry in front of its arguments.

pub(crate) mod file_thread;
pub(crate) mod held_out_of_band;
pub(crate) mod interfaces;
pub(crate) mod message;
pub(crate) mod out_of_band;
pub(crate) mod out_of_band_value;
pub(crate) mod overflow_buffers;
pub(crate) mod passed_file;
pub(crate) mod prefix;
pub(crate) mod sealed;
pub(crate) mod shared;
