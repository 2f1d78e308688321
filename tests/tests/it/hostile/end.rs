//! The parts that lying clients and lying servers share: a channel under their control, and the
//! bytes of the messages over its socket.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use underpass_channel::layout::{REGION, VERSION};
use underpass_channel::{Cell, Channel, Doorbell, Payload, PayloadPlace, Region, Tag};
use underpass_os::{PayloadFile, Socket};
use underpass_tests::ProbeClient;
use underpass_wire::Sink;

/// The beginning of both messages of the handshake: a magic number, the version, and the size of a
/// region.
pub type Head = (u32, u32, u64);

/// The beginning as an honest domain sends it.
pub const HEAD: Head = (0x5552_5043, VERSION, REGION as u64);

/// The row of a binding that is the first of its connection. A reply names no row, and its receiver
/// does not look there.
pub const ROW: Tag = Tag::new(0, 1);

/// The outcome of a call that was executed.
pub const DONE: u16 = 0;
/// The outcome of a call that nobody wanted any more.
#[allow(dead_code, reason = "one of the two liars has no use for it")]
pub const UNWANTED: u16 = 4;
/// The outcome of a call whose arguments do not fit the interface.
pub const BAD_ARGUMENTS: u16 = 2;
/// The outcome of a call of a procedure that the server's version of the interface lacks.
#[allow(dead_code, reason = "not all liars have a use for it")]
pub const NO_PROCEDURE: u16 = 10;

/// The message by which an honest peer announces an out-of-band payload file.
pub fn announcement(slot: u16, length: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[0] = 1;
    bytes[2..4].copy_from_slice(&slot.to_le_bytes());
    bytes[8..].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// A message that claims that its bytes are out of band.
pub fn out_of_band(slot: u16, what: u16) -> Cell {
    Cell { place: PayloadPlace::OutOfBand, ..Cell::request(slot, what, ROW) }
}

/// A message that claims that its `length` bytes lie in the A-stack.
pub fn on_the_stack(slot: u16, what: u16, length: u32) -> Cell {
    Cell { place: PayloadPlace::Stack, length, ..Cell::request(slot, what, ROW) }
}

/// An out-of-band payload file that begins with `bytes`.
pub fn payload_file(bytes: &[u8]) -> PayloadFile {
    let payload_file = PayloadFile::create("hostile").unwrap();
    payload_file.write(bytes, 0).unwrap();
    payload_file
}

/// One end of a channel, under the control of a peer that follows no rule.
pub struct End {
    /// The binding's socket, which all its channels share.
    pub socket: Socket,
    /// The number of the channel.
    pub number: u8,
    pub channel: Channel,
    /// The same memory, to be written at any time.
    pub region: Arc<Region>,
}

impl End {
    /// Posts a message, and wakes the peer as an honest domain does.
    pub fn post(&self, cell: &Cell) {
        self.ring(self.channel.post(cell));
    }

    /// Wakes the peer after a direct write into the ring, as a post does. A peer that is about to
    /// sleep notices it too.
    #[allow(dead_code, reason = "one of the two liars has no use for it")]
    pub fn call_peer(&self) {
        // The fence of a post. The barrier between a sleeper's bit and its last check pairs with
        // it.
        fence(Ordering::SeqCst);
        self.ring(self.channel.claim());
    }

    fn ring(&self, doorbell: Doorbell) {
        match doorbell {
            Doorbell::None => {}
            Doorbell::Wake => self.channel.wake_peer(),
            // A full socket contains enough doorbells, and a peer that has hung up needs none.
            Doorbell::Socket => {
                let mut bell = [0; 16];
                bell[1] = self.number << 4;
                drop(self.socket.send(&bell, &[]));
            }
        }
    }

    /// Posts a request of `bytes`, with the bytes where an honest domain puts them.
    #[allow(dead_code, reason = "one of the two liars has no use for it")]
    pub fn post_bytes(&self, slot: u16, what: u16, bytes: &[u8]) {
        self.post(&Cell::inline_request(slot, what, ROW, bytes).unwrap_or_else(|| {
            self.fill_stack(slot, bytes);
            on_the_stack(slot, what, bytes.len() as u32)
        }));
    }

    /// Takes the next message, if one has come.
    pub fn take(&self) -> Option<Cell> {
        let mut payload = Payload::new();
        let came = self.channel.receiving().take(&mut payload);
        came.expect("an honest peer damages nothing").map(|head| Cell::from_parts(head, payload))
    }

    /// Puts `bytes` into the A-stack of `slot`.
    pub fn fill_stack(&self, slot: u16, bytes: &[u8]) {
        self.region.stack_sink(slot).put(bytes);
    }

    /// Announces an out-of-band payload file of `length` bytes, and passes `file` for it.
    pub fn pass(&self, slot: u16, length: u64, file: BorrowedFd<'_>) {
        self.say(&announcement(slot, length), &[file]);
    }

    /// Sends a message over the socket.
    pub fn say(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
        self.socket.send(bytes, files).unwrap();
    }

    /// Waits until the peer has hung up.
    pub fn hung_up(&self) {
        until_gone(&self.socket);
    }
}

/// The index of a procedure of `Probe`.
pub fn procedure(name: &str) -> u16 {
    let procedures = &ProbeClient::descriptor().procedures;
    procedures.iter().find(|procedure| procedure.name == name).expect("a procedure of Probe").index
}

/// Waits until the peer of `socket` has hung up.
pub fn until_gone(socket: &Socket) {
    while !gone(socket) {
        // There is no limit, because the watchdog ends a test that waits in vain.
        socket.wait(u64::MAX / 2).unwrap();
    }
}

/// Whether the peer of `socket` has hung up.
pub fn gone(socket: &Socket) -> bool {
    gone_after(socket, &mut [0; 64 * 1024], |_, _| {})
}

/// Whether the peer of `socket` has hung up. `each` is called for each of its messages, with the
/// announced length and the files that came.
pub fn gone_after(socket: &Socket, buffer: &mut [u8], mut each: impl FnMut(u64, Vec<OwnedFd>)) -> bool {
    loop {
        match socket.receive(buffer) {
            Ok(received) if received.len == 0 => return true,
            Ok(received) => {
                let length = buffer[8..16].try_into().map_or(0, u64::from_le_bytes);
                each(length, received.files);
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
    }
}
