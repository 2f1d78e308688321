//! Passing a file to another process over any connected Unix socket.

use crate::clock::{now_ns, timespec};
use crate::sockets::control_message::{ALL, receive};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The byte that goes along, since a stream carries no file without a byte.
const BYTE: [u8; 1] = [0];

/// Passes `file` to the reader of the other end of `socket`, with one byte.
///
/// # Errors
/// `socket` is no Unix socket, or its peer is gone or does not read.
pub fn pass(socket: impl AsFd, file: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    let pushed = control.push(SendAncillaryMessage::ScmRights(&files));
    debug_assert!(pushed, "there is room for one");
    retry_on_intr(|| sendmsg(&socket, &[IoSlice::new(&BYTE)], &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Takes a file that [`pass`] has passed, if it comes before `deadline_ns` of the monotonic clock.
///
/// # Errors
/// `TimedOut`. `UnexpectedEof` if the peer is gone. `InvalidData` if something else came. Too many
/// files are open.
pub fn take_passed(socket: impl AsFd, deadline_ns: u64) -> io::Result<OwnedFd> {
    let come = || {
        let left = timespec(deadline_ns.saturating_sub(now_ns()));
        poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&left))
    };
    if retry_on_intr(come)? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let got = loop {
        match receive(socket.as_fd(), &mut [0; 1], ALL, 0) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            got => break got?,
        }
    };
    match (got.files.into_iter().next(), got.len) {
        (Some(file), _) => Ok(file),
        (None, 0) => Err(io::ErrorKind::UnexpectedEof.into()),
        (None, _) => Err(io::Error::new(io::ErrorKind::InvalidData, "what came is no file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_file_is_passed_over_a_stream() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert_eq!(take_passed(&theirs, 0).unwrap_err().kind(), io::ErrorKind::TimedOut);
        pass(&ours, ours.as_fd()).unwrap();
        drop(take_passed(&theirs, 0).unwrap());
        (&ours).write_all(&[1]).unwrap();
        assert_eq!(take_passed(&theirs, 0).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(ours);
        assert_eq!(take_passed(&theirs, 0).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
