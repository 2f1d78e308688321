// What generated code expects of the runtime, without one: calls go through bytes, in this very
// thread.
//
// Examples include this file, which is why it has no `//!`; each test uses a part of it.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, Mutex};
use underpass_wire::{Carried, Decode, DecodeError, Descriptor, Encode, Schema, Sink, Source, to_bytes};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, underpass_macros::Wire)]
#[underpass(crate = crate::mock)]
pub struct CallError(pub String);

/// What generated code uses.
pub mod __private {
    pub use super::{
        Abandon, AllLeased, CallError, CarriedError, Counters, DetachedCall, Dispatch, DispatchLocal,
        Exclusive, FromCallError, Handler, HandlerCall, ImportError, IncomingCall, LocalCall, Policy,
        ProcedureCall, Refused, RemoteTransport, ResultOf, Service, ShareError, Spawn, Stub,
    };
    pub use underpass_wire as wire;
}

/// What a call does when all A-stacks are leased.
#[derive(Clone, Copy)]
pub struct AllLeased;

/// What was exported, by name.
static EXPORTED: LazyLock<Mutex<HashMap<String, Service>>> = LazyLock::new(Mutex::default);

/// Exports an implementation.
pub fn export(name: &str, service: Service) {
    EXPORTED.lock().unwrap().insert(name.to_owned(), service);
}

pub trait FromCallError {
    fn from_call_error(error: CallError) -> Self;
}

impl<E: From<CallError>> FromCallError for E {
    fn from_call_error(error: CallError) -> Self {
        error.into()
    }
}

/// Stands for the runtime's.
pub trait CarriedError {
    type Itself: Schema;
    fn from_call_error(error: CallError) -> Self::Itself;
}

/// Stands for the runtime's.
pub struct ResultOf<V, E>(PhantomData<(V, E)>);

impl<V: Carried, E: CarriedError> Carried for ResultOf<V, E> {
    type Itself = Result<V::Itself, E::Itself>;
}

/// One thread at a time runs an implementation.
#[derive(Debug)]
pub struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    pub fn interleaving(implementation: T) -> Self {
        Self(Mutex::new(implementation))
    }
    pub fn sequential(implementation: T) -> Self {
        Self(Mutex::new(implementation))
    }
    pub fn run<R, E>(
        &self,
        method: impl FnOnce(&T) -> Result<R, E>,
        failed: impl FnOnce(CallError) -> E,
    ) -> Result<R, E> {
        match self.0.try_lock() {
            Ok(inside) => method(&inside),
            Err(_) => Err(failed(CallError("another one is inside".to_owned()))),
        }
    }
}

pub trait Dispatch: Send + Sync + 'static {
    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused>;
    fn dispatch_detached(&self, call: &mut DetachedCall) -> Result<(), Refused> {
        call.unknown()
    }
    fn local(self: Arc<Self>) -> Option<Box<dyn std::any::Any>>;
}

#[derive(Debug)]
pub struct Refused(pub String);

#[derive(Debug)]
pub struct ImportError(pub String);

#[derive(Debug, PartialEq, Eq)]
pub struct ShareError;

#[derive(Debug, PartialEq, Eq)]
pub struct Counters {
    pub calls: u64,
    pub again: u64,
}

pub type Handler = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
pub type Spawn = dyn Fn(Handler) + Send + Sync;

pub struct IncomingCall<'a> {
    pub procedure: u16,
    pub bytes: &'a [u8],
    pub reply: Vec<u8>,
}

impl IncomingCall<'_> {
    pub fn procedure(&self) -> u16 {
        self.procedure
    }
    pub fn argument<C: Carried>(
        &mut self,
        argument: &mut underpass_wire::ArgumentPlace<C::Itself>,
    ) -> Result<(), Refused> {
        C::Itself::decode_into(argument.place(), &mut self.bytes).map_err(|error| Refused(error.to_string()))
    }
    pub fn end(&mut self) -> Result<(), Refused> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Refused("left over".into())) }
    }
    pub fn drop_later<T: 'static>(&mut self, value: T) {
        drop(value);
    }
    pub fn reply<V: Carried, E: CarriedError>(
        &mut self,
        value: &Result<V::Itself, E::Itself>,
    ) -> Result<bool, Refused> {
        self.reply = to_bytes(value);
        assert_eq!(self.reply.len(), value.size());
        Ok(self.reply.len() > 100)
    }
    pub fn unknown(&mut self) -> Result<(), Refused> {
        Err(Refused(format!("no procedure {}", self.procedure)))
    }
}

