//! What a process that nobody trusts writes to its standard outputs, on its way to those of the
//! process that started it.
//!
//! The untrusted process gets an end of a stream socket, and never the file that its starter writes
//! to: a holder of that can read it, truncate it and change its flags. It gets no pipe either,
//! whose lock it could hold for ever.

use crate::foreign::{ForeignFile, Table};
use crate::{peer, signal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{Shutdown, shutdown};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Bytes that are copied at once.
const ROOM: usize = 16 * 1024;

/// Both ends of an output: one to read from, and one for the process that writes.
///
/// What is written and not read yet stays in the kernel, as many bytes as a socket holds
/// (`net.core.wmem_default`). Beyond that the writer waits.
///
/// # Errors
/// Too many open files.
pub fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    // Files could come along with the bytes, and to close them can take for ever.
    peer::admit_files(&ours, false);
    Ok((ours, theirs.into()))
}

/// Copies all that comes over the reading end of a [`pair`] to a file, until nothing can come any
/// more. These two are the next files that come over the exchange of `table`.
///
/// It waits for the writer, for the file's reader, and, before Linux 6.16, for the maker of a
/// file that comes along. So it may never return. If the file takes no more, the writer's next
/// writes fail with `EPIPE`.
///
/// # Errors
/// The exchange brought no such two files; what `read` says.
pub fn copy(table: &Table) -> io::Result<()> {
    let next = || table.take()?.ok_or(io::Error::from(io::ErrorKind::UnexpectedEof));
    let (from, to): (ForeignFile, ForeignFile) = (next()?, next()?);
    let (from, to) = (table.reach(&from), table.reach(&to));
    // `write` says it as well.
    signal::block(signal::PIPE)?;
    let mut bytes = vec![0; ROOM];
    let mut takes_more = true;
    // It reads to the end in any case: what is left in the queue would be closed by the thread
    // that closes the last copy of this end.
    loop {
        let len = retry_on_intr(|| rustix::io::read(from, &mut bytes[..]))?;
        if len == 0 {
            return Ok(());
        }
        if takes_more && write_all(to, &bytes[..len]).is_err() {
            takes_more = false;
            // A writer that is gone is as good.
            let _ = shutdown(from, Shutdown::Read);
        }
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // Somebody has made the file nonblocking.
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

    /// The writer's end, the reader of the file, the copied end, and what [`copy`] says.
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
        // Somebody has a copy of the writer's end.
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
        // Before Linux 6.16 it can.
        if let Err(e) = crate::socket::send(&theirs, b"with a file", &[theirs.as_fd()]) {
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
