//! The overflow buffer of a slot: memory for arguments and results that its A-stack has no room
//! for. The client makes it when it first needs one, both sides map it, and it is kept for later
//! calls.

use crate::layout::OVERFLOW_SIZES;
use crate::region::{RegionSink, RegionSource, RegionView};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use underpass_os::Memory;
use underpass_wire::{DecodeError, Source};

/// One side's mapping of an overflow buffer. The peer may be writing it, so bytes cross by opaque
/// copies, as with the region.
#[derive(Debug)]
pub struct OverflowBuffer {
    memory: Memory,
}

impl OverflowBuffer {
    /// A fresh buffer with room for `bytes`, and the file to pass to the server. `None` if `bytes`
    /// is more than the largest buffer holds.
    ///
    /// # Errors
    /// As [`Memory::create`].
    pub fn create(bytes: usize) -> io::Result<Option<(Self, OwnedFd)>> {
        let Some(room) = room_for(bytes) else { return Ok(None) };
        let (memory, file) = Memory::create("underpass-overflow", room)?;
        Ok(Some((Self { memory }, file)))
    }

    /// The buffer in `file`, which came from a client. Its `room` is what
    /// [`room_in`](Self::room_in) returned.
    ///
    /// # Errors
    /// As [`Memory::adopt`].
    pub fn adopt(file: BorrowedFd<'_>, room: usize) -> io::Result<Self> {
        Ok(Self { memory: Memory::adopt(file, room)? })
    }

    /// How many bytes the buffer in `file` has.
    ///
    /// # Errors
    /// `InvalidData` if no honest client makes a buffer of this size; otherwise the error of
    /// `fstat`.
    pub fn room_in(file: BorrowedFd<'_>) -> io::Result<usize> {
        let length = usize::try_from(Memory::length_of(file)?).ok();
        length.filter(|&length| room_for(length) == Some(length)).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// How many bytes it holds.
    pub fn room(&self) -> usize {
        self.memory.len()
    }

    /// Whether the kernel has refused a page of it: see [`Memory::is_damaged`].
    pub fn is_damaged(&self) -> bool {
        self.memory.is_damaged()
    }

    /// Writes from the beginning of the buffer.
    pub fn sink(&self) -> RegionSink<'_> {
        RegionSink::over(&self.memory)
    }

    /// Bytes of its pages that are in memory now, whichever side touched them.
    ///
    /// # Errors
    /// As [`Memory::resident`].
    pub fn resident(&self) -> io::Result<usize> {
        self.memory.resident()
    }

    /// Gives its pages back to the kernel. Afterwards they read as zeros, and a write takes fresh
    /// pages. Neither side may still need the contents.
    pub fn give_back(&self) {
        self.memory.give_back();
    }
}

/// The size of the buffer that is made for `bytes` bytes. `None` if `bytes` is more than the
/// largest buffer holds. Sizes are powers of two, so that a caller whose arguments grow slowly gets
/// only a few buffers. Only pages that were touched take memory.
pub fn room_for(bytes: usize) -> Option<usize> {
    let room = bytes.checked_next_power_of_two()?.max(*OVERFLOW_SIZES.start());
    (room <= *OVERFLOW_SIZES.end()).then_some(room)
}

/// Bytes that are copied at once where many small values follow each other. They fit into the
/// first-level cache.
const CHUNK: usize = 4096;

/// This many small values are copied one by one before chunks are used. Bytes after them may be
/// meant for a view, and then need no copy.
const FEW: usize = 16;

/// Reads bytes out of an overflow buffer, each of them once.
#[derive(Debug)]
pub struct OverflowSource<A> {
    buffer: Arc<A>,
    at: usize,
    end: usize,
    /// Bytes that were copied out already. Those from `used` on are the ones at `at`.
    chunk: Vec<u8>,
    used: usize,
    /// How many small values were taken one by one.
    small: usize,
}

impl<A: AsRef<OverflowBuffer>> OverflowSource<A> {
    /// Reads the first `len` bytes.
    ///
    /// # Errors
    /// The buffer holds less. No honest peer announces that.
    pub fn new(buffer: Arc<A>, len: usize) -> Result<Self, DecodeError> {
        match len <= (*buffer).as_ref().room() {
            true => Ok(Self { buffer, at: 0, end: len, chunk: Vec::new(), used: 0, small: 0 }),
            false => Err(DecodeError::Truncated),
        }
    }

