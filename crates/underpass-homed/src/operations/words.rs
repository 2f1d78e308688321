//! Arguments and results at interrupt level, as they lie in the six words of a request.

use std::convert::Infallible;
use underpass_shared::{Shareable, bytes_of, value_from};

/// Bytes of arguments, and of results.
const BYTES: usize = 48;

/// Puts values into words, one behind the other.
#[derive(Debug, Default)]
pub struct OperandWriter {
    words: [u64; BYTES / 8],
    used: usize,
}

impl OperandWriter {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a value. Generated code has checked that there is room.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn put<T: Shareable>(mut self, value: &T) -> Self {
        for byte in bytes_of(value) {
            let shift = self.used % 8 * 8;
            self.words[self.used / 8] |= u64::from(*byte) << shift;
            self.used += 1;
        }
        self
    }

    /// The words.
    pub fn words(self) -> [u64; 6] {
        self.words
    }
}

/// Takes values out of words, in the same order.
#[derive(Debug)]
pub struct OperandReader {
    words: [u64; BYTES / 8],
    used: usize,
}

impl OperandReader {
    /// What lies in `words`, which may be anything.
    pub fn of(words: [u64; 6]) -> Self {
        Self { words, used: 0 }
    }

    /// The next value. `None` if the bytes are no value of the type.
    pub fn take<T: Shareable>(&mut self) -> Option<T> {
        let bytes = self.words.map(u64::to_le_bytes);
        let from = bytes.as_flattened().get(self.used..)?.get(..size_of::<T>())?;
        self.used += size_of::<T>();
        let value: Result<_, Infallible> = value_from(|place| Ok(place.write_copy_of_slice(from)));
        value.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_as_they_were_put_in() {
        let words = OperandWriter::new().put(&7_u8).put(&true).put(&u64::MAX).put(&-3_i32).put(&'ß').words();
        let mut reader = OperandReader::of(words);
        assert_eq!(reader.take::<u8>(), Some(7));
        assert_eq!(reader.take::<bool>(), Some(true));
        assert_eq!(reader.take::<u64>(), Some(u64::MAX));
        assert_eq!(reader.take::<i32>(), Some(-3));
        assert_eq!(reader.take::<char>(), Some('ß'));
        assert_eq!(reader.take::<[u8; 30]>(), Some([0; 30]));
        assert_eq!(reader.take::<u8>(), None, "there are no more");
    }

    #[test]
    fn what_is_no_value_is_not_taken() {
        let mut reader = OperandReader::of([2; 6]);
        assert_eq!(reader.take::<bool>(), None);
        assert_eq!(reader.take::<u8>(), Some(0));
    }
}
