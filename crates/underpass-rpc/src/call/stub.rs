//! The client stub, on which generated stubs are built.

mod here;
mod measured;
mod out_of_line;

pub use self::here::Local;

use self::here::Here;
use self::out_of_line::MethodCall;
use crate::binding::import::{self, Bound, ImportMode};
use crate::binding::interface_exchange::{GivenInterface, TakenInterface};
use crate::binding::local_exports;
use crate::binding::resilient::{KnownGeneration, Policy, Resilient, Restore};
use crate::binding::service::Service;
use crate::call::abandon::Abandon;
use crate::call::client::CallTerms;
use crate::call::leasing::{AllLeased, Leasing};
use crate::carried::CarriedError;
use crate::counters::Counters;
use crate::error::{CallError, ImportError, Outcome, ShareError};
use crate::remote::transport::{self, RemoteTransport};
use std::error::Error;
use std::fmt;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use underpass_os::process::{ProcessState, state_of};
use underpass_os::{Directory, clock, pass, take_passed};
use underpass_threads::blocking;
use underpass_wire::{Carried, DecodeError, Descriptor, Encode, Sink, Source};

/// A binding of an interface whose implementation is an `L`, wherever that is.
pub struct Stub<L: ?Sized> {
    to: To<L>,
    terms: CallTerms,
    /// How many calls the interface expects at once.
    calls: u32,
}

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// One of its processors runs, and looks for calls.
    Runs,
    /// It sleeps, and a call has to wake it.
    Sleeps,
    /// Its process is stopped (`SIGSTOP`, or a debugger).
    Stopped,
    /// The binding has ended, or the server turns calls away.
    Gone,
}

/// LRPC's first branch of a client stub: where is the implementation?
///
/// A binding to another machine and one that is measured are among those of `Here`, so any other
/// call over a channel is decided upon by the same instructions as without them.
enum To<L: ?Sized> {
    Here(Arc<Here<L>>),
    There(Arc<Bound>),
    /// There, or where it will be exported next; and what this clone knows of that.
    Anywhere(Arc<Resilient>, KnownGeneration),
}

impl<L: ?Sized> Clone for Stub<L> {
    fn clone(&self) -> Self {
        Self { to: self.to.clone(), terms: self.terms.clone(), calls: self.calls }
    }
}

impl<L: ?Sized> fmt::Debug for Stub<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to: &dyn fmt::Debug = match self.leads_to() {
            To::Here(here) => match here.remote() {
                Some(binding) => return f.debug_tuple("Stub").field(&binding.address()).finish(),
                None => &"this domain",
            },
            To::There(bound) => bound,
            To::Anywhere(resilient, _) => resilient,
        };
        f.debug_struct("Stub").field("to", to).field("terms", &self.terms).finish()
    }
}

