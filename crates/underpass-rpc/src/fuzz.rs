//! Entry points for the fuzz targets in `fuzz/`, which are built with `--cfg fuzzing`. They are no
//! part of the library.
//!
//! Private code decodes the targets' bytes. Ends of channels without a clerk run on the calling
//! thread. A [`FuzzBinding`] is a client's binding with everything that belongs to it.

use crate::binding::family::{Client, Family};
use crate::binding::handshake::{CpuPlacement, Hello, HelloReply, LONGEST};
use crate::binding::import::{self, Bound, ImportMode};
use crate::binding::limits::{Limits, Quotas};
use crate::binding::object::Binding;
use crate::binding::peer::Peer;
use crate::binding::record::BindingRecord;
use crate::binding::row::{BindingRow, ServedRow};
use crate::binding::service::Service;
use crate::call::answer::Results;
use crate::call::client::{CallTerms, ClientEnd, ClientRow};
use crate::call::leasing::{AllLeased, Leasing};
use crate::control::clerk::clerk;
use crate::control::connection::{BindingLink, Connection};
use crate::control::control_socket::ControlSocket;
use crate::control::mailbox::ChannelMailbox;
use crate::control::messages::{CONTROL, ControlMessage};
use crate::control::timer;
use crate::dispatch::server::ServerEnd;
use crate::error::{CallError, ImportError};
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use underpass_channel::layout::{STACK, region, stack_of_connection};
use underpass_channel::{Channel, Fence, Tag};
use underpass_os::Socket;
use underpass_processor::Line;
use underpass_wire::{Decode, Descriptor, Encode};

/// Nobody polls: a message that is not there at once does not come.
const PLACEMENT: CpuPlacement =
    CpuPlacement { may_overlap: false, may_share_cpu: false, same_cpu_only: false };

/// Reads untrusted bytes as messages of the handshake and of a channel's socket.
///
/// # Panics
/// If a message that was read changes when it is written and read again.
pub fn messages(bytes: &[u8]) {
    if let Ok(hello) = Hello::from_bytes(bytes) {
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Ok(hello));
    }
    if let Ok(answer) = HelloReply::from_bytes(bytes) {
        let again = answer.to_bytes();
        assert!(again.len() <= LONGEST);
        assert!(HelloReply::from_bytes(&again).is_ok());
    }
    assert!(ControlMessage::read(bytes).is_none() || bytes.len() == CONTROL);
}

/// A server's end.
#[derive(Debug)]
pub struct FuzzServer {
    end: Arc<ServerEnd>,
}

impl FuzzServer {
    /// A server's end of `service`, and what its client has: region and socket.
    ///
    /// # Errors
    /// Memory or files have run out.
    pub fn new(service: &Service) -> io::Result<(Self, OwnedFd, OwnedFd)> {
        let stack = stack_of_connection(service.descriptor().astack());
        let (channel, file) = Channel::create(Fence::Full, stack)?;
        let (ours, theirs) = Socket::pair()?;
        let ours = BindingLink::new(Connection::new(ours));
        let binding = Binding::new("fuzz".into(), Peer::of(&ours)?, None);
        let quotas = Quotas::new(Limits::NONE, HashMap::new());
        let quota = quotas.admit(0, region(stack) as u64).map_err(io::Error::other)?;
        let record = BindingRecord::new(binding, None, Arc::default());
        let family = Family::new(0, Arc::downgrade(&ours), Client::of(Peer::of(&ours)?));
        let mailbox = ChannelMailbox::of_server(ControlSocket::new(ours, Some(&quota)), &quota);
        mailbox.control().interfaces().of_server(&family);
        let binding = BindingRow::new((0, 0), record, false, service.descriptor(), &family, None);
        let end = ServerEnd::new(channel, mailbox, PLACEMENT, family.clone(), quota);
        family.join(&end);
        family.add_row(ServedRow { stub: service.implementation.stub.clone(), binding });
        Ok((Self { end }, file, theirs))
    }

    /// The end as activations see it.
    pub fn line(&self) -> &dyn Line {
        &*self.end
    }

    /// Reads the socket as the clerk does, including files.
    pub fn hear(&self) {
        self.end.mailbox().read();
        self.end.mailbox().control().settle();
    }

