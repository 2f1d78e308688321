//! What the threads of a domain share of its registration.

use crate::client::others::Others;
use crate::page::layout::{PLACES, SERVER};
use crate::page::{GatePass, PageLink, PageWords, RegistrationGate};
use std::io;
use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use underpass_os::futex::{self, FutexScope};
use underpass_os::{MemoryWindows, WritableWindow};
use underpass_seam::TryLock;

/// The client of the activation server in this domain. There is one.
#[derive(Debug)]
pub struct DomainClient {
    /// The mappings, once the first server was found. They stay.
    mappings: OnceLock<Mappings>,
    /// The registration: the place, and above it the generation.
    gate: RegistrationGate,
    /// The processors of the machine, as the server says.
    pub(super) processors: AtomicU32,
    /// By place: how many processors are owed, for what that domain or the server has asked.
    pub(super) owed: [AtomicU32; PLACES],
    /// The sum of all that is owed.
    pub(super) owed_in_all: AtomicU32,
    /// The place and the generation of the domain for which the server has asked. 0 if it named
    /// none.
    pub(super) beneficiary: AtomicU64,
    /// By place: for how many lent processors the domain there was asked, and above it the
    /// generation of that domain.
    pub(super) recalled: [AtomicU64; PLACES],
    /// Held by the thread that settles.
    pub(super) settling: TryLock<()>,
    /// From which place on the next idle processor looks for a domain that wants it.
    pub(super) next: AtomicUsize,
    /// Of the monitor alone: the heartbeat that it has seen, when it first saw it, and what was
    /// wanted then.
    pub(super) heartbeat: AtomicU64,
    pub(super) heartbeat_at: AtomicU64,
    pub(super) wanted: AtomicU32,
    /// Of the monitor alone: when it last had the taker look at the server.
    pub(super) looked_at: AtomicU64,
}

/// The pages, as they are mapped.
#[derive(Debug)]
pub(super) struct Mappings {
    pub(super) own: WritableWindow,
    pub(super) others: MemoryWindows,
}

impl PageWords for Mappings {
    #[inline]
    fn word(&self, number: usize) -> &AtomicU64 {
        &self.own.words()[number]
    }
}

/// The client of this domain.
pub fn client() -> &'static DomainClient {
    static CLIENT: OnceLock<DomainClient> = OnceLock::new();
    CLIENT.get_or_init(DomainClient::new)
}

/// A registration, as a thread sees it at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    pub(super) pages: &'static Mappings,
    pub(super) place: usize,
    pub(super) generation: u32,
    /// The processors of the machine.
    pub(super) most: u32,
}

/// A registration that does not end while this lives.
#[derive(Debug)]
pub(super) struct ActiveSession {
    session: Session,
    _pass: GatePass<'static>,
}

impl Deref for ActiveSession {
    type Target = Session;
    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DomainClient {
    fn new() -> Self {
        Self {
            mappings: OnceLock::new(),
            gate: RegistrationGate::default(),
            processors: AtomicU32::new(0),
            owed: [const { AtomicU32::new(0) }; PLACES],
            owed_in_all: AtomicU32::new(0),
            beneficiary: AtomicU64::new(0),
            recalled: [const { AtomicU64::new(0) }; PLACES],
            settling: TryLock::new(()),
            next: AtomicUsize::new(0),
            heartbeat: AtomicU64::new(0),
            heartbeat_at: AtomicU64::new(0),
            wanted: AtomicU32::new(0),
            looked_at: AtomicU64::new(0),
        }
    }

    /// The mappings, made at the first call.
    pub(super) fn map(&'static self) -> io::Result<&'static Mappings> {
        use crate::page::layout::LEN;
        if let Some(mappings) = self.mappings.get() {
            return Ok(mappings);
        }
        let new = Mappings { own: WritableWindow::new(LEN)?, others: MemoryWindows::new(PLACES, LEN)? };
        Ok(self.mappings.get_or_init(|| new))
    }

    /// The registration, if there is one, for a thread that only reads.
    #[inline]
    pub(super) fn session(&'static self) -> Option<Session> {
        self.session_of(self.gate.registration()?)
    }

    /// The registration, if there is one, for a thread that moves processors or publishes.
    pub(super) fn active_session(&'static self) -> Option<ActiveSession> {
        let pass = self.gate.enter()?;
        Some(ActiveSession { session: self.session_of(pass.registration())?, _pass: pass })
    }

    fn session_of(&'static self, registration: NonZeroU64) -> Option<Session> {
        let bits = registration.get();
        let (place, generation) = ((bits as u32) as usize, (bits >> 32) as u32);
        // Relaxed: it was stored before the gate was opened.
        let most = self.processors.load(Ordering::Relaxed);
        Some(Session { pages: self.mappings.get()?, place, generation, most })
    }

    /// The domain is registered as `session` says from now on.
    pub(super) fn begin_session(&self, session: &Session) {
        let bits = session.place as u64 | u64::from(session.generation) << 32;
        // The place of a domain is never 0.
        if let Some(registration) = NonZeroU64::new(bits) {
            self.gate.open(registration);
        }
    }

    /// The domain is not registered any more. On return no thread acts for the registration.
    pub(super) fn end_session(&self) {
        // Those that are inside are in a bounded number of steps.
        self.gate.close(std::thread::yield_now);
    }

    /// Whether this domain is registered with a server.
    pub fn is_registered(&'static self) -> bool {
        self.session().is_some()
    }
}

impl Session {
    /// The link to the domain at `place`, if one is there.
    #[inline]
    pub(super) fn link(&self, place: usize) -> Option<PageLink> {
        PageLink::read(self.pages, self.place, self.generation, place)
    }

    /// The page of the domain at `place`, for reading.
    #[inline]
    pub(super) fn page_of(&self, place: usize) -> Others<'static> {
        Others { windows: &self.pages.others, place }
    }

    /// The links to all other domains, from the place `first` on.
    pub(super) fn links_from(self, first: usize) -> impl Iterator<Item = PageLink> {
        (0..PLACES)
            .map(move |n| (first + n) % PLACES)
            .filter(|&place| place != SERVER)
            .filter_map(move |place| self.link(place))
    }

    /// Wakes the sleepers of the bell for `place`, which was rung.
    pub(super) fn wake(&self, place: usize) {
        use crate::page::layout::{at, row};
        futex::wake(self.pages.own.futex(at(place, row::BELL)), FutexScope::Shared, 1);
    }
}