    /// Whether the kernel has refused a page of the buffer. If so, the bytes that were read may
    /// have any values.
    pub fn is_damaged(&self) -> bool {
        (*self.buffer).as_ref().is_damaged()
    }

    /// A view of the next `len` bytes, without a copy.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn view(&mut self, len: usize) -> Result<OverflowView<A>, DecodeError> {
        let at = self.at;
        self.next(len)?;
        Ok(OverflowView { buffer: self.buffer.clone(), at, len })
    }

    /// Fills `out` where the chunk doesn't hold enough.
    #[inline(never)]
    fn take_more(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        if out.len() > self.remaining() {
            return Err(DecodeError::Truncated);
        }
        let left = self.chunk.len() - self.used;
        // The chunk may hold the beginning of the wanted bytes: it moves to the front.
        if out.len() < CHUNK && self.small >= FEW {
            self.chunk.drain(..self.used);
            self.used = 0;
            let more = (CHUNK - left).min(self.remaining() - left);
            self.chunk.resize(left + more, 0);
            let from = self.at + left;
            RegionSource::over(&(*self.buffer).as_ref().memory, from, more)?.take(&mut self.chunk[left..])?;
            return self.take(out);
        }
        self.small += usize::from(out.len() < CHUNK);
        if left == 0 {
            return self.next(out.len())?.take(out);
        }
        let (now, later) = out.split_at_mut(left);
        now.copy_from_slice(&self.chunk[self.used..]);
        self.at += left;
        self.used = self.chunk.len();
        self.next(later.len())?.take(later)
    }

    /// The next `len` bytes of the buffer. Empties the chunk.
    fn next(&mut self, len: usize) -> Result<RegionSource<'_>, DecodeError> {
        if len > self.remaining() {
            return Err(DecodeError::Truncated);
        }
        let at = self.at;
        self.at += len;
        self.chunk.clear();
        self.used = 0;
        RegionSource::over(&(*self.buffer).as_ref().memory, at, len)
    }
}

/// Bytes of an overflow buffer, without a copy. It keeps the buffer alive.
#[derive(Debug)]
pub struct OverflowView<A> {
    buffer: Arc<A>,
    at: usize,
    len: usize,
}

impl<A> Clone for OverflowView<A> {
    fn clone(&self) -> Self {
        Self { buffer: self.buffer.clone(), at: self.at, len: self.len }
    }
}

impl<A: AsRef<OverflowBuffer>> OverflowView<A> {
    /// The bytes in the buffer.
    ///
    /// # Panics
    /// Never: they were in bounds when this view was made.
    #[inline]
    pub fn bytes(&self) -> RegionView<'_> {
        let source = RegionSource::over(&(*self.buffer).as_ref().memory, self.at, self.len);
        source.and_then(|mut source| source.view(self.len)).expect("it was in bounds when it was made")
    }
}

impl<A: AsRef<OverflowBuffer>> Source for OverflowSource<A> {
    fn remaining(&self) -> usize {
        self.end - self.at
    }

