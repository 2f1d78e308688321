//! What a home does when it is interrupted: a handler for each operation.

use crate::invoke::attach::{AreaAttach, AttachError};
use crate::invoke::home::{InterruptedHome, InvocationHome, MaskedInterrupts};
use crate::invoke::layout::{VERSION, WORDS};
use crate::invoke::requests::Operands;
use crate::words::AreaWords;
use std::collections::HashMap;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use underpass_port::signal::SignalHandlers;
use underpass_rpc::{CallError, Grant, Peer, Server, Service, caller};

/// The kind of the signal by which a requester rings.
pub(crate) const RING: u64 = 1;

/// The name of the service that takes rings.
pub(crate) fn rings_of(name: &str) -> String {
    format!("{name}+rings")
}

pub(crate) type InvocationHandler = Box<dyn FnMut(Operands) -> Operands + Send>;

/// The handlers of a home, before it can be invoked.
///
/// # Examples
/// See the [module](super).
#[must_use = "nothing is handled before `start`"]
pub struct InvocationHandlers {
    on: HashMap<u64, InvocationHandler>,
    while_masked: MaskedInterrupts,
    interrupted: Arc<InterruptedHome>,
}

impl Default for InvocationHandlers {
    fn default() -> Self {
        Self::new()
    }
}

impl InvocationHandlers {
    /// No handlers.
    pub fn new() -> Self {
        let (on, while_masked) = (HashMap::new(), MaskedInterrupts::default());
        Self { on, while_masked, interrupted: InterruptedHome::new() }
    }

    /// What becomes of the interrupts of a critical section. Unless told otherwise, they are
    /// [queued](MaskedInterrupts::Queued).
    pub fn while_masked(mut self, interrupts: MaskedInterrupts) -> Self {
        self.while_masked = interrupts;
        self
    }

    /// The home that these handlers will interrupt.
    pub(crate) fn interrupted(&self) -> Arc<InterruptedHome> {
        self.interrupted.clone()
    }

    /// Handles `operation`. Handlers of one home run one after another, with preemption off, and
    /// never within a [critical section](InvocationHome::mask) of the home. They may not block: one
    /// that blocks holds up all others, and critical sections too. If one panics, its requester is
    /// told.
    pub fn on(mut self, operation: u64, handler: impl FnMut([u64; 6]) -> [u64; 6] + Send + 'static) -> Self {
        self.on.insert(operation, Box::new(handler));
        self
    }

    /// The services to export, and the home. When the home is dropped, no handler begins any more.
    pub fn start(self) -> (InvocationServices, InvocationHome) {
        let Self { on, while_masked, interrupted } = self;
        interrupted.handle_by(on);
        let rung = interrupted.clone();
        let (rings, signals) =
            SignalHandlers::new().on(RING, move |ring| rung.rung(ring.datum, while_masked)).start();
        let died = interrupted.clone();
        let areas = AreaAttach::serve(Attacher { interrupted: interrupted.clone() })
            .on_binding_end(move |binding| died.detach_all(binding.id()));
        (InvocationServices { areas, rings }, InvocationHome::of(interrupted, signals, while_masked))
    }
}

impl fmt::Debug for InvocationHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InvocationHandlers").field("operations", &self.on.len()).finish()
    }
}

/// What a home exports: one service for request areas, and one for rings.
///
/// # Examples
/// See the [module](super).
#[must_use = "the home can't be invoked before its services are exported"]
#[derive(Debug)]
pub struct InvocationServices {
    areas: Service,
    rings: Service,
}

impl InvocationServices {
    /// As [`Service::authorize`]. It is asked twice for each requester, which has two bindings.
    pub fn authorize<G: Into<Grant>>(
        self,
        decide: impl Fn(&Peer) -> G + Clone + Send + Sync + 'static,
    ) -> Self {
        let again = decide.clone();
        Self { areas: self.areas.authorize(decide), rings: self.rings.authorize(again) }
    }

    /// Exports them from `server` as `name`. There must be room in the name for 6 more bytes.
    pub fn export(self, server: Server, name: &str) -> Server {
        server.export(rings_of(name), self.rings).export(name, self.areas)
    }
}

/// Attaches areas.
struct Attacher {
    interrupted: Arc<InterruptedHome>,
}

impl AreaAttach for Attacher {
    fn attach(&self, layout: u64, area: OwnedFd) -> Result<u64, AttachError> {
        if layout != VERSION {
            return Err(AttachError::OtherLayout);
        }
        let words = AreaWords::adopt(area.as_fd(), WORDS).map_err(|e| AttachError::Memory(e.to_string()))?;
        let binding = caller().map(|peer| peer.binding_id());
        self.interrupted.attach(words, binding)
    }

    fn detach(&self, key: u64) -> Result<(), CallError> {
        self.interrupted.detach(key, caller().map(|peer| peer.binding_id()));
        Ok(())
    }
}
