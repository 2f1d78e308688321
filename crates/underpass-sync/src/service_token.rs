//! The token of an exclusive service (`underpass-rpc/src/dispatch/exclusive/README.md`).

use crate::raw_mutex::{EndedBy, RawMutex, Waits};
use crate::runtime::{WaitLimit, Woken, const_fn};
use underpass_seam::atomic::{AtomicU64, Ordering};

/// What the token is called in dumps.
const KIND: &str = "the token of an exclusive service";

/// The right to run an exclusive service. It is the lock of a mutex, with the number by which calls
/// are known that are made on behalf of its holder.
///
/// | field | written by |
/// |---|---|
/// | `lock` | see there |
/// | `number` | the holder; 0 while it has none, and while nobody holds the token |
pub struct ServiceToken {
    lock: RawMutex,
    number: AtomicU64,
}

/// Why a thread has not got the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// The deadline has passed.
    Late,
    /// The calls of the thread are to end.
    Cancelled,
}

impl ServiceToken {
    const_fn! {
        /// A token that nobody holds.
        pub fn new() -> ServiceToken {
            ServiceToken { lock: RawMutex::new(), number: AtomicU64::new(0) }
        }
    }

    /// Takes the token, if nobody holds it, or its holder gives it back within a few looks.
    #[inline(always)]
    pub fn take_soon(&self) -> bool {
        self.lock.acquire_soon()
    }

    /// Waits for the token as a call waits for its reply.
    ///
    /// # Errors
    /// If the deadline passes first, or the calls of the thread are to end.
    pub fn take_late(&self, deadline_ns: Option<u64>) -> Result<(), TokenError> {
        let limit = deadline_ns.map_or(WaitLimit::Endless, WaitLimit::Until);
        match self.lock.acquire_late(Waits { kind: KIND, limit, ended: EndedBy::CallsEnd }) {
            Woken::Woken => Ok(()),
            Woken::Late => Err(TokenError::Late),
            Woken::Cancelled => Err(TokenError::Cancelled),
        }
    }

    /// Takes the token, and waits for as long as it takes.
    pub fn take_again(&self) {
        if !self.take_soon() {
            let waits = Waits { kind: KIND, limit: WaitLimit::Endless, ended: EndedBy::Limit };
            self.lock.acquire_late(waits);
        }
    }

    /// Gives the token back. Only its holder calls this.
    #[inline(always)]
    pub fn give(&self) {
        // Relaxed, both: only the holder writes it. The next holder finds it by the lock.
        if self.number.load(Ordering::Relaxed) != 0 {
            self.number.store(0, Ordering::Relaxed);
        }
        self.lock.release();
    }

    /// The number by which calls are known that are made on behalf of the holder. If it has none,
    /// it gets what `new` returns, which is not 0. Only the holder calls this.
    pub fn number(&self, new: impl FnOnce() -> u64) -> u64 {
        // Relaxed, both: only the holder writes it. A thread whose call was made on behalf of the
        // holder has learned of the number through something that synchronizes.
        match self.number.load(Ordering::Relaxed) {
            0 => {
                let number = new();
                self.number.store(number, Ordering::Relaxed);
                number
            }
            number => number,
        }
    }

    /// The number of a holder that may have made the caller's call. If it did, and
    /// that holder still holds the token, this is its number.
    #[inline]
    pub fn holder_number(&self) -> Option<u64> {
        // Relaxed: see `number`.
        Some(self.number.load(Ordering::Relaxed)).filter(|&number| number != 0)
    }
}

impl Default for ServiceToken {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for ServiceToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceToken").field("holder", &self.lock.holder()).finish_non_exhaustive()
    }
}
