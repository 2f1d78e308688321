//! Messages that are longer than a frame come in several fragments.

use rusteron_client::{AeronCError, AeronHeader, AeronImage};

/// The flags of a message's first frame and of its last one, as Aeron's protocol has them.
const BEGIN: u8 = 0x80;
const END: u8 = 0x40;

/// A message, as it is received.
pub(crate) enum Message<'a> {
    /// In the memory of the publication.
    Frame(&'a [u8]),
    /// Put together from its fragments.
    Assembled(&'a mut Vec<u8>),
}

/// Puts the fragments of an image together, one message after another.
#[derive(Default)]
pub(crate) struct Assembler {
    bytes: Vec<u8>,
}

impl Assembler {
    /// Receives up to `limit` fragments, and has `take` take each message that is complete.
    pub(crate) fn poll(
        &mut self,
        image: &AeronImage,
        limit: usize,
        mut take: impl FnMut(Message),
    ) -> Result<i32, AeronCError> {
        image.poll_fn(|fragment, header| self.fragment(fragment, &header, &mut take), limit)
    }

    fn fragment(&mut self, fragment: &[u8], header: &AeronHeader, take: &mut impl FnMut(Message)) {
        let flags = header.get_values().map_or(0, |values| values.frame().flags());
        if flags & (BEGIN | END) == BEGIN | END {
            return take(Message::Frame(fragment));
        }
        if flags & BEGIN != 0 {
            self.bytes.clear();
        }
        self.bytes.extend_from_slice(fragment);
        if flags & END != 0 {
            take(Message::Assembled(&mut self.bytes));
        }
    }
}
