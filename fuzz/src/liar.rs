//! A hostile server of a whole domain, and an honest client that has a binding to it.

use crate::interface::TargetClient;
use crate::peer::{Peer, Step};
use crate::visitor::{Greeting, OPENED};
use std::os::fd::AsFd;
use underpass_channel::layout::STACK;
use underpass_channel::{Channel, Fence};
use underpass_os::Socket;
use underpass_rpc::fuzz::FuzzBinding;

/// One binding with all its channels.
pub struct Liar {
    client: FuzzBinding,
    socket: Socket,
    /// The server's ends of the channels.
    ends: Vec<Peer>,
}

impl Liar {
    /// A server that says `greeting`, and a client that has imported from it nevertheless.
    pub fn imported(greeting: &Greeting) -> Option<Self> {
        let (socket, theirs) = Socket::pair().ok()?;
        let (channel, region) = Channel::create(Fence::Full, STACK).ok()?;
        // A silent server counts as one that has ended.
        let welcome = greeting.of_server()?;
        socket.send(&welcome, &[region.as_fd()]).ok()?;
        let client = FuzzBinding::import(theirs, TargetClient::descriptor()).ok()?;
        let mut liar = Self { client, socket, ends: Vec::new() };
        liar.has(channel, region, 0);
        Some(liar)
    }

    fn has(&mut self, channel: Channel, region: std::os::fd::OwnedFd, number: u8) {
        let copy = self.socket.as_fd().try_clone_to_owned().expect("room for a file");
        let socket = Socket::adopt(copy).expect("a socket");
        self.ends.push(Peer::server(region, channel, socket).further(number));
    }

    /// The server's client.
    pub fn client(&self) -> &FuzzBinding {
        &self.client
    }

    /// Passes the region of a further channel with this number, whether the client has asked for
    /// one or not.
    pub fn open(&mut self, number: u8) {
        let Ok((channel, region)) = Channel::create(Fence::Full, STACK) else { return };
        let number = number % 16;
        let mut said = [0; 16];
        (said[0], said[1]) = (OPENED, number << 4);
        if self.socket.send(&said, &[region.as_fd()]).is_ok() {
            self.has(channel, region, number);
        }
    }

    /// Makes a step with its end of one of the channels.
    pub fn does<Own>(&self, end: u8, step: Step<Own>) {
        self.ends[usize::from(end) % self.ends.len()].does(step);
    }
}
