//! Both ends of a channel in one process, without a clerk, for the benchmark of a call's
//! components. They are no part of the library.
//!
//! The caller decides when each end polls. Every step is the function that calls run.

use crate::binding::family::{Client, Family};
use crate::binding::handshake::CpuPlacement;
use crate::binding::limits::{Limits, Quotas};
use crate::binding::object::Binding;
use crate::binding::peer::Peer;
use crate::binding::record::BindingRecord;
use crate::binding::row::{BindingRow, ServedRow};
use crate::binding::service::Service;
use crate::call::answer::Results;
use crate::call::client::{CallTerms, ClientEnd, ClientRow};
use crate::control::connection::{BindingLink, Connection};
use crate::control::control_socket::ControlSocket;
use crate::control::mailbox::ChannelMailbox;
use crate::dispatch::detached_call::DetachedCall;
use crate::dispatch::incoming::{Dispatch, IncomingCall, Refused};
use crate::dispatch::server::ServerEnd;
use crate::error::CallError;
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use underpass_channel::layout::{region, stack_of_connection};
use underpass_channel::{Channel, Fence, Slot, Tag};
use underpass_os::Socket;
use underpass_processor::PolledLine;
use underpass_wire::{Decode, Encode};

/// Two processors of their own, as for a call between two processes.
const PLACEMENT: CpuPlacement =
    CpuPlacement { may_overlap: true, may_share_cpu: false, same_cpu_only: false };

/// The number of the thread that serves.
const SERVER_THREAD: u64 = 1;

/// Both ends of a channel.
#[derive(Debug)]
pub struct Ends {
    client: Arc<ClientEnd>,
    row: Arc<ClientRow>,
    server: Arc<ServerEnd>,
}

/// A call that was sent by [`Ends::send`].
#[derive(Debug)]
pub struct SentCall(Slot);

/// A server stub that marks its beginning and its end.
struct Marked {
    stub: Arc<dyn Dispatch>,
    mark: fn(),
}

impl Dispatch for Marked {
    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
        (self.mark)();
        let done = self.stub.dispatch(call);
        (self.mark)();
        done
    }

    fn dispatch_detached(&self, call: &mut DetachedCall) -> Result<(), Refused> {
        (self.mark)();
        let done = self.stub.dispatch_detached(call);
        (self.mark)();
        done
    }
}

impl Ends {
    /// The ends of a new channel whose server serves `service`. If there is a `mark`, it is called
    /// when the server stub begins, and when it has ended.
    ///
    /// # Errors
    /// Memory or files have run out.
    pub fn new(service: &Service, mark: Option<fn()>) -> io::Result<Self> {
        let mut service = service.clone();
        if let Some(mark) = mark {
            service.implementation.stub = Arc::new(Marked { stub: service.implementation.stub, mark });
        }
        let stack = stack_of_connection(service.descriptor().astack());
        // Neither side sleeps, so the light fence needs no barrier at the other end.
        let (channel, file) = Channel::create(Fence::Light, stack)?;
        let far = Channel::adopt(file.as_fd(), Fence::Light, stack)?;
        let (ours, theirs) = Socket::pair()?;
        let (ours, theirs) = (Connection::new(ours), Connection::new(Socket::adopt(theirs)?));
        let ours = BindingLink::new(ours);
        let binding = Binding::new("ends".into(), Peer::of(&ours)?, None);
        let quotas = Quotas::new(Limits::NONE, HashMap::new());
        let quota = quotas.admit(0, region(stack) as u64).map_err(io::Error::other)?;
        let record = BindingRecord::new(binding, None, Arc::default());
        let family = Family::new(0, Arc::downgrade(&ours), Client::of(Peer::of(&ours)?));
        let binding = BindingRow::new((0, 0), record, false, service.descriptor(), &family, None);
        let mailbox = ChannelMailbox::of_server(ControlSocket::new(ours, Some(&quota)), &quota);
        let server = ServerEnd::new(channel, mailbox, PLACEMENT, family.clone(), quota);
        family.join(&server);
        family.add_row(ServedRow { stub: service.implementation.stub, binding });
        let mailbox = ChannelMailbox::of_client(ControlSocket::new(BindingLink::new(theirs), None));
        let client = ClientEnd::new(far, mailbox, PLACEMENT);
        let row = client.add_row(Tag::new(0, 1));
        Ok(Self { client, row, server })
    }

    /// A call as a client stub makes it. The calling thread blocks until another one has served the
    /// call and polled for replies.
    ///
    /// # Errors
    /// The same as of every call.
    #[inline(always)]
    pub fn call<A: Encode + ?Sized, R: Decode + Results<Value: Decode, Error = CallError>>(
        &self,
        procedure: u16,
        arguments: &A,
    ) -> Result<R::Value, CallError> {
        self.client.call::<A, R>(&self.row, procedure, arguments, &CallTerms::plain(), |e| e)
    }

    /// Sends a call, without waiting.
    ///
    /// # Errors
    /// The same as of every call.
    #[inline(always)]
    pub fn send<A: Encode + ?Sized>(&self, procedure: u16, arguments: &A) -> Result<SentCall, CallError> {
        self.client.send_step(&self.row, procedure, arguments).map(SentCall).map_err(|e| *e)
    }

    /// Takes the reply to a call that was sent, the only one under way, and reads its result. It
    /// must have come.
    ///
    /// # Errors
    /// The same as of every call.
    #[inline(always)]
    pub fn receive<R: Decode + Results<Value: Decode, Error = CallError>>(
        &self,
        call: SentCall,
    ) -> Result<R::Value, CallError> {
        self.client.receive_step::<R>(&self.row, call.0, |e| e)
    }

    /// The server takes a call, runs it and replies. Returns whether one had come.
    pub fn serve(&self) -> bool {
        self.server.serve(SERVER_THREAD)
    }

    /// The client takes all replies, and wakes their callers. Returns whether any had come.
    pub fn poll(&self) -> bool {
        self.client.poll()
    }
}