/// What a server stub asks of a call.
pub trait ProcedureCall<'a> {
    fn procedure(&self) -> u16;
    fn argument<C: Carried>(
        &mut self,
        argument: &mut underpass_wire::ArgumentPlace<C::Itself>,
    ) -> Result<(), Refused>;
    fn end(&mut self) -> Result<(), Refused>;
    fn drop_later<T: 'static>(&mut self, value: T);
    fn reply<V: Carried, E: CarriedError>(
        &mut self,
        value: &Result<V::Itself, E::Itself>,
    ) -> Result<bool, Refused>;
    fn unknown(&mut self) -> Result<(), Refused>;
}

impl<'a> ProcedureCall<'a> for IncomingCall<'a> {
    fn procedure(&self) -> u16 {
        self.procedure
    }
    fn argument<C: Carried>(
        &mut self,
        argument: &mut underpass_wire::ArgumentPlace<C::Itself>,
    ) -> Result<(), Refused> {
        self.argument::<C>(argument)
    }
    fn end(&mut self) -> Result<(), Refused> {
        self.end()
    }
    fn drop_later<T: 'static>(&mut self, value: T) {
        self.drop_later(value);
    }
    fn reply<V: Carried, E: CarriedError>(
        &mut self,
        value: &Result<V::Itself, E::Itself>,
    ) -> Result<bool, Refused> {
        self.reply::<V, E>(value)
    }
    fn unknown(&mut self) -> Result<(), Refused> {
        self.unknown()
    }
}

/// A call that came over no channel, which is one like any other here.
pub type DetachedCall = IncomingCall<'static>;

/// Stands for the runtime's.
pub trait RemoteTransport {}

/// What the server stub of async handlers asks of a call.
pub trait HandlerCall {
    fn procedure(&self) -> u16;
    fn argument<C: Carried>(
        &mut self,
        argument: &mut underpass_wire::ArgumentPlace<C::Itself>,
    ) -> Result<(), Refused>;
    fn end(&mut self) -> Result<(), Refused>;
    fn later<V: Carried, E: CarriedError>(
        &mut self,
        spawn: &Spawn,
        handler: impl Future<Output = Result<V::Itself, E::Itself>> + Send + 'static,
    ) -> Result<(), Refused>;
    fn unknown(&mut self) -> Result<(), Refused>;
}

impl HandlerCall for IncomingCall<'_> {
    fn procedure(&self) -> u16 {
        self.procedure
    }
    fn argument<C: Carried>(
        &mut self,
        argument: &mut underpass_wire::ArgumentPlace<C::Itself>,
    ) -> Result<(), Refused> {
        self.argument::<C>(argument)
    }
    fn end(&mut self) -> Result<(), Refused> {
        self.end()
    }
    fn later<V: Carried, E: CarriedError>(
        &mut self,
        spawn: &Spawn,
        handler: impl Future<Output = Result<V::Itself, E::Itself>> + Send + 'static,
    ) -> Result<(), Refused> {
        let reply = Arc::new(Mutex::new(Vec::new()));
        let to = reply.clone();
        spawn(Box::pin(async move { *to.lock().unwrap() = to_bytes(&handler.await) }));
        self.reply = std::mem::take(&mut reply.lock().unwrap());
        Ok(())
    }
    fn unknown(&mut self) -> Result<(), Refused> {
        self.unknown()
    }
}

/// A call within this domain, which is one like any other here.
pub type LocalCall = IncomingCall<'static>;

/// The server stub of async handlers, for callers in this domain.
pub trait DispatchLocal: Send + Sync + 'static {
    fn dispatch_local(&self, call: &mut LocalCall) -> Result<(), Refused>;
}

#[derive(Clone)]
pub struct Service {
    pub descriptor: &'static Descriptor,
    pub stub: Arc<dyn Dispatch>,
}

impl Service {
    pub fn new(descriptor: &'static Descriptor, stub: Arc<dyn Dispatch>) -> Self {
        Self { descriptor, stub }
    }
}

/// Stands for the runtime's.
pub struct Abandon;

/// Stands for the runtime's.
pub struct Policy;

/// Names that begin with `local` are called directly.
pub struct Stub<L: ?Sized> {
    service: Service,
    local: Option<Arc<L>>,
    calls: Arc<Mutex<u64>>,
    /// Of these, those that may be made again.
    again: Arc<Mutex<u64>>,
}

impl<L: ?Sized> Clone for Stub<L> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            local: self.local.clone(),
            calls: self.calls.clone(),
            again: self.again.clone(),
        }
    }
}

impl<L: ?Sized> std::fmt::Debug for Stub<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stub")
    }
}

