//! What the models of this crate use: an object of two words.

use crate::layout::words_of;
use crate::versions::{copy_once, end, has_ended, publish};
use crate::words::ModelWords;

const BYTES: usize = 16;

/// An object whose two words are equal in every version. A clone is the same object.
#[derive(Clone, Debug)]
pub struct ModelObject(ModelWords);

/// A version that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelCopy {
    /// Its number.
    pub version: u64,
    /// When it was published.
    pub published_ns: u64,
    /// Its value.
    pub words: [u64; 2],
}

impl ModelObject {
    /// An object with its first version, 1.
    pub fn new() -> Self {
        let object = Self(ModelWords::new(words_of(BYTES)));
        object.publish(1);
        object
    }

    /// Publishes `version`, at the time and with words that follow from it.
    pub fn publish(&self, version: u64) {
        let bytes: Vec<u8> = [version * 10; 2].iter().flat_map(|word| word.to_ne_bytes()).collect();
        publish(&self.0, version, version * 100, &bytes);
    }

    /// Copies the newest version once.
    pub fn copy(&self) -> Option<ModelCopy> {
        let mut bytes = [0; BYTES];
        let stamped = copy_once(&self.0, &mut bytes)?;
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let words = [word(0), word(8)];
        Some(ModelCopy { version: stamped.version, published_ns: stamped.published_ns, words })
    }

    /// Says that no version follows.
    pub fn end(&self) {
        end(&self.0);
    }

    /// Whether none follows.
    pub fn has_ended(&self) -> bool {
        has_ended(&self.0)
    }
}
