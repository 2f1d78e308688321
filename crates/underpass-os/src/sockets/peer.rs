//! The identity of the process at the other end of a connection. The kernel recorded it when the
//! connection was made, so nothing here relies on what the peer says.

use crate::Socket;
use crate::sockets::control_message::SenderCredentials;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::set_socket_passcred;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// The user, group and process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The process. 0 where this process's namespace has no number for it.
    pub pid: i32,
    /// The user: the effective one of a connecting process, the real one of the sender of a
    /// message.
    pub uid: u32,
    /// The group, likewise.
    pub gid: u32,
}

impl Credentials {
    /// The effective user and group of this process.
    pub fn own() -> Self {
        Self {
            pid: rustix::process::getpid().as_raw_pid(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    pub(crate) fn of(bytes: &SenderCredentials) -> Self {
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let (uid, gid) = (u32::from_ne_bytes(word(4)), u32::from_ne_bytes(word(8)));
        Self { pid: i32::from_ne_bytes(word(0)), uid, gid }
    }
}

/// The process at the other end, as far as it can be watched.
#[derive(Debug)]
pub enum Other {
    /// A descriptor of the process (`pidfd`), which becomes readable once the process has ended.
    Process(OwnedFd),
    /// The process has ended.
    Ended,
    /// The process is this one, as far as the kernel knows. The maker of a pair is at both of its
    /// ends.
    This,
    /// The kernel does not say.
    Unknown,
}

/// A message that was examined and left in the queue.
#[derive(Clone, Copy, Debug)]
pub struct PeekedMessage {
    /// Files come with it.
    pub with_files: bool,
    /// The sender, if it was [asked for](Socket::ask_for_senders) before the message was sent.
    pub sender: Option<Credentials>,
}

/// Groups and labels longer than this many bytes take a second system call.
const USUAL: usize = 256;

/// One end of a connection. The kernel says which process made the other end.
pub trait Connected: AsFd {
    /// The process that connected or listened at the other end. For a
    /// [`pair`](crate::Socket::pair), the process that made it.
    ///
    /// # Errors
    /// The errors of `SO_PEERCRED`.
    fn peer(&self) -> io::Result<Credentials> {
        let mut bytes = [0; size_of::<libc::ucred>()];
        option(self, libc::SO_PEERCRED, &mut bytes).map_err(|(e, _)| e)?;
        Ok(Credentials::of(&bytes))
    }

    /// A descriptor of that process (`pidfd`). No later process can take its place.
    ///
    /// # Errors
    /// Linux before 6.5 has none. The process has ended and was waited for. Too many files are
    /// open.
    fn peer_process(&self) -> io::Result<OwnedFd> {
        let mut number = [0; 4];
        option(self, libc::SO_PEERPIDFD, &mut number).map_err(|(e, _)| e)?;
        // SAFETY: the kernel has just opened it for the caller.
        Ok(unsafe { OwnedFd::from_raw_fd(i32::from_ne_bytes(number)) })
    }

    /// The process at the other end, with all cases named.
    ///
    /// # Errors
    /// Too many files are open, or there is no memory.
    fn other(&self) -> io::Result<Other> {
        if self.peer().is_ok_and(|peer| u32::try_from(peer.pid) == Ok(std::process::id())) {
            return Ok(Other::This);
        }
        match self.peer_process() {
            Ok(process) => Ok(Other::Process(process)),
            Err(e) => match e.raw_os_error() {
                // The errors by which various Linux versions report a process that was waited for.
                Some(libc::ESRCH | libc::EINVAL) => Ok(Other::Ended),
                Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => Err(e),
                _ => Ok(Other::Unknown),
            },
        }
    }

    /// The supplementary groups of that process.
    ///
    /// # Errors
    /// The errors of `SO_PEERGROUPS`.
    fn peer_groups(&self) -> io::Result<Vec<u32>> {
        let bytes = long_option(self, libc::SO_PEERGROUPS)?;
        Ok(bytes.as_chunks().0.iter().map(|group| u32::from_ne_bytes(*group)).collect())
    }

    /// The label that a security module (SELinux, Smack, AppArmor) has given to that process.
    /// `None` where no module labels sockets.
    ///
    /// # Errors
    /// The other errors of `SO_PEERSEC`.
    fn peer_label(&self) -> io::Result<Option<String>> {
        match long_option(self, libc::SO_PEERSEC) {
            Ok(label) => {
                let label = String::from_utf8_lossy(&label);
                Ok(Some(label.trim_end_matches('\0').to_owned()).filter(|label| !label.is_empty()))
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl Connected for Socket {}

impl Socket {
    /// Makes the kernel name the sender of each message from now on, to [`look`](Self::look) and to
    /// receivers.
    ///
    /// # Errors
    /// The errors of `SO_PASSCRED`.
    pub fn ask_for_senders(&self) -> io::Result<()> {
        set_socket_passcred(self, true)?;
        self.sets_names_senders();
        Ok(())
    }

    /// Sets whether messages may bring files. If not, sending such a message fails. Before Linux
    /// 6.16 such messages always come.
    pub fn admit_files(&self, admit: bool) {
        admit_files(self, admit);
    }

    /// The first message in the queue of a connection that was hung up on. `None` if the queue is
    /// empty.
    ///
    /// An empty message is distinguished from the end by its sender, so from now on the kernel
    /// names the sender of each message. Where that is impossible, all queues count as empty.
    pub fn unread(&self) -> Option<PeekedMessage> {
        self.ask_for_senders().ok()?;
        let next = self.look().ok()?;
        next.sender.map(|_| next)
    }

    /// Looks at the next message without taking it. Its files do not come into this process.
    ///
    /// Nobody else may receive from this end meanwhile. Otherwise the answer describes another
    /// message.
    ///
    /// # Errors
    /// `WouldBlock` if there is no message.
    pub fn look(&self) -> io::Result<PeekedMessage> {
        let next = self.take(&mut [], self.room_for_sender(), libc::MSG_PEEK)?;
        Ok(PeekedMessage { with_files: next.lost, sender: next.sender.as_ref().map(Credentials::of) })
    }
}

/// As [`Socket::admit_files`], for any Unix socket.
pub fn admit_files(socket: impl AsFd, admit: bool) {
    let _ = set_option(socket, SO_PASSRIGHTS, admit.into());
}

/// Whether a socket can refuse messages that bring files. Linux has that since 6.16.
///
/// # Examples
/// ```
/// println!("sockets refuse files: {}", underpass_os::peer::can_refuse_files());
/// ```
pub fn can_refuse_files() -> bool {
    std::os::unix::net::UnixDatagram::pair()
        .is_ok_and(|(socket, _)| set_option(socket, SO_PASSRIGHTS, 1).is_ok())
}

/// `SO_PASSRIGHTS` of the kernel's `socket.h`, Linux 6.16.
const SO_PASSRIGHTS: libc::c_int = 83;

fn set_option(socket: impl AsFd, which: libc::c_int, to: libc::c_int) -> io::Result<()> {
    // SAFETY: `to` is as long as is said, and outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            which,
            (&raw const to).cast(),
            size_of_val(&to) as libc::socklen_t,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads an option of any length.
fn long_option<S: AsFd + ?Sized>(socket: &S, which: libc::c_int) -> io::Result<Vec<u8>> {
    let mut room = USUAL;
    loop {
        let mut bytes = vec![0; room];
        match option(socket, which, &mut bytes) {
            Ok(len) => {
                bytes.truncate(len);
                return Ok(bytes);
            }
            // The kernel says how long the option is.
            Err((e, len)) if e.raw_os_error() == Some(libc::ERANGE) && len > room => room = len,
            Err((e, _)) => return Err(e),
        }
    }
}

/// Reads an option into `bytes`. Returns its length, also where there is no room for it.
fn option<S: AsFd + ?Sized>(
    socket: &S,
    which: libc::c_int,
    bytes: &mut [u8],
) -> Result<usize, (io::Error, usize)> {
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `bytes`, and `len` itself.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            which,
            bytes.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    match done {
        0 => Ok(len as usize),
        _ => Err((io::Error::last_os_error(), len as usize)),
    }
}

/// Whether the process of a `pidfd` is still running.
///
/// # Errors
/// The errors of `poll`.
pub fn lives(process: &OwnedFd) -> io::Result<bool> {
    let mut asked = [PollFd::new(process, PollFlags::IN)];
    Ok(rustix::io::retry_on_intr(|| poll(&mut asked, Some(&Default::default())))? == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MOST_FILES;

    #[test]
    fn the_kernel_says_who_made_a_pair() {
        let (ours, theirs) = Socket::pair().unwrap();
        let peer = ours.peer().unwrap();
        assert_eq!((peer.pid as u32, peer.uid), (std::process::id(), crate::process::user()));
        assert_eq!(ours.peer_groups().unwrap(), Socket::adopt(theirs).unwrap().peer_groups().unwrap());
        ours.peer_label().unwrap();
        match ours.peer_process() {
            Ok(process) => assert!(lives(&process).unwrap()),
            Err(e) => assert_eq!(e.raw_os_error(), Some(libc::ENOPROTOOPT)),
        }
        assert!(matches!(ours.other().unwrap(), Other::This));
    }

    #[test]
    fn an_empty_message_is_no_end() {
        let (ours, theirs) = Socket::pair().unwrap();
        let theirs = Socket::adopt(theirs).unwrap();
        theirs.send(b"", &[]).unwrap();
        theirs.send(b"", &[theirs.as_fd(); MOST_FILES]).unwrap();
        theirs.send(b"long", &[]).unwrap();
        ours.hang_up();
        assert!(!ours.look().unwrap().with_files && !ours.unread().unwrap().with_files);
        assert!(!ours.look().unwrap().with_files, "senders are asked for by now");
        assert!(ours.receive_any(&mut []).unwrap().files.is_empty());
        assert!(ours.look().unwrap().with_files && ours.unread().unwrap().with_files);
        let received = ours.receive_any(&mut []).unwrap();
        assert_eq!((received.files.len(), received.lost_files), (MOST_FILES, false));
        assert!(!ours.unread().unwrap().with_files && ours.receive_any(&mut []).unwrap().cut);
        assert!(ours.unread().is_none(), "it has ended");
    }

    #[test]
    fn the_kernel_says_who_sent_a_message() {
        let (ours, theirs) = Socket::pair().unwrap();
        let theirs = Socket::adopt(theirs).unwrap();
        theirs.send(b"before", &[]).unwrap();
        let next = ours.look().unwrap();
        assert!(!next.with_files && next.sender.is_none());
        ours.receive_plain(&mut [0; 8]).unwrap();
        ours.ask_for_senders().unwrap();
        theirs.send(b"after", &[theirs.as_fd()]).unwrap();
        let next = ours.look().unwrap();
        assert_eq!((next.with_files, next.sender), (true, Some(ours.peer().unwrap())));
        ours.receive(&mut [0; 8]).unwrap();
        assert_eq!(ours.look().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(theirs);
        let next = ours.look().unwrap();
        assert!(!next.with_files && next.sender.is_none());
    }

    #[test]
    fn files_are_refused_where_they_are_not_admitted() {
        let (ours, theirs) = Socket::pair().unwrap();
        let theirs = Socket::adopt(theirs).unwrap();
        ours.admit_files(false);
        match theirs.send(b"message", &[theirs.as_fd()]) {
            Err(e) => assert_eq!(e.raw_os_error(), Some(libc::EPERM)),
            // Before Linux 6.16.
            Ok(()) => assert!(ours.look().unwrap().with_files),
        }
        ours.admit_files(true);
        theirs.send(b"message", &[theirs.as_fd()]).unwrap();
    }

    #[test]
    fn a_look_brings_no_file() {
        let (ours, theirs) = Socket::pair().unwrap();
        let theirs = Socket::adopt(theirs).unwrap();
        for asked in [false, true] {
            if asked {
                ours.ask_for_senders().unwrap();
            }
            theirs.send(b"one", &[theirs.as_fd()]).unwrap();
            let next = ours.take(&mut [], ours.room_for_sender(), libc::MSG_PEEK).unwrap();
            assert!(next.files.is_empty() && next.lost);
            ours.receive(&mut [0; 8]).unwrap();
        }
    }
}
