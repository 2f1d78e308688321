//! `Read` and `Write` for `Async`.

use crate::descriptor::Async;
use crate::direction::Direction;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::AsFd;

impl<T: AsFd + Read> Read for Async<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.attempt_mut(Direction::Read, |io| io.read(buf))
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.attempt_mut(Direction::Read, |io| io.read_vectored(bufs))
    }
}

impl<T: AsFd + Write> Write for Async<T> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.attempt_mut(Direction::Write, |io| io.write(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.attempt_mut(Direction::Write, |io| io.write_vectored(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt_mut(Direction::Write, Write::flush)
    }
}

impl<T: AsFd> Read for &Async<T>
where
    for<'a> &'a T: Read,
{
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_with(|mut io| io.read(buf))
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_with(|mut io| io.read_vectored(bufs))
    }
}

impl<T: AsFd> Write for &Async<T>
where
    for<'a> &'a T: Write,
{
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_with(|mut io| io.write(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_with(|mut io| io.write_vectored(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_with(|mut io| io.flush())
    }
}
