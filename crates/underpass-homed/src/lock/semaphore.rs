//! Semaphores of an object, for process level.

use crate::errors::ObjectImportError;
use crate::invoke::masked;
use crate::lock::errors::HybridFailure;
use crate::lock::hybrid_word::HOME;
use crate::lock::joined::LockedRemote;
use crate::lock::layout::{PERMITS, VERSION, words_of};
use crate::lock::permit_words::{free_permits, give_permit_back, take_permit};
use crate::lock::remotes::LockedHome;
use crate::lock::wait::wait_for;
use crate::words::AreaWords;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use underpass_os::{failpoint, fork};
use underpass_rpc::Service;
use underpass_shared::{mix, shape_of};

fn shape() -> u64 {
    mix(mix(shape_of("homed semaphore"), PERMITS as u64), VERSION)
}

#[derive(Clone)]
enum SemaphoreSide {
    Home(Arc<LockedHome>),
    Remote(Arc<LockedRemote>),
}

/// Permits of a home that threads of several domains share at process level (Psyche, section 5.2).
/// Clones are the same semaphore.
///
/// Unlike a hybrid lock it masks nothing: a thread with a permit may block, and may make
/// invocations. So it goes with remote access and invocation at process level, and not with
/// handlers.
///
/// A permit comes back when it is dropped, and when the domain that holds it dies.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use underpass::homed::lock::{HomedSemaphore, HybridFailure};
///
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-homed-permits-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// // In the home's process:
/// let (service, permits) = HomedSemaphore::new(2)?;
/// let running = underpass::Server::new().export("permits", service).start()?;
/// let here = permits.acquire(Duration::from_secs(10))?;
///
/// // In another process, or in several:
/// let theirs = HomedSemaphore::import("permits")?;
/// let there = theirs.acquire(Duration::from_secs(10))?;
/// assert_eq!(theirs.try_acquire().map(drop), Err(HybridFailure::WouldBlock));
/// drop(here);
/// assert!(theirs.try_acquire().is_ok());
/// # drop((there, running));
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HomedSemaphore(SemaphoreSide);

impl HomedSemaphore {
    /// Makes a semaphore of `permits` permits, 64 at most. Export the service under its name. It
    /// ends with the service.
    ///
    /// # Errors
    /// There are more permits than a semaphore can have, there is no memory, or too many files are
    /// open.
    pub fn new(permits: usize) -> io::Result<(Service, Self)> {
        if permits > PERMITS {
            let why = format!("a semaphore has {PERMITS} permits at most, and not {permits}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let (service, locked) = LockedHome::serve(words_of(PERMITS * 8), shape(), permits)?;
        Ok((service, Self(SemaphoreSide::Home(locked))))
    }

    /// Imports the semaphore `name`.
    ///
    /// # Errors
    /// [`ObjectImportError`], each variant with its remedy.
    pub fn import(name: &str) -> Result<Self, ObjectImportError> {
        let locked = LockedRemote::import(name, words_of(PERMITS * 8), shape())?;
        Ok(Self(SemaphoreSide::Remote(Arc::new(locked))))
    }

    /// As [`import`](Self::import), but waits up to `patience` for the home.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    pub fn import_within(name: &str, patience: Duration) -> Result<Self, ObjectImportError> {
        let locked = LockedRemote::import_within(name, patience, words_of(PERMITS * 8), shape())?;
        Ok(Self(SemaphoreSide::Remote(Arc::new(locked))))
    }

    /// Takes a permit (*P*). It waits at most for `within`.
    ///
    /// # Errors
    /// [`HybridFailure`], each variant with its remedy. In a critical section and in a handler it
    /// is [`Masked`](HybridFailure::Masked): there nobody may wait.
    pub fn acquire(&self, within: Duration) -> Result<HomedPermit<'_>, HybridFailure> {
        if masked::is_masked() {
            return Err(HybridFailure::Masked);
        }
        match self.try_acquire() {
            Err(HybridFailure::WouldBlock) => {
                let permit = wait_for(within, || self.take(), || self.ended())?;
                Ok(HomedPermit { of: self, permit })
            }
            taken => taken,
        }
    }

    /// Takes a permit if one is free.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), with [`WouldBlock`](HybridFailure::WouldBlock).
    pub fn try_acquire(&self) -> Result<HomedPermit<'_>, HybridFailure> {
        if let Some(why) = self.ended() {
            return Err(why);
        }
        let permit = self.take().ok_or(HybridFailure::WouldBlock)?;
        Ok(HomedPermit { of: self, permit })
    }

    /// How many permits are free at this moment.
    pub fn available(&self) -> usize {
        let (words, permits, _) = self.parts();
        if fork::is_forked() { 0 } else { free_permits(words, permits) }
    }

    fn parts(&self) -> (&AreaWords, usize, u32) {
        match &self.0 {
            SemaphoreSide::Home(locked) => (&locked.words, locked.permits, HOME),
            SemaphoreSide::Remote(locked) => (&locked.words, locked.permits, locked.number),
        }
    }

    fn ended(&self) -> Option<HybridFailure> {
        match &self.0 {
            SemaphoreSide::Home(_) => fork::is_forked().then_some(HybridFailure::Forked),
            SemaphoreSide::Remote(locked) => locked.ended(),
        }
    }

    fn take(&self) -> Option<usize> {
        let (words, permits, me) = self.parts();
        let permit = take_permit(words, permits, me)?;
        failpoint!("hybrid-permit-taken");
        Some(permit)
    }
}

impl fmt::Debug for HomedSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HomedSemaphore").field("available", &self.available()).finish_non_exhaustive()
    }
}

/// One permit of a [`HomedSemaphore`]. It comes back when this is dropped (*V*), by whichever
/// thread.
#[derive(Debug)]
#[must_use = "the permit comes back at once if this is dropped"]
pub struct HomedPermit<'a> {
    of: &'a HomedSemaphore,
    permit: usize,
}

impl Drop for HomedPermit<'_> {
    fn drop(&mut self) {
        if !fork::is_forked() {
            let (words, _, me) = self.of.parts();
            give_permit_back(words, self.permit, me);
            failpoint!("hybrid-permit-back");
        }
    }
}
