//! Copies the standard outputs of an untrusted process to those of the process that started it.
//!
//! The untrusted process gets an end of a stream socket, and never the file that its starter writes
//! to. A holder of that file could read it, truncate it and change its flags. It gets no pipe
//! either, because it could hold a pipe's lock for ever.

use crate::foreign::{ForeignFile, Table};
use crate::{peer, signal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{Shutdown, shutdown};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Bytes that one read copies.
const ROOM: usize = 16 * 1024;

/// Makes both ends of an output: one to read from, and one for the untrusted process.
///
/// The kernel keeps what is written and not read yet, up to the size of a socket's buffer
/// (`net.core.wmem_default`). Beyond that the writer waits.
///
/// # Errors
/// Too many open files.
pub fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    // Files could come along with the bytes, and closing them can take for ever.
    peer::admit_files(&ours, false);
    Ok((ours, theirs.into()))
}

/// Copies all that comes over the reading end of a [`pair`] to a file, until nothing more can come.
/// The reading end and the file are the next two files that come over the exchange of `table`.
///
/// It waits for the writer and for the file's reader. Before Linux 6.16 it also waits for the maker
/// of any file that comes along. So it may never return. If the file takes no more, the writer's
/// next writes fail with `EPIPE`.
///
/// # Errors
/// The exchange did not bring these two files, or reading fails.
pub fn copy(table: &Table) -> io::Result<()> {
    let next = || table.take()?.ok_or(io::Error::from(io::ErrorKind::UnexpectedEof));
    let (from, to): (ForeignFile, ForeignFile) = (next()?, next()?);
    let (from, to) = (table.reach(&from), table.reach(&to));
    // `write` returns this error as well.
    signal::block(signal::PIPE)?;
    let mut bytes = vec![0; ROOM];
    let mut takes_more = true;
    // Read to the end in any case: otherwise the thread that closes the last copy of this end would
    // close the files left in the queue.
    loop {
        let len = retry_on_intr(|| rustix::io::read(from, &mut bytes[..]))?;
        if len == 0 {
            return Ok(());
        }
        if takes_more && write_all(to, &bytes[..len]).is_err() {
            takes_more = false;
            // If the writer is gone already, that is fine too.
            let _ = shutdown(from, Shutdown::Read);
        }
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // Another holder has made the file nonblocking.
            Err(Errno::AGAIN) => {
                retry_on_intr(|| poll(&mut [PollFd::from_borrowed_fd(to, PollFlags::OUT)], None))?;
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Socket;
    use crate::foreign::Spawner;
    use std::io::{PipeReader, Read, Write, pipe};
    use std::net;
    use std::os::fd::AsFd;
    use std::sync::mpsc::{Receiver, channel};

    /// Returns the writer's end, the reader of the file, the copied end, and the result of
    /// [`copy`].
    fn copying() -> (UnixStream, PipeReader, UnixStream, Receiver<io::Result<()>>) {
        let (ours, theirs) = pair().unwrap();
        let (reader, file) = pipe().unwrap();
        let (exchange, of_thread) = Socket::pair().unwrap();
        let (done, told) = channel();
        let run = move |table| done.send(copy(&table)).unwrap();
        Spawner::start().unwrap().spawn("output-test", of_thread, run).unwrap();
        exchange.send(&[0], &[ours.as_fd()]).unwrap();
        exchange.send(&[0], &[file.as_fd()]).unwrap();
        (theirs.into(), reader, ours, told)
    }

    #[test]
    fn all_is_copied_that_was_written_before_the_end() {
        let (mut writer, mut reader, ours, told) = copying();
        let kept = writer.try_clone().unwrap();
        writer.write_all(&[b'x'; 100_000]).unwrap();
        writer.write_all(b"last words").unwrap();
        drop(writer);
        // Another holder has a copy of the writer's end.
        ours.shutdown(net::Shutdown::Read).unwrap();
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!((read.len(), read.ends_with(b"last words")), (100_010, true));
        told.recv().unwrap().unwrap();
        drop(kept);
    }

    #[test]
    fn no_file_comes_along() {
        let (_ours, theirs) = pair().unwrap();
        // Before Linux 6.16 a file can come along.
        if let Err(e) = crate::sockets::socket::send(&theirs, b"with a file", &[theirs.as_fd()]) {
            assert_eq!(e.raw_os_error(), Some(rustix::io::Errno::PERM.raw_os_error()));
        }
    }

    #[test]
    fn writes_fail_when_the_file_takes_no_more() {
        let (mut writer, reader, _ours, told) = copying();
        drop(reader);
        let failed = std::iter::repeat_with(|| writer.write_all(b"to nobody")).find_map(Result::err);
        assert_eq!(failed.unwrap().kind(), io::ErrorKind::BrokenPipe);
        told.recv().unwrap().unwrap();
    }
}
