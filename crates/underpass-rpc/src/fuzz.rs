//! Doors for the fuzz targets in `fuzz/`, which are built with `--cfg fuzzing`: what is private decodes their bytes, and ends of channels without a clerk do what
//! they are told, on the calling thread. No part of the library.

use crate::answer::Results;
use crate::binding::Binding;
use crate::client::{ClientEnd, Terms};
use crate::clocks::Shift;
use crate::connection::{Connection, Link};
use crate::control::{CONTROL, Control};
use crate::control_socket::ControlSocket;
use crate::error::CallError;
use crate::family::Family;
use crate::handshake::{Answer, Hello, LONGEST, Meeting};
use crate::leasing::{AllLeased, Leasing};
use crate::limits::{Limits, Quotas};
use crate::mailbox::Mailbox;
use crate::peer::Peer;
use crate::server::ServerEnd;
use crate::service::Service;
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use underpass_channel::layout::{STACK, region, stack_of};
use underpass_channel::{Channel, Fence};
use underpass_os::Socket;
use underpass_processor::Line;
use underpass_wire::{Decode, Encode};

/// Nobody polls: what doesn't come at once does not come.
const MEETING: Meeting = Meeting { elsewhere: false, shares: false, defers: false };

/// Reads what a stranger says: in the handshake, and over a channel's socket.
///
/// # Panics
/// If something that was read does not survive being written.
pub fn messages(bytes: &[u8]) {
    if let Ok(hello) = Hello::from_bytes(bytes) {
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Ok(hello));
    }
    if let Ok(answer) = Answer::from_bytes(bytes) {
        let again = answer.to_bytes();
        assert!(again.len() <= LONGEST);
        assert!(Answer::from_bytes(&again).is_ok());
    }
    assert!(Control::read(bytes).is_none() || bytes.len() == CONTROL);
}

/// A server's end.
#[derive(Debug)]
pub struct ServerDoor {
    end: Arc<ServerEnd>,
}

impl ServerDoor {
    /// One of `service`, and what its client has: region and socket.
    ///
    /// # Errors
    /// No memory, or no file.
    pub fn new(service: &Service) -> io::Result<(Self, OwnedFd, OwnedFd)> {
        let stack = stack_of(service.descriptor.astack());
        let (channel, file) = Channel::create(Fence::Full, stack)?;
        let (ours, theirs) = Socket::pair()?;
        let ours = Link::new(Connection::new(ours));
        let binding = Binding::new("fuzz".into(), Peer::of(&ours)?, None);
        let quotas = Quotas::new(Limits::NONE, HashMap::new());
        let seat = quotas.admit(0, region(stack) as u64).map_err(io::Error::other)?;
        let record = crate::record::Record::new(binding, None, Arc::default());
        let family = Family::new(0, record, false, Shift::default());
        let mailbox = Mailbox::of_server(ControlSocket::new(ours, Some(&seat)), &seat);
        let end = ServerEnd::new(channel, mailbox, service, MEETING, family.clone(), seat);
        family.join(&end);
        Ok((Self { end }, file, theirs))
    }

    /// As activations see it.
    pub fn line(&self) -> &dyn Line {
        &*self.end
    }

    /// Hears what came over the socket, as the clerk does, with the files.
    pub fn hear(&self) {
        self.end.mailbox().read();
        self.end.mailbox().control().settle();
    }

    /// Whether the binding is closed.
    pub fn is_closed(&self) -> bool {
        self.end.is_closed()
    }
}

/// A client's end.
#[derive(Debug)]
pub struct ClientDoor {
    end: Arc<ClientEnd>,
}

impl ClientDoor {
    /// That of the channel, with A-stacks of the default size, of which the server gave `region` and `socket`.
    ///
    /// # Errors
    /// They are none.
    pub fn new(region: BorrowedFd<'_>, socket: OwnedFd) -> io::Result<Self> {
        let channel = Channel::adopt(region, Fence::Full, STACK)?;
        let link = Link::new(Connection::new(Socket::adopt(socket)?));
        let mailbox = Mailbox::of_client(ControlSocket::new(link, None));
        Ok(Self { end: ClientEnd::new(channel, mailbox, MEETING) })
    }

    /// A call, as a client stub makes it, that waits for no moment.
    ///
    /// # Errors
    /// As every call.
    pub fn call<A: Encode + ?Sized, R: Decode + Results<Value: Decode, Error = CallError>>(
        &self,
        procedure: u16,
        arguments: &A,
        urgent: bool,
    ) -> Result<R::Value, CallError> {
        let leasing = Leasing::new(AllLeased::Grow, 0);
        let terms = Terms { within: Some(Duration::ZERO), urgent, abandon: None, leasing };
        self.end.call::<A, R>(procedure, arguments, &terms, |e| e)
    }

    /// As activations see it.
    pub fn line(&self) -> &dyn Line {
        &*self.end
    }

    /// Hears what came over the socket, as the clerk does, with the files.
    pub fn hear(&self) {
        self.end.mailbox().read();
        self.end.mailbox().control().settle();
    }

    /// Whether the binding is closed.
    pub fn is_closed(&self) -> bool {
        self.end.is_closed()
    }
}
