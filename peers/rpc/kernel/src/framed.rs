//! Messages over a stream of bytes.

use std::io::{self, BufReader, IoSlice, Read, Write};
use underpass_rpc_peer::{Connection, Outcome, Work, answer_in_place};

/// What a reader takes from the kernel at once: a small message is one read. Larger ones go past
/// the buffer.
const BUFFER: usize = 64 << 10;

/// The longest message that a side takes from the other.
const LONGEST: usize = 64 << 20;

/// A stream of messages each way.
pub(crate) struct Framed<R, W> {
    from: BufReader<R>,
    to: W,
    message: Vec<u8>,
}

impl<R: Read, W: Write> Framed<R, W> {
    pub(crate) fn new(from: R, to: W) -> Self {
        Self { from: BufReader::with_capacity(BUFFER, from), to, message: Vec::new() }
    }

    /// Sends a message by one system call, if the kernel takes all of it.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = (bytes.len() as u32).to_le_bytes();
        let mut parts = [IoSlice::new(&length), IoSlice::new(bytes)];
        let mut parts = &mut parts[..];
        while !parts.is_empty() {
            let taken = self.to.write_vectored(parts)?;
            IoSlice::advance_slices(&mut parts, taken);
        }
        Ok(())
    }

    /// Receives the next message into `message`.
    fn receive(&mut self) -> io::Result<()> {
        let mut length = [0; 4];
        self.from.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST {
            return Err(io::Error::other(format!("a message of {length} bytes is too long")));
        }
        self.message.resize(length, 0);
        self.from.read_exact(&mut self.message)
    }

    /// Answers one message after another, until the client closes the stream.
    pub(crate) fn answer_all(mut self) -> io::Result<()> {
        loop {
            self.receive()?;
            let answer = answer_in_place(std::mem::take(&mut self.message));
            self.send(&answer)?;
            self.message = answer;
        }
    }
}

impl<R: Read + Send, W: Write + Send> Connection for Framed<R, W> {
    fn call(&mut self, work: &Work) -> Outcome {
        self.send(work.request())?;
        self.receive()?;
        work.check(&self.message)
    }
}
