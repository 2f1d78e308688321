//! A requester's connection with a home.

use crate::invoke::attach::{AreaAttach, AreaAttachClient, AttachError};
use crate::invoke::errors::{InvokeError, InvokerConnectError};
use crate::invoke::handlers::{RING, rings_of};
use crate::invoke::layout::{VERSION, WORDS};
use crate::invoke::masked;
use crate::invoke::requests::{InvocationEnd, Operands, Requests, TakenRequest, offer};
use crate::pace::Pace;
use crate::words::AreaWords;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use underpass_os::{failpoint, fork};
use underpass_port::PortSendError;
use underpass_port::signal::SignalSender;
use underpass_seam::spin_hint;
use underpass_sync::{Mutex, MutexGuard, PoisonError};
use underpass_threads::{WaitSpin, yield_now};

/// How long a home that lives may take to attach an area.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look between two looks at the clock.
const LOOKS: u32 = 32;
/// After spinning, how long to leave the processor to others between two looks.
const MOMENT: Duration = Duration::from_micros(50);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to invoke a home at interrupt level. Clones share its request area.
///
/// # Examples
/// See the [module](super).
#[derive(Clone)]
pub struct HomeInvoker(Arc<Connected>);

struct Connected {
    words: AreaWords,
    requests: Requests,
    ring: SignalSender,
    stub: AreaAttachClient,
    key: u64,
    resent: AtomicU64,
    /// The thread that polls has it.
    spin: Mutex<WaitSpin>,
}

impl HomeInvoker {
    /// Connects to the home that exports its [services](super::InvocationServices) as `name`.
    ///
    /// # Errors
    /// [`InvokerConnectError`], each variant with its remedy.
    pub fn connect(name: &str) -> Result<Self, InvokerConnectError> {
        let stub = AreaAttachClient::import(name).map_err(InvokerConnectError::Import)?;
        let ring = SignalSender::connect(&rings_of(name)).map_err(InvokerConnectError::Signals)?;
        Self::over(stub, ring)
    }

    /// As [`connect`](Self::connect), but waits up to `patience` for the home.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_within(name: &str, patience: Duration) -> Result<Self, InvokerConnectError> {
        let stub = AreaAttachClient::import_within(name, patience).map_err(InvokerConnectError::Import)?;
        let ring = SignalSender::connect_within(&rings_of(name), PATIENCE);
        Self::over(stub, ring.map_err(InvokerConnectError::Signals)?)
    }

    fn over(stub: AreaAttachClient, ring: SignalSender) -> Result<Self, InvokerConnectError> {
        let (words, area) =
            AreaWords::create("underpass-requests", WORDS).map_err(InvokerConnectError::Memory)?;
        let attached = stub.with_deadline(PATIENCE).attach(VERSION, area);
        let key = attached.map_err(|e| match e {
            AttachError::Call(e) => InvokerConnectError::Call(e),
            AttachError::OtherLayout => InvokerConnectError::OtherLayout,
            AttachError::HasOne => InvokerConnectError::Refused("the binding has one already".to_owned()),
            AttachError::Memory(why) => InvokerConnectError::Refused(why),
        })?;
        let (requests, resent) = (Requests::new(), AtomicU64::new(0));
        Ok(Self(Arc::new(Connected { words, requests, ring, stub, key, resent, spin: Mutex::default() })))
    }

    /// Has the home execute `operation`, at interrupt level, and returns its results. It waits at
    /// most for `within`.
    ///
    /// # Errors
    /// [`InvokeError`], each variant with its remedy.
    pub fn invoke(
        &self,
        operation: u64,
        arguments: [u64; 6],
        within: Duration,
    ) -> Result<[u64; 6], InvokeError> {
        if fork::is_forked() {
            return Err(InvokeError::Forked);
        }
        masked::outgoing()?;
        let mut pace = Pace::until(within, MOMENT, MOMENT);
        let request = self.0.post(operation, &arguments, &mut pace)?;
        failpoint!("invoke-posted");
        let offered = self.0.offer(request.index);
        match offered.and_then(|()| self.0.completed(&request, &mut pace)) {
            Ok(completion) => {
                failpoint!("invoke-completed");
                self.0.requests.give_back(request);
                match completion {
                    InvocationEnd::Done(results) => Ok(results),
                    InvocationEnd::NoSuchOperation => Err(InvokeError::NoSuchOperation),
                    InvocationEnd::Panicked => Err(InvokeError::Panicked),
                }
            }
            Err(why) => {
                self.0.requests.abandon(request);
                Err(why)
            }
        }
    }

    /// How often a request of this area was offered again, since another one had overwritten the
    /// offer.
    pub fn resent(&self) -> u64 {
        self.0.resent.load(Ordering::Relaxed)
    }
}

impl Connected {
    /// Q1 and Q2.
    fn post(
        &self,
        operation: u64,
        arguments: &Operands,
        pace: &mut Pace,
    ) -> Result<TakenRequest, InvokeError> {
        loop {
            match self.requests.post(&self.words, operation, arguments) {
                Ok(request) => return Ok(request),
                Err(Some(forgotten)) => self.offer(forgotten)?,
                Err(None) => {}
            }
            self.pause(pace)?;
        }
    }

    /// Q3.
    fn offer(&self, index: usize) -> Result<(), InvokeError> {
        offer(&self.words, index);
        failpoint!("invoke-offered");
        match self.ring.signal(RING, self.key) {
            // Without a credit, earlier rings are queued: one of them finds this offer.
            Ok(_) | Err(PortSendError::Full) => Ok(()),
            Err(_) => Err(InvokeError::HomeDied),
        }
    }

    /// Q4 and Q5: polls for about as long as a wake-up costs, and then waits.
    fn completed(&self, request: &TakenRequest, pace: &mut Pace) -> Result<InvocationEnd, InvokeError> {
        // Others that wait meanwhile learn nothing from this wait.
        let mut spin = mem::take(&mut *lock(&self.spin));
        let came = |_: &Pace| request.completion(&self.words).is_some() || self.has_ended();
        let waited = spin.spin_then(pace, came, Pace::is_over, |pace| self.wait(request, pace));
        let gives_way = spin.gives_way();
        *lock(&self.spin) = spin;
        if gives_way {
            yield_now();
        }
        waited.unwrap_or_else(|| self.wait(request, pace))
    }

    fn wait(&self, request: &TakenRequest, pace: &mut Pace) -> Result<InvocationEnd, InvokeError> {
        loop {
            for _ in 0..LOOKS {
                if let Some(completion) = request.completion(&self.words) {
                    return Ok(completion);
                }
                spin_hint();
            }
            failpoint!("invoke-waits");
            if request.is_overwritten(&self.words) && !pace.spins() {
                // Relaxed: a count.
                self.resent.fetch_add(1, Ordering::Relaxed);
                self.offer(request.index)?;
            }
            self.pause(pace)?;
        }
    }

    fn pause(&self, pace: &mut Pace) -> Result<(), InvokeError> {
        if self.has_ended() {
            return Err(InvokeError::HomeDied);
        }
        pace.pause().map_err(|_| InvokeError::Deadline)
    }

    fn has_ended(&self) -> bool {
        // The second asks nobody as long as nothing has ended.
        self.stub.has_ended() || self.ring.ended().is_some()
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        if self.stub.is_here() && !fork::is_forked() {
            // If the home has ended, so has the area.
            let _ = self.stub.detach(self.key);
        }
    }
}

impl fmt::Debug for HomeInvoker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HomeInvoker").field("resent", &self.resent()).finish_non_exhaustive()
    }
}
