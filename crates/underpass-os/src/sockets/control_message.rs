//! Receives a message and its control messages. Every receipt of this workspace goes through
//! [`receive`].
//!
//! For each file in a control message (`SCM_RIGHTS`) the kernel opens a descriptor in this process.
//! It opens one more for the sender's process if the socket asks for that (`SCM_PIDFD`), and the
//! maker of the socket may have switched that option on. So each descriptor becomes an [`OwnedFd`],
//! wanted or not.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The most files that any message can carry (`SCM_MAX_FD`). There is room for all of them. If
/// there were not, the receiving thread would close the others inside the kernel, however long that
/// takes.
const ALL_FILES: usize = 253;

/// Words that a control message with `bytes` of data takes.
const fn words(bytes: usize) -> usize {
    (HEAD + bytes).div_ceil(size_of::<u64>())
}

/// Bytes of a control message's header: its length, then its level, then its kind.
const HEAD: usize = size_of::<libc::cmsghdr>();
const _: () = assert!(HEAD == size_of::<usize>() + 2 * size_of::<i32>());

/// Room for the sender's credentials.
pub(crate) const SENDER: usize = words(size_of::<libc::ucred>());
/// Room for all files, the sender's credentials, and a descriptor of the sender's process.
pub(crate) const ALL: usize = words(ALL_FILES * size_of::<i32>()) + SENDER + words(size_of::<i32>());

/// `struct ucred`, as the kernel writes it.
pub(crate) type SenderCredentials = [u8; size_of::<libc::ucred>()];

/// One received message with all that came beside it.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// Bytes in the buffer. 0 if the peer is gone.
    pub len: usize,
    /// The files that came along.
    pub files: Vec<OwnedFd>,
    /// The sender, if the socket asks for it.
    pub sender: Option<SenderCredentials>,
    /// More came beside the message than there was room for. The kernel has closed the rest.
    pub lost: bool,
    /// The message was longer than the buffer.
    pub cut: bool,
    /// A control message came whose kind [`receive`] does not know.
    pub unknown: bool,
}

/// Receives the next message into `buffer`, and its control messages into `room` words, at most
/// [`ALL`]. It never blocks. `flags` is 0 or `MSG_PEEK`.
///
/// Each kind of control message is handled as follows:
/// * `SCM_RIGHTS`: the caller gets the files, also those of a truncated message.
/// * `SCM_PIDFD`: the descriptor is closed at once. That never waits.
/// * `SCM_CREDENTIALS`: the caller gets the credentials.
/// * Any other kind is reported as [`unknown`](Message::unknown). The kinds of Linux 6.18 (labels,
///   times) hold no descriptor. A kind of a later kernel might hold one, and its position is
///   unknown. So the caller has to end the connection.
///
/// # Errors
/// `WouldBlock` if there is no message.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    room: usize,
    flags: libc::c_int,
) -> io::Result<Message> {
    let mut control = [0u64; ALL];
    let control = &mut control[..room];
    let mut bytes = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all of its fields may be zero.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_iov = &raw mut bytes;
    head.msg_iovlen = 1;
    head.msg_control = control.as_mut_ptr().cast();
    head.msg_controllen = size_of_val(control) as _;
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: `head` names `buffer` and `control` and their sizes, and both outlive the call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut head, flags) };
    if len < 0 {
        return Err(io::Error::last_os_error());
    }
    let has = |flag| head.msg_flags & flag != 0;
    let (lost, cut) = (has(libc::MSG_CTRUNC), has(libc::MSG_TRUNC));
    let mut message = Message { len: len as usize, lost, cut, ..Message::default() };
    let mut written = [0; ALL * size_of::<u64>()];
    for (to, word) in written.as_chunks_mut().0.iter_mut().zip(&*control) {
        *to = word.to_ne_bytes();
    }
    // SAFETY: the kernel has just written this many bytes of control messages, and nobody has read
    // them before.
    unsafe { message.own(&written[..(head.msg_controllen as usize).min(written.len())]) };
    Ok(message)
}

