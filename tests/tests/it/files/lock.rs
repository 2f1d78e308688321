//! The kernel locks that a client can hold for ever, of files that it passes to its server.

use crate::files::liars::{announcement_of_files, bind_to, outcome, procedure};
use crate::files::missing_page::MissingPage;
use crate::files::slow::one_closes;
use crate::files::snare::Snare;
use crate::hostile::end::{End, HEAD, ROW, announcement, out_of_band};
use std::any::Any;
use std::fs::{File, OpenOptions};
use std::io::{Write, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use underpass_channel::OverflowBuffer;
use underpass_os::{Socket, clock};
use underpass_tests::{PorterClient, state_of, until};
use underpass_wire::to_bytes;

/// `EPOLLIN` and `EPOLLOUT`.
const READY: [u32; 2] = [1, 4];

/// The locks in the table of decision 0056.
#[derive(Clone, Copy, Debug)]
pub enum Lock {
    /// The lock of a pipe. Closing the last copy of an end takes it.
    Pipe,
    /// The lock of an epoll that watches a pipe. Closing the last copy of a watched file takes it.
    WatchedPipe,
    /// As [`WatchedPipe`](Self::WatchedPipe), with a socket.
    WatchedSocket,
    /// As [`WatchedPipe`](Self::WatchedPipe), with an end of a connection like a binding's.
    WatchedConnection,
    /// The lock of the inode of an overflow buffer. `MADV_REMOVE`, which gives the pages back,
    /// takes it.
    OverflowBuffer,
    /// The lock of a socket's receivers. `recvmsg` takes it. The peer keeps a copy of the passed
    /// end.
    Receiver,
    /// The lock of an open file's offset. A handler that reads the file takes it.
    Offset,
}

/// A lock that is held until this value is dropped, and what belongs to it.
pub struct Held {
    _snare: Snare,
    _beside: Box<dyn Any>,
}

fn held(snare: Snare, beside: impl Any) -> Held {
    Held { _snare: snare, _beside: Box::new(beside) }
}

impl Lock {
    pub const ALL: [Self; 7] = [
        Self::Pipe,
        Self::WatchedPipe,
        Self::WatchedSocket,
        Self::WatchedConnection,
        Self::OverflowBuffer,
        Self::Receiver,
        Self::Offset,
    ];

    /// Passes a file to the `public` server `to`, and holds this lock of the file.
    pub fn hold(self, page: Box<dyn MissingPage>, to: &str) -> Held {
        match self {
            Self::Pipe => {
                let (reader, writer) = pipe().unwrap();
                let snare = Snare::of_pipe(page, writer.into());
                leave(reader.into(), to);
                held(snare, ())
            }
            Self::WatchedPipe => {
                let (reader, mut writer) = pipe().unwrap();
                writer.write_all(b"x").unwrap();
                watched(page, reader.into(), READY[0], writer, to)
            }
            Self::WatchedSocket => {
                let (socket, other) = UnixStream::pair().unwrap();
                watched(page, socket.into(), READY[1], other, to)
            }
            Self::WatchedConnection => {
                let (ours, theirs) = Socket::pair().unwrap();
                watched(page, theirs, READY[1], ours, to)
            }
            Self::OverflowBuffer => overflow_buffer(page, to),
            Self::Receiver => receiver(page, to),
            Self::Offset => offset(page, to),
        }
    }

    /// Waits until a kernel thread of the server waits for the lock, if one will.
    pub fn until_waited_for(self, server: u32) {
        match self {
            // The server receives on another socket.
            Self::Receiver => {}
            Self::Offset => until("a handler to hang", || state_of(server).contains('D').then_some(())),
            _ => one_closes(server),
        }
    }
}

/// Passes `file`, of which no other copy exists, over a binding that then ends.
fn leave(file: OwnedFd, to: &str) {
    let end = bind_to(to);
    end.say(&announcement_of_files(0, 1, 0), &[file.as_fd()]);
    drop((file, end));
}

fn watched(page: Box<dyn MissingPage>, file: OwnedFd, events: u32, beside: impl Any, to: &str) -> Held {
    let snare = Snare::of_epoll(page, file.as_fd(), events);
    leave(file, to);
    held(snare, beside)
}

/// Replaces an overflow buffer while its lock is held. The call that brings the new buffer is
/// answered.
fn overflow_buffer(page: Box<dyn MissingPage>, to: &str) -> Held {
    let end = bind_to(to);
    let calls = |number: u8, file: &OwnedFd| {
        let mut said = announcement(0, 8);
        (said[1], said[6]) = (3, number);
        end.say(&said, &[file.as_fd()]);
        end.post(&out_of_band(0, procedure("maybe")));
        outcome(&end)
    };
    let ((_one, first), (_other, second)) =
        (OverflowBuffer::create(1).unwrap().unwrap(), OverflowBuffer::create(1).unwrap().unwrap());
    calls(1, &first);
    let snare = Snare::of_memory(page, first);
    assert_eq!(calls(2, &second).0, 0, "the call is answered while the lock is held");
    held(snare, end)
}

/// A ticket for another binding.
fn ticket(end: &End) -> Socket {
    let mut said = [0; 16];
    said[0] = 7;
    said[8..].copy_from_slice(&ROW.word().to_le_bytes());
    end.say(&said, &[]);
    let mut files = until("a ticket", || end.socket.receive(&mut [0; 16]).ok()).files;
    Socket::adopt(files.pop().expect("a server that lets its bindings be shared")).unwrap()
}

/// Uses a ticket, and receives from the end that was passed with it. The server still welcomes the
/// client.
fn receiver(page: Box<dyn MissingPage>, to: &str) -> Held {
    let end = bind_to(to);
    let ticket = ticket(&end);
    let (kept, passed) = Socket::pair().unwrap();
    kept.send(b"for the snare", &[]).unwrap();
    let snare = Snare::of_socket(page, passed.try_clone().unwrap());
    // The message that the server would receive from the end that was passed to it.
    kept.send(b"a message", &[]).unwrap();
    let clock = (clock::ahead_ns(), clock::now_ns());
    let hello = to_bytes(&(
        HEAD,
        PorterClient::descriptor().hashes(),
        (false, None::<u32>, false),
        clock,
        Vec::<u128>::new(),
    ));
    ticket.send(&hello, &[passed.as_fd()]).unwrap();
    drop(passed);
    // The welcome still comes: the server sends over that end, and receives elsewhere.
    kept.wait(u64::MAX / 2).unwrap();
    assert_eq!(kept.receive(&mut vec![0; 1 << 16]).unwrap().files.len(), 2);
    held(snare, (end, ticket, kept))
}

/// A call whose handler reads the file.
fn offset(page: Box<dyn MissingPage>, to: &str) -> Held {
    let path = std::env::temp_dir().join(format!("underpass-offset-{}", std::process::id()));
    let mut file: File = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(b"a text").unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let snare = Snare::of_offset(page, file.try_clone().unwrap().into());
    let end = bind_to(to);
    end.say(&announcement_of_files(0, 1, 0), &[file.as_fd()]);
    end.post(&out_of_band(0, procedure("read")));
    held(snare, (end, file))
}
