//! An entry point for the fuzz targets in `fuzz/`, which are built with `--cfg fuzzing`. It is not
//! part of the library.

use crate::message::StartMessage;
use crate::spec::Spec;

/// Decodes the messages of the process in a sandbox, and the description that it gets.
///
/// # Panics
/// If a decoded value does not survive being encoded.
pub fn messages(bytes: &[u8]) {
    if let Some(message) = StartMessage::from_bytes(bytes) {
        assert_eq!(StartMessage::from_bytes(&message.to_bytes()), Some(message));
    }
    if let Some(spec) = Spec::from_bytes(bytes) {
        assert_eq!(Spec::from_bytes(&spec.to_bytes()), Some(spec));
    }
}
