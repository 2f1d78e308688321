//! The connection of a process whose children the server pins.

use crate::messages::{LONGEST, NAME, NodeMessage};
use crate::pinned::domain_survey::unpin_below;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use underpass_os::{Connected, Directory, Socket, process};

/// The processes below this one take part in the division of processors for as long as this lives.
#[derive(Debug)]
pub struct RunnerConnection {
    socket: Socket,
}

impl RunnerConnection {
    /// Has the server in `directory` pin the processes below this one, with this weight. Orphans
    /// stay below this process if it has called `underpass_os::children::adopt_orphans`.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused` if no server runs there. `PermissionDenied` if it is
    /// neither this user's nor root's.
    pub fn join(directory: &Directory, weight: u16) -> io::Result<Self> {
        let socket = Socket::connect(directory, NAME)?;
        let uid = socket.peer()?.uid;
        if uid != process::user() && uid != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        socket.send(&NodeMessage::Pin { weight }.encode(), &[])?;
        Ok(Self { socket })
    }

    /// Whether the server has ended, or has refused. The file has something to read then. What the
    /// server had pinned has everything back when this returns `true`.
    pub fn is_over(&self) -> bool {
        let mut buffer = [0; LONGEST];
        let is_over = loop {
            match self.socket.receive_plain(&mut buffer) {
                Ok(got) if got.len == 0 => break true,
                Ok(_) => {}
                Err(error) => break error.kind() != io::ErrorKind::WouldBlock,
            }
        };
        if is_over {
            unpin_below(std::process::id());
        }
        is_over
    }
}

impl AsFd for RunnerConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