impl<L: ?Sized + Send + Sync + 'static> Stub<L> {
    pub fn import(
        name: &str,
        descriptor: &'static Descriptor,
        _: Option<std::time::Duration>,
    ) -> Result<Self, ImportError> {
        let exported = EXPORTED.lock().unwrap();
        let service = exported.get(name).ok_or_else(|| ImportError(format!("no {name}")))?.clone();
        if service.descriptor.hash != descriptor.hash {
            return Err(ImportError(descriptor.differences(&service.descriptor.text())));
        }
        Ok(Self::of(service, name.starts_with("local")))
    }

    /// A stub that calls `service` directly, or through bytes.
    fn of(service: Service, directly: bool) -> Self {
        let local = service.stub.clone().local().filter(|_| directly);
        let local = local.and_then(|local| local.downcast().ok()).map(|local| *local);
        Self { service, local, calls: Arc::default(), again: Arc::default() }
    }

    pub fn of_service(service: &Service, _: &'static Descriptor) -> Self {
        Self::of(service.clone(), true)
    }

    /// Nothing is measured here.
    pub fn measured(&self, _: &str, _: &'static Descriptor) -> Self {
        self.clone()
    }

    pub fn put(&self, to: &mut (impl Sink + ?Sized)) {
        to.put_interface(&self.service);
    }

    pub fn take(from: &mut (impl Source + ?Sized), _: &'static Descriptor) -> Result<Self, DecodeError> {
        let service = from.take_interface()?.downcast().map_err(|_| DecodeError::NoInterface)?;
        Ok(Self::of(*service, false))
    }

    pub fn import_by(
        _: &dyn RemoteTransport,
        address: &str,
        descriptor: &'static Descriptor,
        within: Option<std::time::Duration>,
    ) -> Result<Self, ImportError> {
        Self::import(address, descriptor, within)
    }

    pub fn import_apart(
        name: &str,
        descriptor: &'static Descriptor,
        within: std::time::Duration,
    ) -> Result<Self, ImportError> {
        Self::import(name, descriptor, Some(within))
    }

    pub fn import_resilient(
        name: &str,
        descriptor: &'static Descriptor,
        _: Policy,
    ) -> Result<Self, ImportError> {
        Self::import(name, descriptor, None)
    }

    pub fn import_resilient_with(
        name: &str,
        descriptor: &'static Descriptor,
        _: Policy,
        restore: impl Fn(Self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Result<Self, ImportError> {
        let stub = Self::import(name, descriptor, None)?;
        restore(stub.clone()).map_err(|e| ImportError(e.to_string()))?;
        Ok(stub)
    }

    pub fn acknowledge_restart(&self) {}

    pub fn call_idempotent<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        procedure: u16,
        arguments: &A,
    ) -> Result<V::Itself, E::Itself> {
        *self.again.lock().unwrap() += 1;
        self.call::<A, V, E>(procedure, arguments)
    }

    pub fn import_from(
        _: impl std::os::fd::AsFd,
        _: &'static Descriptor,
        _: std::time::Duration,
    ) -> Result<Self, ImportError> {
        Err(ImportError("nobody passes anything on".to_owned()))
    }

    pub fn share_with(&self, _: impl std::os::fd::AsFd) -> Result<(), ShareError> {
        Err(ShareError)
    }

    pub fn local(&self) -> Option<&L> {
        self.local.as_deref()
    }

    pub fn call<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        procedure: u16,
        arguments: &A,
    ) -> Result<V::Itself, E::Itself> {
        match self.carry::<A, Result<V::Itself, E::Itself>>(procedure, arguments) {
            Ok(result) => result,
            Err(error) => Err(E::from_call_error(error)),
        }
    }

    pub async fn call_async<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        procedure: u16,
        arguments: &A,
    ) -> Result<V::Itself, E::Itself> {
        self.call::<A, V, E>(procedure, arguments)
    }

    pub async fn call_async_idempotent<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        procedure: u16,
        arguments: &A,
    ) -> Result<V::Itself, E::Itself> {
        self.call_idempotent::<A, V, E>(procedure, arguments)
    }

    fn carry<A, R>(&self, procedure: u16, arguments: &A) -> Result<R, CallError>
    where
        A: Encode + ?Sized,
        R: Decode,
    {
        *self.calls.lock().unwrap() += 1;
        let bytes = to_bytes(arguments);
        assert_eq!(bytes.len(), arguments.size());
        let mut call = IncomingCall { procedure, bytes: &bytes, reply: Vec::new() };
        self.service.stub.dispatch(&mut call).map_err(|Refused(why)| CallError(why))?;
        underpass_wire::from_bytes(&call.reply).map_err(|error| CallError(error.to_string()))
    }

    pub fn counters(&self) -> Counters {
        Counters { calls: *self.calls.lock().unwrap(), again: *self.again.lock().unwrap() }
    }

    pub fn with_deadline(&self, _: std::time::Duration) -> Self {
        self.clone()
    }

    pub fn urgent(&self) -> Self {
        self.clone()
    }

    pub fn abandonable(&self, _: &Abandon) -> Self {
        self.clone()
    }

    pub fn quarantine(&self, _: u32) {}

    pub fn when_all_leased(&self, _: AllLeased) -> Self {
        self.clone()
    }
}
