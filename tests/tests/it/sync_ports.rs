//! Synchronous ports between processes: replies, order, waits, deaths, and what they cost.

mod cost;
mod death;
mod order;
mod pressure;
mod process;
mod replies;
mod waits;

use underpass::port::sync::{PortRequest, SyncPortOptions, SyncPortReceiver};
use underpass::{Running, Server};
use underpass_tests::Room;

/// A number, and bytes.
type Note = (u64, Vec<u8>);

/// A port of this process, exported under a name of its own.
struct Owned {
    receiver: SyncPortReceiver<Note, u64>,
    running: Running,
    name: String,
}

/// Opens a port with `options` for the test `of`.
fn own(of: &str, options: SyncPortOptions) -> Owned {
    Room::directory();
    let name = Room::name(of);
    let (service, receiver) = options.open();
    let running = Server::new().export(&*name, service).start().unwrap();
    Owned { receiver, running, name }
}

impl Owned {
    /// The next message.
    fn message(&self) -> PortRequest<Note, u64> {
        self.receiver.recv().unwrap()
    }

    /// The numbers of the next messages, with their replies.
    fn park(&self, count: usize) -> Vec<(u64, underpass::port::sync::Reply<u64>)> {
        let park = |_| {
            let (note, reply) = self.message().take();
            assert_eq!(note.1, vec![note.0 as u8; 8]);
            (note.0, reply)
        };
        (0..count).map(park).collect()
    }
}

/// A name for the port of another process, and its removal.
struct Name(String);

impl Name {
    fn new(of: &str) -> Self {
        Room::directory();
        Self(Room::name(of))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(Room::directory().join(&self.0));
    }
}
