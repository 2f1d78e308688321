//! An interface that is called from other machines, with handlers of both kinds.
#![allow(clippy::missing_errors_doc, reason = "interfaces of the tests: what goes wrong is what they test")]

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use underpass::{CallError, Sealed, Shared};

/// Something of everything that can leave its machine.
#[underpass::interface(asynchronous, stateless)]
pub trait Depot {
    /// The sum.
    fn add(&self, a: u32, b: u32) -> Result<u32, CallError>;
    /// The caller, in words.
    fn who(&self) -> Result<String, CallError>;
    /// The same bytes.
    fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError>;
    /// The bytes in the reverse order.
    fn reverse(&self, sealed: Sealed, before: u8) -> Result<(Sealed, u8), CallError>;
    /// The sum of the bytes.
    fn sum(&self, #[underpass(shared)] bytes: Shared<'_>) -> Result<u64, CallError>;
    /// Returns when nobody wants its result any more.
    fn hold(&self) -> Result<(), CallError>;
    /// How many calls of `hold` have begun, and how many of them have ended.
    fn held(&self) -> Result<(u32, u32), CallError>;
    /// Fails.
    fn fail(&self, panics: bool) -> Result<(), CallError>;
    /// The state of the caller's binding, which it adds to.
    fn remember(&self) -> Result<u32, CallError>;
}

/// Implements [`Depot`]. Clones share their counts.
#[derive(Clone, Debug, Default)]
pub struct DepotService(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    begun: AtomicU32,
    ended: AtomicU32,
}

/// A call of `hold`.
struct HeldCall(Arc<Counted>);

impl HeldCall {
    fn new(counted: &Arc<Counted>) -> Self {
        counted.begun.fetch_add(1, Ordering::SeqCst);
        Self(counted.clone())
    }
}

impl Drop for HeldCall {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// The caller, in words that tests compare.
fn caller() -> String {
    let Some(peer) = underpass::caller() else { return "nobody".to_owned() };
    let Some(remote) = peer.remote() else { return "local".to_owned() };
    let mut text = String::from("remote");
    if let Some(subject) = remote.subject() {
        let _ = write!(text, " token {subject}");
    }
    if !remote.certificates().is_empty() {
        let _ = write!(text, " certificate");
    }
    text
}

impl DepotService {
    fn reversed(sealed: &Sealed) -> Result<Sealed, CallError> {
        let bytes: Vec<u8> = sealed.iter().rev().copied().collect();
        let no_room = |e: std::io::Error| CallError::NoResources(underpass::Outcome::Unknown, e.to_string());
        Sealed::new(&bytes).map_err(no_room)
    }

    fn failed(panics: bool) -> Result<(), CallError> {
        assert!(!panics, "on purpose");
        Err(CallError::Deadlock)
    }

    fn remembered() -> u32 {
        let state = underpass::binding_state(AtomicU32::default);
        state.map_or(0, |state| state.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

impl Depot for DepotService {
    fn add(&self, a: u32, b: u32) -> Result<u32, CallError> {
        Ok(a + b)
    }
    fn who(&self) -> Result<String, CallError> {
        Ok(caller())
    }
    fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
        Ok(bytes.to_vec())
    }
    fn reverse(&self, sealed: Sealed, before: u8) -> Result<(Sealed, u8), CallError> {
        Ok((Self::reversed(&sealed)?, before + 1))
    }
    fn sum(&self, bytes: Shared<'_>) -> Result<u64, CallError> {
        Ok(bytes.iter().map(u64::from).sum())
    }
    fn hold(&self) -> Result<(), CallError> {
        let _held = HeldCall::new(&self.0);
        while !underpass::is_cancelled() {
            underpass::thread::park_timeout(Duration::from_millis(10));
        }
        Ok(())
    }
    fn held(&self) -> Result<(u32, u32), CallError> {
        Ok((self.0.begun.load(Ordering::SeqCst), self.0.ended.load(Ordering::SeqCst)))
    }
    fn fail(&self, panics: bool) -> Result<(), CallError> {
        Self::failed(panics)
    }
    fn remember(&self) -> Result<u32, CallError> {
        Ok(Self::remembered())
    }
}

impl DepotAsync for DepotService {
    async fn add(&self, a: u32, b: u32) -> Result<u32, CallError> {
        Ok(a + b)
    }
    async fn who(&self) -> Result<String, CallError> {
        Ok(caller())
    }
    async fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
        Ok(bytes.to_vec())
    }
    async fn reverse(&self, sealed: Sealed, before: u8) -> Result<(Sealed, u8), CallError> {
        Ok((Self::reversed(&sealed)?, before + 1))
    }
    async fn sum(&self, bytes: Shared<'_>) -> Result<u64, CallError> {
        Ok(bytes.iter().map(u64::from).sum())
    }
    async fn hold(&self) -> Result<(), CallError> {
        let _held = HeldCall::new(&self.0);
        std::future::pending().await
    }
    async fn held(&self) -> Result<(u32, u32), CallError> {
        Depot::held(self)
    }
    async fn fail(&self, panics: bool) -> Result<(), CallError> {
        Self::failed(panics)
    }
    async fn remember(&self) -> Result<u32, CallError> {
        Ok(Self::remembered())
    }
}

/// A counter, which means nothing to the next server.
#[underpass::interface]
pub trait Tally {
    /// Counts up.
    fn up(&self) -> Result<u64, CallError>;
}

/// Implements [`Tally`].
#[derive(Debug, Default)]
pub struct TallyService(std::sync::atomic::AtomicU64);

impl Tally for TallyService {
    fn up(&self) -> Result<u64, CallError> {
        Ok(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}
