//! The payload of a cell, and how a message is written into it.

use crate::cell::INLINE;
use crate::layout::LINE_WORDS;
use crate::tag::Tag;
use std::any::Any;
use std::os::fd::BorrowedFd;
use underpass_wire::Sink;

/// The bytes of a message in a cell. They are copied word by word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(8))]
pub struct Payload(pub [u8; INLINE]);

impl Payload {
    /// How many words a payload has.
    pub const WORDS: usize = LINE_WORDS - 1;

    /// A payload of zeros.
    #[inline(always)]
    pub const fn new() -> Self {
        Self([0; INLINE])
    }

    /// The word at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`WORDS`](Self::WORDS).
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.0.as_chunks::<8>().0[index])
    }

    /// Sets the word at `index`.
    ///
    /// # Panics
    /// As [`word`](Self::word).
    #[inline(always)]
    pub fn set_word(&mut self, index: usize, word: u64) {
        self.0.as_chunks_mut::<8>().0[index] = word.to_le_bytes();
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes a message of known size into a payload, whole words at a time. The post then reads the
/// payload by words. If a word had been written in pieces, that load would wait until all earlier
/// stores are in memory. One of them is the previous message, and the peer may hold its line
/// (decision 0021).
#[derive(Debug)]
pub struct PayloadSink<'a> {
    payload: &'a mut Payload,
    size: usize,
    /// `at`: bytes that were put. `rest`: those of them that don't fill a word yet.
    at: usize,
    rest: u64,
    overflowed: bool,
}

impl<'a> PayloadSink<'a> {
    /// For a message of `size` bytes, or as many of them as fit.
    #[inline(always)]
    pub fn new(payload: &'a mut Payload, size: usize) -> Self {
        Self { payload, size: size.min(INLINE), at: 0, rest: 0, overflowed: false }
    }

    /// The same for a request: the message lies behind the tag, which stays as it is.
    #[inline(always)]
    pub fn behind_tag(payload: &'a mut Payload, size: usize) -> Self {
        Self { at: Tag::BYTES, ..Self::new(payload, size + Tag::BYTES) }
    }

    /// Writes the last word. Returns whether more than `size` bytes were put, a file,
    /// or an interface.
    #[inline(always)]
    pub fn finish(self) -> bool {
        if !self.at.is_multiple_of(8) {
            self.payload.set_word(self.at / 8, self.rest);
        }
        self.overflowed
    }

    /// Puts at most one word.
    #[inline(always)]
    fn put_some(&mut self, bytes: &[u8]) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let (word, inside) = (u64::from_le_bytes(word), self.at % 8);
        self.rest |= word << (8 * inside);
        if inside + bytes.len() >= 8 {
            self.payload.set_word(self.at / 8, self.rest);
            self.rest = if inside == 0 { 0 } else { word >> (64 - 8 * inside) };
        }
        self.at += bytes.len();
    }
}

impl Sink for PayloadSink<'_> {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        if self.overflowed || bytes.len() > self.size - self.at {
            self.overflowed = true;
        } else if bytes.len() <= 8 {
            self.put_some(bytes);
        } else {
            bytes.chunks(8).for_each(|some| self.put_some(some));
        }
    }

    #[inline]
    fn put_file(&mut self, _: BorrowedFd<'_>) {
        self.overflowed = true;
    }

    #[inline]
    fn put_interface(&mut self, _: &dyn Any) {
        self.overflowed = true;
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_all_lengths_become_their_bytes_in_a_row() {
        let bytes: [u8; INLINE] = std::array::from_fn(|n| n as u8 + 1);
        for first in 0..=INLINE {
            for second in 0..=INLINE - first {
                let mut payload = Payload::new();
                let mut sink = PayloadSink::new(&mut payload, INLINE);
                let (one, rest) = bytes.split_at(first);
                let (two, three) = rest.split_at(second);
                [one, two, three].iter().for_each(|piece| sink.put(piece));
                assert!(!sink.finish());
                assert_eq!(payload.0, bytes, "{first} {second}");
            }
        }
    }

    #[test]
    fn a_partial_word_ends_in_zeros() {
        for length in 0..INLINE {
            let mut payload = Payload::new();
            let mut sink = PayloadSink::new(&mut payload, length);
            (0..length).for_each(|_| sink.put(&[0xff]));
            assert!(!sink.finish());
            let full = |n: usize| if n < length { 0xff } else { 0 };
            assert_eq!(payload.0, std::array::from_fn(full), "{length}");
        }
    }

    #[test]
    fn too_much_is_not_written() {
        for (size, piece) in [(0, 1), (7, 8), (8, 9), (INLINE, INLINE + 1), (usize::MAX, INLINE + 1)] {
            let mut payload = Payload::new();
            let mut sink = PayloadSink::new(&mut payload, size);
            sink.put(&vec![7; piece]);
            sink.put(&[7]);
            assert!(sink.finish());
            assert_eq!(payload, Payload::new());
        }
    }
}
