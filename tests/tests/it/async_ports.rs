//! Asynchronous ports and task signals between processes: order, room, losses, deaths, limits, and
//! what they cost.

mod cost;
mod death;
mod limits;
mod order;
mod process;
mod signals;
mod waits;

use underpass::port::{Arrival, LaneEnded, PortMessage, PortOptions, PortReceiver};
use underpass::{Running, Server};
use underpass_tests::Room;

/// A number, and bytes.
type Note = (u64, Vec<u8>);

/// A port of this process, exported under a name of its own.
struct Owned {
    receiver: PortReceiver<Note>,
    running: Running,
    name: String,
}

/// Opens a port with `options` for the test `of`.
fn own(of: &str, options: PortOptions) -> Owned {
    Room::directory();
    let name = Room::name(of);
    let (service, receiver) = options.open().unwrap();
    let running = Server::new().export(&*name, service).start().unwrap();
    Owned { receiver, running, name }
}

impl Owned {
    /// The next message. Panics at the end of a lane.
    fn message(&self) -> PortMessage<Note> {
        match self.receiver.recv().unwrap() {
            Arrival::Message(message) => message,
            Arrival::Ended(ended) => panic!("a lane ended: {ended:?}"),
        }
    }

    /// The next end of a lane, and the numbers of the messages before it.
    fn ended(&self) -> (Vec<u64>, LaneEnded) {
        let mut numbers = Vec::new();
        loop {
            match self.receiver.recv().unwrap() {
                Arrival::Message(came) => numbers.push(came.message.0),
                Arrival::Ended(ended) => return (numbers, ended),
            }
        }
    }
}
