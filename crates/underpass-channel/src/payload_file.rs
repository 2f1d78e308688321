//! Out-of-band payloads: a message is streamed through a file in memory, with one copy on each
//! side. Nothing is mapped.

use crate::copy_counts;
use crate::layout::LARGEST;
use std::io;
use underpass_os::PayloadFile;
use underpass_wire::{DecodeError, Sink, Source};

/// Small values are gathered in a chunk of this size, so that one system call moves many of them.
const CHUNK: usize = 64 * 1024;

/// Writes a message into a payload file.
#[derive(Debug)]
pub struct PayloadFileSink {
    payload_file: PayloadFile,
    written: u64,
    chunk: Vec<u8>,
    failed: Option<io::Error>,
}

impl PayloadFileSink {
    /// Writes from the beginning of `payload_file`.
    pub fn new(payload_file: PayloadFile) -> Self {
        Self { payload_file, written: 0, chunk: Vec::with_capacity(CHUNK), failed: None }
    }

    /// The payload file after all was written, and its length.
    ///
    /// # Errors
    /// Any of the writes failed: no memory.
    pub fn finish(mut self) -> io::Result<(PayloadFile, u64)> {
        let chunk = std::mem::take(&mut self.chunk);
        self.write(&chunk);
        match self.failed {
            Some(e) => Err(e),
            None => Ok((self.payload_file, self.written)),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none() && !bytes.is_empty() {
            copy_counts::into_region(bytes.len());
            self.failed = self.payload_file.write(bytes, self.written).err();
            self.written += bytes.len() as u64;
        }
    }
}

impl Sink for PayloadFileSink {
    fn put(&mut self, bytes: &[u8]) {
        if self.chunk.len() + bytes.len() <= CHUNK {
            return self.chunk.extend_from_slice(bytes);
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        self.write(&chunk);
        chunk.clear();
        if bytes.len() < CHUNK {
            chunk.extend_from_slice(bytes);
        } else {
            self.write(bytes);
        }
        self.chunk = chunk;
    }
}

/// Reads a message from a payload file. A peer wrote it, and may still be writing, so each byte is
/// read once.
#[derive(Debug)]
pub struct PayloadFileSource {
    payload_file: PayloadFile,
    read: u64,
    left: usize,
    chunk: Vec<u8>,
    used: usize,
}

impl PayloadFileSource {
    /// Reads `len` bytes from the beginning of `payload_file`.
    ///
    /// # Errors
    /// [`DecodeError`] if the file has fewer bytes. The caller has to close the binding.
    pub fn new(payload_file: PayloadFile, len: u64) -> Result<Self, DecodeError> {
        let there = payload_file.size().map_err(|_| DecodeError::Truncated)?;
        let left = usize::try_from(len).map_err(|_| DecodeError::TooLong)?;
        if len > LARGEST {
            return Err(DecodeError::TooLong);
        }
        if there < len {
            return Err(DecodeError::Truncated);
        }
        Ok(Self { payload_file, read: 0, left, chunk: Vec::new(), used: 0 })
    }

    fn fill(&mut self) -> Result<(), DecodeError> {
        let unread = self.left - (self.chunk.len() - self.used);
        debug_assert_eq!(self.used, self.chunk.len());
        self.chunk.resize(unread.min(CHUNK), 0);
        self.used = 0;
        copy_counts::out_of_region(self.chunk.len());
        self.payload_file.read(&mut self.chunk, self.read).map_err(|_| DecodeError::Truncated)?;
        self.read += self.chunk.len() as u64;
        Ok(())
    }
}

impl Source for PayloadFileSource {
    fn remaining(&self) -> usize {
        self.left
    }

    fn take_vec(&mut self, len: usize) -> Result<Vec<u8>, DecodeError> {
        if len > self.left {
            return Err(DecodeError::Truncated);
        }
        let mut out = Vec::new();
        out.try_reserve_exact(len).map_err(|_| DecodeError::TooLong)?;
        let ready = (self.chunk.len() - self.used).min(len);
        out.extend_from_slice(&self.chunk[self.used..self.used + ready]);
        copy_counts::out_of_region(len - ready);
        self.payload_file.append(&mut out, len, self.read).map_err(|_| DecodeError::Truncated)?;
        self.used += ready;
        self.read += (len - ready) as u64;
        self.left -= len;
        Ok(out)
    }

    fn take(&mut self, mut out: &mut [u8]) -> Result<(), DecodeError> {
        if out.len() > self.left {
            return Err(DecodeError::Truncated);
        }
        while !out.is_empty() {
            let ready = self.chunk.len() - self.used;
            if ready == 0 && out.len() >= CHUNK {
                copy_counts::out_of_region(out.len());
                self.payload_file.read(out, self.read).map_err(|_| DecodeError::Truncated)?;
                self.read += out.len() as u64;
                self.left -= out.len();
                return Ok(());
            }
            if ready == 0 {
                self.fill()?;
                continue;
            }
            let n = ready.min(out.len());
            let (now, later) = out.split_at_mut(n);
            now.copy_from_slice(&self.chunk[self.used..self.used + n]);
            self.used += n;
            self.left -= n;
            out = later;
        }
        Ok(())
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_in_any_portions() {
        let mut sink = PayloadFileSink::new(PayloadFile::create("test").unwrap());
        let all: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7) as u8).collect();
        let mut rest = &all[..];
        for n in [1, 7, CHUNK - 8, CHUNK, CHUNK + 1, 3, 200_000, 5].into_iter().cycle() {
            let (now, later) = rest.split_at(rest.len().min(n));
            sink.put(now);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        let (payload_file, len) = sink.finish().unwrap();
        assert_eq!(len, all.len() as u64);
        let mut source = PayloadFileSource::new(payload_file, len).unwrap();
        let mut read = Vec::new();
        for n in [3, 100_000, 1, CHUNK, 9].into_iter().cycle() {
            let n = n.min(source.remaining());
            read.extend(source.take_vec(n).unwrap());
            if source.remaining() == 0 {
                break;
            }
        }
        assert_eq!(read, all);
        assert!(source.take(&mut [0]).is_err());
    }

    #[test]
    fn a_payload_file_shorter_than_announced_is_refused() {
        let payload_file = PayloadFile::create("test").unwrap();
        payload_file.write(b"abc", 0).unwrap();
        assert!(PayloadFileSource::new(payload_file, 4).is_err());
    }
}