impl Message {
    /// Takes over what the control messages in `left` hold. Each begins at a word.
    ///
    /// # Safety
    /// The kernel has written `left` for this process, and it is read once, so nothing owns its
    /// descriptors yet.
    unsafe fn own(&mut self, mut left: &[u8]) {
        while let Some((head, rest)) = left.split_first_chunk::<HEAD>() {
            let (of_len, kind) = head.split_at(size_of::<usize>());
            let (Some(len), Some((level, kind))) = (of_len.first_chunk(), kind.split_first_chunk::<4>())
            else {
                return;
            };
            let len = usize::from_ne_bytes(*len);
            // If a control message is longer than what is left, only the bytes that are there
            // count.
            let data = &rest[..len.saturating_sub(HEAD).min(rest.len())];
            let kind = kind.first_chunk().map(|kind| i32::from_ne_bytes(*kind));
            match (i32::from_ne_bytes(*level), kind) {
                (libc::SOL_SOCKET, Some(libc::SCM_RIGHTS)) => {
                    // SAFETY: the caller guarantees that the kernel has just opened these
                    // descriptors.
                    self.files.extend(unsafe { descriptors(data) });
                }
                (libc::SOL_SOCKET, Some(SCM_PIDFD)) => {
                    // SAFETY: as above.
                    unsafe { descriptors(data) }.for_each(drop);
                }
                (libc::SOL_SOCKET, Some(libc::SCM_CREDENTIALS)) => self.sender = data.first_chunk().copied(),
                _ => self.unknown = true,
            }
            left = left.get(len.max(HEAD).next_multiple_of(size_of::<usize>())..).unwrap_or_default();
        }
    }
}

/// `SCM_PIDFD` of the kernel's `socket.h`, Linux 6.5.
const SCM_PIDFD: libc::c_int = 4;

/// The descriptors in `data`. In place of a process's descriptor the kernel may write an error,
/// which is negative.
///
/// # Safety
/// The descriptors are open, and nothing owns them yet.
unsafe fn descriptors(data: &[u8]) -> impl Iterator<Item = OwnedFd> {
    let numbers = data.as_chunks().0.iter().map(|number| i32::from_ne_bytes(*number));
    numbers.filter(|&number| number >= 0).map(|number| {
        // SAFETY: the caller says so of each.
        unsafe { OwnedFd::from_raw_fd(number) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MOST_FILES, Socket};
    use std::os::fd::AsFd;

    /// Sets an option of a socket.
    fn set(socket: &impl AsFd, option: libc::c_int, to: libc::c_int) -> io::Result<()> {
        // SAFETY: `to` is as long as is said.
        let done = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const to).cast(),
                size_of_val(&to) as libc::socklen_t,
            )
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The number of process descriptors (`pidfd`) that this process has open.
    fn processes() -> usize {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let names = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        names.filter(|name| name.to_string_lossy().contains("pidfd")).count()
    }

    #[test]
    fn each_way_to_receive_closes_the_descriptor_of_the_senders_process() {
        // More than other tests hold open at the same moment.
        const MESSAGES: usize = 100;
        let receives: [fn(&Socket); 3] = [
            |ours| drop(ours.receive_any(&mut [0; 8]).unwrap()),
            |ours| drop(crate::take_passed(ours, 0).unwrap()),
            |ours| {
                assert!(ours.look().unwrap().with_files);
                ours.unread();
                ours.receive(&mut [0; 8]).unwrap();
            },
        ];
        for receive in receives {
            let (ours, theirs) = Socket::pair().unwrap();
            let theirs = Socket::adopt(theirs).unwrap();
            match set(&ours, libc::SO_PASSPIDFD, 1) {
                // Linux before 6.5 opens no such descriptor, so there is nothing to close.
                Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => return,
                done => done.unwrap(),
            }
            let before = processes();
            for _ in 0..MESSAGES {
                theirs.send(b"message", &[theirs.as_fd()]).unwrap();
                receive(&ours);
            }
            let left = processes().saturating_sub(before);
            assert!(left < MESSAGES / 2, "{left} descriptors are left of {MESSAGES} messages");
        }
    }

    #[test]
    fn a_process_beside_all_files_loses_none_of_them() {
        let (ours, theirs) = Socket::pair().unwrap();
        let theirs = Socket::adopt(theirs).unwrap();
        ours.ask_for_senders().unwrap();
        // Where the option does not exist, the files come alone.
        let _ = set(&ours, libc::SO_PASSPIDFD, 1);
        theirs.send(b"message", &[theirs.as_fd(); MOST_FILES]).unwrap();
        let received = ours.take(&mut [0; 8], ALL, 0).unwrap();
        assert_eq!((received.files.len(), received.lost), (MOST_FILES, false));
        assert!(received.sender.is_some());
    }

    #[test]
    fn an_unknown_control_message_ends_the_connection() {
        let (ours, theirs) = Socket::pair().unwrap();
        let theirs = Socket::adopt(theirs).unwrap();
        set(&ours, libc::SO_TIMESTAMP, 1).unwrap();
        theirs.send(b"message", &[theirs.as_fd()]).unwrap();
        let received = ours.receive_any(&mut [0; 8]).unwrap();
        assert_eq!((received.len, received.files.len()), (7, 1), "it comes whole");
        assert!(theirs.send(b"more", &[]).is_err());
        assert_eq!(ours.receive(&mut [0; 8]).unwrap().len, 0);
    }
}