    /// Whether the binding is closed.
    pub fn is_closed(&self) -> bool {
        self.end.is_closed()
    }
}

impl Drop for FuzzServer {
    fn drop(&mut self) {
        self.end.close();
        // Its reverse channel, which the clerk watches.
        if let Ok(clerk) = clerk() {
            self.end.family().take_keys().into_iter().for_each(|key| clerk.unwatch(key));
        }
    }
}

/// Waits until the clerk has handled what it was told before.
///
/// # Panics
/// If there is no clerk.
pub fn settle() {
    let (tell, told) = mpsc::channel();
    timer::set(0, move || tell.send(()).unwrap_or(()));
    told.recv().expect("the clerk lives as long as the process");
}

/// Counts the memory that the clients of all exports make the server keep. The clerk does that
/// periodically.
///
/// # Errors
/// There is no clerk.
pub fn count_overflow_buffers() -> io::Result<()> {
    clerk()?.served().iter().for_each(|end| end.count_overflow_buffers());
    Ok(())
}

/// A client's binding that the clerk watches.
#[derive(Debug)]
pub struct FuzzBinding {
    bound: Bound,
    end: FuzzClient,
}

impl FuzzBinding {
    /// The binding of `descriptor` that results from a hello over `socket`.
    ///
    /// # Errors
    /// The same as of every import.
    pub fn import(socket: OwnedFd, descriptor: &Descriptor) -> Result<Self, ImportError> {
        let system = |e| ImportError::System("no socket", e);
        let socket = Socket::adopt(socket).map_err(system)?;
        let until = || u64::MAX;
        let bound =
            import::introduce(socket, None, Path::new("fuzz"), descriptor, &until, ImportMode::Joins)?;
        let end = FuzzClient { end: bound.end().clone(), row: bound.row().clone() };
        Ok(Self { bound, end })
    }

    /// The end of its first channel.
    pub fn end(&self) -> &FuzzClient {
        &self.end
    }

    /// Two activations contend for the first channel, so the client may ask for another.
    pub fn contend(&self) {
        self.bound.end().contend();
    }

    /// Asks for a ticket. Returns whether one came.
    pub fn share(&self) -> bool {
        self.bound.share().is_ok()
    }

    /// Gives back unused overflow buffers. The clerk does that periodically.
    pub fn sweep(&self) {
        self.bound.end().sweep_all();
    }
}

/// A client's end.
#[derive(Debug)]
pub struct FuzzClient {
    end: Arc<ClientEnd>,
    row: Arc<ClientRow>,
}

impl FuzzClient {
    /// The client's end of a channel with A-stacks of the default size. The server gave `region`
    /// and `socket`.
    ///
    /// # Errors
    /// They are not valid.
    pub fn new(region: BorrowedFd<'_>, socket: OwnedFd) -> io::Result<Self> {
        let channel = Channel::adopt(region, Fence::Full, STACK)?;
        let link = BindingLink::new(Connection::new(Socket::adopt(socket)?));
        let mailbox = ChannelMailbox::of_client(ControlSocket::new(link, None));
        let end = ClientEnd::new(channel, mailbox, PLACEMENT);
        let row = end.add_row(Tag::new(0, 1));
        Ok(Self { end, row })
    }

    /// A call as a client stub makes it, without waiting.
    ///
    /// # Errors
    /// The same as of every call.
    pub fn call<A: Encode + ?Sized, R: Decode + Results<Value: Decode, Error = CallError>>(
        &self,
        procedure: u16,
        arguments: &A,
        urgent: bool,
    ) -> Result<R::Value, CallError> {
        let leasing = Leasing::new(AllLeased::Grow, 0);
        let terms = CallTerms { within: Some(Duration::ZERO), urgent, abandon: None, leasing };
        self.end.call::<A, R>(&self.row, procedure, arguments, &terms, |e| e)
    }

    /// The end as activations see it.
    pub fn line(&self) -> &dyn Line {
        &*self.end
    }

    /// Reads the socket as the clerk does, including files.
    pub fn hear(&self) {
        self.end.mailbox().read();
        self.end.mailbox().control().settle();
    }

    /// Whether the binding is closed.
    pub fn is_closed(&self) -> bool {
        self.end.is_closed()
    }
}
