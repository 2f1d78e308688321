//! The bell byte, by which the writer wakes the reader over sockets that the writer has made. The
//! steps T1 to T3 are those of `README.md`.

use crate::bell::close;
use crate::bell_thread::bell_thread;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use underpass_channel::{BellByte, BellByteNews};
use underpass_os::{Poller, Socket, peer};
use underpass_rpc::PassedSocket;
use underpass_threads::{CriticalSection, critical};

/// The writer's end, which takes bell bytes.
#[derive(Debug)]
pub(crate) struct BellByteTaker(Socket);

impl BellByteTaker {
    /// A new pair: this end, and the socket for the reader.
    ///
    /// # Errors
    /// Too many open files.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (socket, theirs) = Socket::pair()?;
        // The reader sends bytes alone. Kernels before 6.16 can't refuse files; see `ring`.
        peer::admit_files(&socket, false);
        peer::admit_files(&theirs, false);
        Ok((Self(socket), theirs))
    }

    /// *Ring, T2.*
    pub(crate) fn ring(&self) {
        // No honest reader sends a file. This end would keep it until it is closed with care.
        if self.0.look().is_ok_and(|next| !next.with_files) {
            let _ = self.0.receive_plain(&mut [0; 8]);
        }
    }

    /// Ends the connection.
    pub(crate) fn hang_up(&self) {
        self.0.hang_up();
    }
}

impl Drop for BellByteTaker {
    fn drop(&mut self) {
        close(&self.0);
    }
}

/// The reader's end, which leaves bell bytes.
#[derive(Debug)]
pub(crate) struct BellByteLeaver {
    socket: PassedSocket,
    key: u64,
    bell: Mutex<BellByte>,
}

impl BellByteLeaver {
    /// The end in `socket`. The caller has to watch it.
    ///
    /// # Errors
    /// No kernel thread can be started.
    pub(crate) fn new(socket: PassedSocket) -> io::Result<Self> {
        Ok(Self { socket, key: bell_thread()?.next_key(), bell: Mutex::default() })
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    pub(crate) fn socket(&self) -> &PassedSocket {
        &self.socket
    }

    fn bell(&self) -> (MutexGuard<'_, BellByte>, CriticalSection) {
        // The thread of the bells waits for this lock in the kernel, so its holder is not
        // preempted.
        let critical = critical();
        (self.bell.lock().unwrap_or_else(PoisonError::into_inner), critical)
    }

    /// *Listen, T1.* The attention bit is set afterwards. Returns whether a ring will be heard, or
    /// the end is heard of.
    pub(crate) fn listen(&self) -> bool {
        let (mut bell, _critical) = self.bell();
        if bell.is_left() {
            return true;
        }
        match self.socket.end().send(&[1], &[]) {
            Ok(()) => {
                bell.was_left();
                true
            }
            // The end of the stream is about to be heard of, or was.
            Err(e) => matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
        }
    }

    /// *Hear, T3.* Something was reported of this end. `None` if the writer has hung up, or its
    /// domain has died.
    pub(crate) fn hear(&self) -> Option<BellByteNews> {
        if self.socket.end().is_over() {
            return None;
        }
        Some(self.bell().0.hear())
    }

    /// Has `poller` forget the socket.
    pub(crate) fn stop(&self, poller: &Poller) {
        poller.remove(self.socket.end());
    }
}

impl Drop for BellByteLeaver {
    fn drop(&mut self) {
        if let Ok(thread) = bell_thread() {
            thread.remove(self.key, self.socket.end());
        }
        self.socket.end().hang_up();
    }
}
