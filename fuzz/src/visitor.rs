//! A hostile client of a whole domain. It comes in by a name or a ticket, and asks for more.

use crate::interface::TargetClient;
use crate::peer::{Peer, Step};
use arbitrary::{Arbitrary, Result, Unstructured};
use std::os::fd::{AsFd, OwnedFd};
use underpass_channel::layout::{REGION, STACK, VERSION};
use underpass_channel::{Channel, Fence, Tag};
use underpass_os::{Directory, Socket, clock};
use underpass_wire::to_bytes;

/// The beginning of both messages of the handshake: a magic number, the version and the size of a
/// region.
const HEAD: (u32, u32, u64) = (0x5552_5043, VERSION, REGION as u64);
/// How a domain runs: without barriers, on any CPU, on processors of its own.
const CAPABILITIES: (bool, Option<u32>, bool) = (false, None, false);
/// The kind of a server's answer that brings a region.
const WELCOME: u8 = 0;
/// The messages by which a client asks for another channel or for a ticket.
const ASK: u8 = 3;
const SHARE: u8 = 7;
/// The answers that bring a file.
pub(crate) const OPENED: u8 = 4;
const TICKET: u8 = 8;
/// The longest answer to a hello.
const LONGEST: usize = 64 << 10;

/// The first message of either side.
#[derive(Debug)]
pub enum Greeting {
    /// The message of an honest domain.
    Honest,
    /// That of an honest domain with secrets of connections that others have.
    Shows(Vec<u128>),
    /// Any message.
    Other(Vec<u8>),
    /// The message of a domain that knows these versions of the interface, beside those that there
    /// are.
    Versions(Versions),
    /// The message of an honest domain with a few bytes changed.
    Damaged(Vec<(u8, u8)>),
    /// No message.
    Silence,
}

/// Versions that a domain says it knows. Each is one that there is, or any number.
#[derive(Debug, Arbitrary)]
pub struct Versions(Vec<Result<u8, u64>>);

impl Versions {
    fn hashes(&self) -> Vec<u64> {
        let known = TargetClient::descriptor().hashes();
        let of = |version: &Result<u8, u64>| version.map_or_else(|any| any, |at| known[usize::from(at) % known.len()]);
        self.0.iter().map(of).collect()
    }
}

impl<'a> Arbitrary<'a> for Greeting {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        // A client without a binding tries little else.
        Ok(match u.int_in_range(0..=31u8)? {
            0..27 => Self::Honest,
            27 => Self::Versions(u.arbitrary()?),
            28 => Self::Shows(u.arbitrary()?),
            29 => Self::Other(u.arbitrary()?),
            30 => Self::Damaged(u.arbitrary()?),
            _ => Self::Silence,
        })
    }
}

impl Greeting {
    /// The message of a client.
    pub fn of_client(&self) -> Option<Vec<u8>> {
        let clock = (clock::ahead_ns(), clock::now_ns());
        let secrets = if let Self::Shows(secrets) = self { secrets.clone() } else { Vec::new() };
        let hashes = match self {
            Self::Versions(versions) => versions.hashes(),
            _ => TargetClient::descriptor().hashes(),
        };
        self.bytes(to_bytes(&(HEAD, hashes, CAPABILITIES, clock, secrets)))
    }

    /// The message of a server.
    pub fn of_server(&self) -> Option<Vec<u8>> {
        let hash = match self {
            Self::Versions(versions) => versions.hashes().first().copied().unwrap_or_default(),
            _ => TargetClient::descriptor().hash,
        };
        let first = Tag::new(0, 1).word();
        self.bytes(to_bytes(&(HEAD, WELCOME, CAPABILITIES, hash, None::<u128>, 1u128, first)))
    }

    fn bytes(&self, honest: Vec<u8>) -> Option<Vec<u8>> {
        match self {
            Self::Honest | Self::Versions(_) | Self::Shows(_) => Some(honest),
            // A message without bytes is no message.
            Self::Other(bytes) => (!bytes.is_empty()).then(|| bytes.clone()),
            Self::Damaged(changes) => {
                let mut damaged = honest;
                for &(at, change) in changes {
                    let at = usize::from(at) % damaged.len();
                    damaged[at] ^= change;
                }
                Some(damaged)
            }
            Self::Silence => None,
        }
    }
}

