//! An interface with async handlers, which is passed as a value, and its implementation.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use crate::vault::SinkClient;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use underpass::{CallError, Handler, Shared, caller};

/// Methods whose handlers wait and call out without a thread.
#[underpass::interface(asynchronous)]
pub trait Office {
    /// Adds.
    fn add(&self, a: u64, b: u64) -> Result<u64, CallError>;
    /// Returns its argument.
    fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError>;
    /// Returns the file.
    fn carry(&self, file: OwnedFd) -> Result<OwnedFd, CallError>;
    /// Sums the bytes.
    fn sum(&self, #[underpass(shared)] bytes: Shared<'_>) -> Result<u64, CallError>;
    /// The process that calls, as the handler knows it.
    fn who(&self) -> Result<u32, CallError>;
    /// Panics.
    fn panic(&self, why: &str) -> Result<(), CallError>;
    /// Another office of the same domain.
    fn another(&self) -> Result<OfficeClient, CallError>;
    /// Returns what `sink` makes of `n`.
    fn tell(&self, sink: SinkClient, n: u64) -> Result<u64, CallError>;
    /// Has `other` play with an office of this domain, unless `left` is zero. Returns how many
    /// calls there were.
    fn play(&self, other: OfficeClient, left: u32) -> Result<u32, CallError>;
    /// Ends only when it is dropped.
    fn stay(&self) -> Result<(), CallError>;
}

/// What happens at the offices of one domain.
#[derive(Clone, Debug, Default)]
pub struct OfficeCounts {
    /// Desks that were not dropped.
    pub live: Arc<AtomicU32>,
    /// Calls of `stay` under way.
    pub staying: Arc<AtomicU32>,
}

/// The executor of all offices: one thread.
static EXECUTOR: LazyLock<Box<underpass::__private::Spawn>> =
    LazyLock::new(|| Box::new(crate::slow::one_thread()));

/// The implementation of [`Office`].
#[derive(Debug)]
pub struct Teller(OfficeCounts);

impl Teller {
    /// One that is counted.
    pub fn new(counts: &OfficeCounts) -> Self {
        counts.live.fetch_add(1, Ordering::SeqCst);
        Self(counts.clone())
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An office of this domain.
pub fn office(counts: &OfficeCounts) -> OfficeClient {
    OfficeClient::of_handlers(Teller::new(counts), |handler: Handler| EXECUTOR(handler))
}

/// Counts until it is dropped.
struct Staying(Arc<AtomicU32>);

impl Drop for Staying {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl OfficeAsync for Teller {
    async fn add(&self, a: u64, b: u64) -> Result<u64, CallError> {
        Ok(a + b)
    }

    async fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
        Ok(bytes.to_vec())
    }

    async fn carry(&self, file: OwnedFd) -> Result<OwnedFd, CallError> {
        Ok(file)
    }

    async fn sum(&self, bytes: Shared<'_>) -> Result<u64, CallError> {
        Ok(bytes.iter().map(u64::from).sum())
    }

    async fn who(&self) -> Result<u32, CallError> {
        Ok(caller().map_or(0, |caller| caller.pid()))
    }

    async fn panic(&self, why: &str) -> Result<(), CallError> {
        panic!("{why}");
    }

    async fn another(&self) -> Result<OfficeClient, CallError> {
        Ok(office(&self.0))
    }

    async fn tell(&self, sink: SinkClient, n: u64) -> Result<u64, CallError> {
        sink.tell_async(n).await
    }

    async fn play(&self, other: OfficeClient, left: u32) -> Result<u32, CallError> {
        Ok(match left.checked_sub(1) {
            Some(left) => 1 + other.play_async(office(&self.0), left).await?,
            None => 1,
        })
    }

    async fn stay(&self) -> Result<(), CallError> {
        self.0.staying.fetch_add(1, Ordering::SeqCst);
        let _staying = Staying(self.0.staying.clone());
        std::future::pending().await
    }
}
