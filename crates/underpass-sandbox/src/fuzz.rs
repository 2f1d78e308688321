//! A door for the fuzz targets in `fuzz/`, which are built with `--cfg fuzzing`. No part of the
//! library.

use crate::message::Message;
use crate::spec::Spec;

/// Reads what the process in a sandbox says to its starter, and what it is asked to be.
///
/// # Panics
/// If something that was read does not survive being written.
pub fn messages(bytes: &[u8]) {
    if let Some(message) = Message::from_bytes(bytes) {
        assert_eq!(Message::from_bytes(&message.to_bytes()), Some(message));
    }
    if let Some(spec) = Spec::from_bytes(bytes) {
        assert_eq!(Spec::from_bytes(&spec.to_bytes()), Some(spec));
    }
}