/// One binding with all its channels.
pub struct Visitor {
    /// The socket on which the server's messages come.
    reading: Socket,
    /// The socket over which this client sends: `reading`, unless it came by a ticket.
    sending: Socket,
    /// The ends of the channels that it has got.
    ends: Vec<Peer>,
    tickets: Vec<OwnedFd>,
}

impl Visitor {
    /// A client that connects to `name`, and its first message.
    pub fn come(directory: &Directory, name: &str, hello: &Greeting) -> Option<Self> {
        let socket = Socket::connect(directory, name).ok()?;
        if let Some(bytes) = hello.of_client() {
            socket.send(&bytes, &[]).ok()?;
        }
        let copy = Socket::adopt(socket.as_fd().try_clone_to_owned().ok()?).ok()?;
        Some(Self { reading: socket, sending: copy, ends: Vec::new(), tickets: Vec::new() })
    }

    /// A client that comes by this one's last ticket.
    pub fn redeem(&mut self, hello: &Greeting) -> Option<Self> {
        let ticket = Socket::adopt(self.tickets.pop()?).ok()?;
        let (reading, theirs) = Socket::pair().ok()?;
        ticket.send(&hello.of_client()?, &[theirs.as_fd()]).ok()?;
        let copy = Socket::adopt(reading.as_fd().try_clone_to_owned().ok()?).ok()?;
        Some(Self { reading, sending: copy, ends: Vec::new(), tickets: Vec::new() })
    }

    /// Waits until the server has answered or hung up, and takes what has come.
    pub fn is_answered(&mut self) {
        // There is no limit, because the fuzzer ends a run that waits in vain.
        drop(self.reading.wait(u64::MAX / 2));
        self.hear();
    }

    /// Whether the server has welcomed this client.
    pub fn is_welcome(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Takes what has come.
    pub fn hear(&mut self) {
        let mut buffer = vec![0; LONGEST];
        while let Ok(received) = self.reading.receive(&mut buffer)
            && received.len > 0
        {
            let mut files = received.files.into_iter();
            match (self.ends.is_empty(), buffer[0], files.next()) {
                (true, _, Some(region)) => self.welcomed(region, files.next()),
                (false, OPENED, Some(region)) => self.has_got(region, buffer[1] >> 4),
                (false, TICKET, Some(ticket)) => self.tickets.push(ticket),
                _ => {}
            }
        }
    }

    fn welcomed(&mut self, region: OwnedFd, sending: Option<OwnedFd>) {
        if let Some(sending) = sending.and_then(|end| Socket::adopt(end).ok()) {
            self.sending = sending;
        }
        self.has_got(region, 0);
    }

    fn has_got(&mut self, region: OwnedFd, number: u8) {
        let channel = Channel::adopt(region.as_fd(), Fence::Full, STACK).expect("a region");
        let copy = self.sending.as_fd().try_clone_to_owned().expect("room for a file");
        let socket = Socket::adopt(copy).expect("a socket");
        self.ends.push(Peer::client(region, channel, socket).further(number));
    }

    /// Asks for another channel.
    pub fn ask(&self) {
        self.say(ASK);
    }

    /// Asks for a ticket.
    pub fn share(&self) {
        self.say(SHARE);
    }

    fn say(&self, kind: u8) {
        let mut bytes = [0; 16];
        bytes[0] = kind;
        // Its only row.
        bytes[8..].copy_from_slice(&Tag::new(0, 1).word().to_le_bytes());
        // A socket that is full or closed accepts no more.
        let _ = self.sending.send(&bytes, &[]);
    }

    /// Makes a step with the end of one of its channels.
    pub fn does<Own>(&self, end: u8, step: Step<Own>) {
        if !self.ends.is_empty() {
            self.ends[usize::from(end) % self.ends.len()].does(step);
        }
    }
}