impl<L: ?Sized + Send + Sync + 'static> Stub<L> {
    /// Imports the interface at `address` by this transport. If there is no server yet, waits for
    /// one for at most `within`.
    ///
    /// # Errors
    /// [`ImportError`], each kind with its remedy.
    pub fn import_by(
        transport: &dyn RemoteTransport,
        address: &str,
        descriptor: &'static Descriptor,
        within: Option<Duration>,
    ) -> Result<Self, ImportError> {
        let binding = transport::import_by(transport, address, descriptor, within)?;
        let stub = Self::of(To::Here(Arc::new(Here::elsewhere(binding))), descriptor);
        Ok(stub.measured_by_default(address, descriptor))
    }

    /// Imports `name`. If it isn't exported yet, waits for it for at most `within`. The name may be
    /// an address of another machine.
    ///
    /// # Errors
    /// [`ImportError`], each kind with its remedy.
    pub fn import(
        name: &str,
        descriptor: &'static Descriptor,
        within: Option<Duration>,
    ) -> Result<Self, ImportError> {
        Self::import_as(name, descriptor, within, ImportMode::Joins)
    }

    /// Imports `name` over a connection of its own. If `within` is zero, it does not wait for the
    /// name to be exported.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    pub fn import_apart(
        name: &str,
        descriptor: &'static Descriptor,
        within: Duration,
    ) -> Result<Self, ImportError> {
        let within = (!within.is_zero()).then_some(within);
        Self::import_as(name, descriptor, within, ImportMode::Apart)
    }

    fn import_as(
        name: &str,
        descriptor: &'static Descriptor,
        within: Option<Duration>,
        mode: ImportMode,
    ) -> Result<Self, ImportError> {
        if transport::is_address(name) {
            let binding = transport::import(name, descriptor, within)?;
            let stub = Self::of(To::Here(Arc::new(Here::elsewhere(binding))), descriptor);
            return Ok(stub.measured_by_default(name, descriptor));
        }
        Self::find(name, descriptor, |directory| {
            Ok(To::There(Arc::new(import::bind(&directory, name, descriptor, within, mode)?)))
        })
    }

    /// Imports `name`, and imports it again whenever the server has ended, as `policy` says. Calls
    /// that were not started, or that can be repeated, are then made again, if the client's state
    /// has been restored.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    pub fn import_resilient(
        name: &str,
        descriptor: &'static Descriptor,
        policy: Policy,
    ) -> Result<Self, ImportError> {
        Self::find_resilient(name, descriptor, policy, None)
    }

    /// As [`import_resilient`](Self::import_resilient). In addition `restore` restores the client's
    /// state over a new binding, before other calls go over that, or says why it can't.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    pub fn import_resilient_with(
        name: &str,
        descriptor: &'static Descriptor,
        policy: Policy,
        restore: impl Fn(Self) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Result<Self, ImportError> {
        let restore: Box<Restore> = Box::new(move |bound, abandon| {
            let stub = Self::of(To::There(bound), descriptor).abandonable(&abandon);
            restore(stub).map_err(|e| e.to_string())
        });
        Self::find_resilient(name, descriptor, policy, Some(restore))
    }

    fn find_resilient(
        name: &str,
        descriptor: &'static Descriptor,
        policy: Policy,
        restore: Option<Box<Restore>>,
    ) -> Result<Self, ImportError> {
        if transport::is_address(name) {
            let why = "only names of this machine are imported again; a stateless interface needs no more than \
                       `import`, since its calls go to any server of the address";
            return Err(ImportError::Remote(name.to_owned(), why.to_owned()));
        }
        Self::find(name, descriptor, |directory| {
            let resilient = Resilient::new(directory, name, descriptor, policy, restore)?;
            Ok(To::Anywhere(Arc::new(resilient), KnownGeneration::default()))
        })
    }

    /// The implementation under `name`, if this domain has it; else what `import` gives.
    fn find(
        name: &str,
        descriptor: &'static Descriptor,
        import: impl FnOnce(Directory) -> Result<To<L>, ImportError>,
    ) -> Result<Self, ImportError> {
        let directory = Directory::from_environment();
        let path = import::path_of(&directory, name)?;
        let to = match local_exports::find(&path).and_then(|offer| Here::of(&offer, descriptor)) {
            Some(here) => To::Here(Arc::new(here)),
            None => import(directory)?,
        };
        Ok(Self::of(to, descriptor).measured_by_default(name, descriptor))
    }

    fn of(to: To<L>, descriptor: &'static Descriptor) -> Self {
        let calls = descriptor.calls();
        let leasing = Leasing::new(AllLeased::default(), calls);
        Self { to, terms: CallTerms { within: None, urgent: false, abandon: None, leasing }, calls }
    }

    /// A stub of `service` itself, in this domain. It can be passed to other domains as a value.
    ///
    /// # Panics
    /// If the service is one of another interface than `descriptor`'s.
    pub fn of_service(service: &Service, descriptor: &'static Descriptor) -> Self {
        let here = Here::of_value(service.implementation.clone(), descriptor).unwrap_or_else(|| {
            let name = service.descriptor().name;
            panic!("a stub of {} can't have a service of {name} for its implementation", descriptor.name)
        });
        Self::of(To::Here(Arc::new(here)), descriptor)
    }

    /// Puts what the stub stands for beside the bytes.
    pub fn put(&self, to: &mut (impl Sink + ?Sized)) {
        let given = match self.leads_to() {
            To::Here(here) => match &here.implementation {
                Some(implementation) => GivenInterface::Here(implementation.clone()),
                // Nothing is put, as below.
                None => return,
            },
            To::There(bound) => GivenInterface::There(bound.clone()),
            To::Anywhere(resilient, _) => match resilient.bound_unless_forked() {
                Ok(bound) => GivenInterface::There(bound),
                // Nothing is put, so the receiver finds that it is missing.
                Err(_) => return,
            },
        };
        to.put_interface(&given);
    }

    /// Takes what came beside the bytes for a stub.
    ///
    /// # Errors
    /// Nothing came, or the implementation is one of another interface.
    pub fn take(
        from: &mut (impl Source + ?Sized),
        descriptor: &'static Descriptor,
    ) -> Result<Self, DecodeError> {
        let taken = from.take_interface()?.downcast().map_err(|_| DecodeError::NoInterface)?;
        let to = match *taken {
            TakenInterface::There(bound) => To::There(bound),
            TakenInterface::Home(implementation) => {
                let other = DecodeError::BadValue { of: descriptor.name };
                To::Here(Arc::new(Here::of_value(implementation, descriptor).ok_or(other)?))
            }
        };
        Ok(Self::of(to, descriptor))
    }

    /// A binding that another domain passes on over `socket`, by [`share_with`](Self::share_with).
    /// Waits for it for at most `within`. To the server this domain is a client of its own.
    ///
    /// # Errors
    /// [`ImportError`], each kind with its remedy.
    pub fn import_from(
        socket: impl AsFd,
        descriptor: &'static Descriptor,
        within: Duration,
    ) -> Result<Self, ImportError> {
        let (socket, until) = (socket.as_fd(), clock::deadline_ns(within));
        let ticket = blocking(|| take_passed(socket, until));
        let ticket = ticket.map_err(|e| ImportError::System("nobody has passed a binding on", e))?;
        Ok(Self::of(To::There(Arc::new(import::redeem(ticket, descriptor)?)), descriptor))
    }

    /// Passes this binding on to the process that reads from the other end of `socket`, a connected
    /// Unix socket. Sends one byte. Until the other process has taken what was passed on, it ends
    /// with this binding.
    ///
    /// # Errors
    /// [`ShareError`], each kind with its remedy.
    pub fn share_with(&self, socket: impl AsFd) -> Result<(), ShareError> {
        let ticket = match self.leads_to() {
            To::Here(here) if here.remote().is_some() => return Err(ShareError::Remote),
            To::Here(_) => return Err(ShareError::Here),
            To::There(bound) => bound.share()?,
            To::Anywhere(resilient, _) => {
                resilient.bound_unless_forked().map_err(ShareError::Call)?.share()?
            }
        };
        let socket = socket.as_fd();
        blocking(|| pass(socket, ticket.as_fd())).map_err(ShareError::System)
    }

    /// The implementation, if it is in this very domain and has no async handlers: call it
    /// directly.
    #[inline]
    pub fn local(&self) -> Option<Local<'_, L>> {
        match &self.to {
            To::Here(here) => here.local(),
            To::There(_) | To::Anywhere(..) => None,
        }
    }

    /// The same binding, with changed terms for its calls.
    fn with(&self, change: impl FnOnce(&mut CallTerms)) -> Self {
        let mut other = self.clone();
        change(&mut other.terms);
        other
    }

    /// Calls a procedure of an implementation in another domain. Blocks the calling thread, and no
    /// other. `V` and `E` are the markers of the two types of the `Result` that travels.
    ///
    /// # Errors
    /// What the procedure returns; or a [`CallError`], each kind with its remedy, converted to that
    /// type. A stub whose implementation is local and has no async handlers says `Closed`.
    #[inline(always)]
    pub fn call<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        procedure: u16,
        arguments: &A,
    ) -> Result<V::Itself, E::Itself> {
        self.call_as::<A, V, E>(procedure, arguments, false)
    }

    /// As [`call`](Self::call), for a procedure that may be executed twice.
    ///
    /// # Errors
    /// As `call`.
    #[inline(always)]
    pub fn call_idempotent<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        procedure: u16,
        arguments: &A,
    ) -> Result<V::Itself, E::Itself> {
        self.call_as::<A, V, E>(procedure, arguments, true)
    }

    #[inline(always)]
    fn call_as<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        procedure: u16,
        arguments: &A,
        idempotent: bool,
    ) -> Result<V::Itself, E::Itself> {
        let terms = &self.terms;
        match &self.to {
            To::There(bound) => {
                bound.call::<A, Result<V::Itself, E::Itself>>(procedure, arguments, terms, E::from_call_error)
            }
            to => to.call_out_of_line::<A, V, E>(terms, &MethodCall { procedure, arguments, idempotent }),
        }
    }

    /// As [`call`](Self::call), for async tasks under any executor. The future sends the call when
    /// it is first polled. If it is dropped before its end, it abandons the call.
    ///
    /// # Errors
    /// As `call`.
    pub async fn call_async<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        procedure: u16,
        arguments: &A,
    ) -> Result<V::Itself, E::Itself> {
        self.call_async_as::<A, V, E>(procedure, arguments, false).await
    }

    /// As [`call_async`](Self::call_async), for a procedure that may be executed twice.
    ///
    /// # Errors
    /// As `call`.
    pub async fn call_async_idempotent<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        procedure: u16,
        arguments: &A,
    ) -> Result<V::Itself, E::Itself> {
        self.call_async_as::<A, V, E>(procedure, arguments, true).await
    }

    async fn call_async_as<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        procedure: u16,
        arguments: &A,
        idempotent: bool,
    ) -> Result<V::Itself, E::Itself> {
        let request = MethodCall { procedure, arguments, idempotent };
        self.to.call_from_task::<A, V, E>(&self.terms, &request).await
    }

    /// What this binding has carried so far, over all of its channels. All zero if the
    /// implementation is in this very domain or on another machine, or if this process was forked
    /// off the one that imported a resilient binding.
    pub fn counters(&self) -> Counters {
        match self.leads_to() {
            To::There(bound) => bound.counters(),
            To::Anywhere(resilient, _) => resilient.counters(),
            To::Here(_) => Counters::default(),
        }
    }

    /// Whether this binding has ended, as far as this domain knows. It enters no kernel, and makes
    /// no call. A binding within this domain, and one that is imported again, has not ended.
    #[doc(hidden)]
    #[inline]
    pub fn has_ended(&self) -> bool {
        match self.leads_to() {
            To::There(bound) => bound.has_ended(),
            To::Here(here) => here.remote().is_some_and(|binding| binding.has_ended()),
            To::Anywhere(..) => false,
        }
    }

    /// Why the binding has ended. `None` if it has not.
    #[doc(hidden)]
    pub fn why_ended(&self) -> Option<CallError> {
        match self.leads_to() {
            To::There(bound) if bound.has_ended() => Some(bound.why_ended()),
            _ if self.has_ended() => Some(CallError::PeerDied(Outcome::NotStarted)),
            _ => None,
        }
    }

    /// What the server does at this moment. `None` if the implementation is in this very domain, or
    /// the binding is resilient.
    pub fn server(&self) -> Option<ServerState> {
        let To::There(bound) = self.leads_to() else { return None };
        let (pid, sleeps) = bound.server();
        Some(match state_of(pid) {
            _ if bound.turns_away() => ServerState::Gone,
            ProcessState::Stopped => ServerState::Stopped,
            _ if sleeps => ServerState::Sleeps,
            _ => ServerState::Runs,
        })
    }

    /// Whether a call has to wake the server, as its attention word says: a hint. It enters no
    /// kernel. False if the implementation is in this very domain, or the binding is resilient.
    #[doc(hidden)]
    #[inline]
    pub fn server_sleeps(&self) -> bool {
        matches!(self.leads_to(), To::There(bound) if bound.server_sleeps())
    }

    /// The same binding with a deadline: its calls end with [`CallError::Deadline`] if they take
    /// longer than `within`.
    ///
    /// Calls within this domain are direct. No deadline applies to them. One of a call to another
    /// machine is told to the server.
    #[must_use]
    pub fn with_deadline(&self, within: Duration) -> Self {
        self.with(|terms| terms.within = Some(within))
    }

    /// Accepts a restart of the server, after [`CallError::Restarted`]. From now on this clone
    /// makes calls over the present binding, and gives up all state that the earlier server had
    /// given it. Each clone accepts for itself. Does nothing if there was no restart.
    pub fn acknowledge_restart(&self) {
        if let To::Anywhere(resilient, known) = self.leads_to() {
            resilient.acknowledge(known);
        }
    }

    /// The same binding. `abandon` can free its callers before the server has replied.
    #[must_use]
    pub fn abandonable(&self, abandon: &Abandon) -> Self {
        self.with(|terms| terms.abandon = Some(abandon.clone()))
    }

    /// Sets the number of calls that the server may hold over each channel of this binding although
    /// nobody waits for them any more, because they were abandoned or their deadline has passed. At
    /// first it is 48 of 64. If the server holds one more, the binding is closed, with
    /// [`CallError::Captured`].
    pub fn quarantine(&self, most: u32) {
        match self.leads_to() {
            To::There(bound) => bound.set_quarantine(most),
            To::Anywhere(resilient, _) => resilient.set_quarantine(most),
            To::Here(_) => {}
        }
    }

    /// The same binding. Its calls donate their caller's processor to a server that has none
    /// (URPC, 3.1). Other threads of this domain that are ready on that processor wait until it
    /// comes back. Use it for single-threaded callers, real-time ones, I/O of high latency, and
    /// priority.
    ///
    /// If the server has a processor, it changes nothing. An async task has no processor to donate,
    /// so its calls are as without it.
    #[must_use]
    pub fn urgent(&self) -> Self {
        self.with(|terms| terms.urgent = true)
    }

    /// The same binding, with another `choice` for calls that find as many A-stacks of their
    /// channel leased as the interface expects calls at once (LRPC, 5.2).
    #[must_use]
    pub fn when_all_leased(&self, choice: AllLeased) -> Self {
        self.with(|terms| terms.leasing = Leasing::new(choice, self.calls))
    }
}