    #[inline]
    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        let Some(ready) = self.chunk.get(self.used..self.used + out.len()) else {
            return self.take_more(out);
        };
        out.copy_from_slice(ready);
        self.used += out.len();
        self.at += out.len();
        Ok(())
    }

    #[inline]
    fn take_vec(&mut self, len: usize) -> Result<Vec<u8>, DecodeError> {
        if let Some(ready) = self.chunk.get(self.used..self.used.saturating_add(len)) {
            let out = ready.to_vec();
            self.used += len;
            self.at += len;
            return Ok(out);
        }
        if self.used == self.chunk.len() && len >= CHUNK {
            return self.next(len)?.take_vec(len);
        }
        if len > self.remaining() {
            return Err(DecodeError::Truncated);
        }
        let mut out = vec![0; len];
        self.take_more(&mut out)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use underpass_wire::Sink;

    struct Own(OverflowBuffer);

    impl AsRef<OverflowBuffer> for Own {
        fn as_ref(&self) -> &OverflowBuffer {
            &self.0
        }
    }

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let (ours, file) = OverflowBuffer::create(100_000).unwrap().unwrap();
        assert_eq!(ours.room(), 128 << 10);
        assert!(OverflowBuffer::adopt(file.as_fd(), 64 << 10).is_err(), "the buffer has another size");
        let theirs = Arc::new(Own(OverflowBuffer::adopt(file.as_fd(), ours.room()).unwrap()));
        let all: Vec<u8> = (0..100_000).map(|n| n as u8).collect();
        ours.sink().put(&all);
        let mut source = OverflowSource::new(theirs.clone(), all.len()).unwrap();
        let mut begin = [0; 3];
        source.take(&mut begin).unwrap();
        assert_eq!((begin, source.remaining()), ([0, 1, 2], all.len() - 3));
        assert_eq!(source.take_vec(all.len() - 3).unwrap(), all[3..]);
        assert!(source.take(&mut begin).is_err() && source.take_vec(1).is_err() && source.view(1).is_err());
        let mut source = OverflowSource::new(theirs.clone(), 10).unwrap();
        source.take(&mut begin).unwrap();
        let view = source.view(7).unwrap();
        assert_eq!((view.bytes().len(), view.clone().bytes().get(0), source.remaining()), (7, Some(3), 0));
        assert!(OverflowSource::new(theirs.clone(), ours.room() + 1).is_err());
        ours.give_back();
        assert_eq!(OverflowSource::new(theirs, 2).unwrap().take_vec(2).unwrap(), [0, 0]);
    }

    #[test]
    fn small_values_come_in_chunks_and_large_ones_do_not() {
        let (buffer, _file) = OverflowBuffer::create(1 << 20).unwrap().unwrap();
        let all: Vec<u8> = (0..1 << 20).map(|n: u32| (n * 7 + n / 251) as u8).collect();
        buffer.sink().put(&all);
        let buffer = Arc::new(Own(buffer));
        for lengths in
            [&[1, 9, 3][..], &[100, 0, 1, 4095, 4096, 4097, 7], &[3, CHUNK - 1, 2 * CHUNK], &[5000, 8]]
        {
            let (mut source, mut read) =
                (OverflowSource::new(buffer.clone(), all.len()).unwrap(), Vec::new());
            for (turn, &length) in lengths.iter().cycle().enumerate() {
                let length = length.min(source.remaining());
                if turn % 3 == 0 {
                    read.extend(source.take_vec(length).unwrap());
                } else {
                    let mut out = vec![0; length];
                    source.take(&mut out).unwrap();
                    read.extend(out);
                }
                assert_eq!(source.remaining(), all.len() - read.len());
                if source.remaining() == 0 {
                    break;
                }
            }
            assert!(read == all, "{lengths:?}");
            assert!(source.take(&mut [0]).is_err() && source.take_vec(1).is_err());
        }
    }

    #[test]
    fn a_view_shows_the_bytes_that_come_next() {
        let (buffer, _file) = OverflowBuffer::create(1 << 16).unwrap().unwrap();
        let all: Vec<u8> = (0..1 << 16).map(|n: u32| (n * 7) as u8).collect();
        buffer.sink().put(&all);
        let mut source = OverflowSource::new(Arc::new(Own(buffer)), 6000).unwrap();
        // Enough values that a chunk is in use.
        for _ in 0..2 * FEW {
            source.take(&mut [0]).unwrap();
        }
        assert!(!source.chunk.is_empty(), "otherwise this test shows nothing");
        let view = source.view(100).unwrap();
        assert_eq!((0..100).map(|at| view.bytes().get(at).unwrap()).collect::<Vec<_>>(), all[32..132]);
        assert_eq!(source.take_vec(200).unwrap(), all[132..332]);
        assert!(source.take_vec(6000 - 331).is_err() && source.take(&mut [0; 6000]).is_err());
        assert_eq!(source.take_vec(6000 - 332).unwrap(), all[332..6000]);
    }

    #[test]
    fn a_buffer_has_room_for_little_more_than_is_asked_for() {
        let rooms = [1, 64 << 10, (64 << 10) + 1, 64 << 20, (64 << 20) + 1, usize::MAX].map(room_for);
        let kib = |kib: usize| Some(kib << 10);
        assert_eq!(rooms, [kib(64), kib(64), kib(128), kib(64 << 10), None, None]);
        let (buffer, _file) = OverflowBuffer::create(1).unwrap().unwrap();
        let mut sink = buffer.sink();
        sink.put(&vec![1; buffer.room()]);
        assert!(!sink.overflowed());
        sink.put(&[1]);
        assert!(sink.overflowed());
    }
}
