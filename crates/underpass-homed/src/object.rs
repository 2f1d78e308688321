//! An object, as its readers have it.

use crate::calibration;
use crate::choice::CostFigures;
use crate::errors::{HomedError, ObjectImportError};
use crate::home::shape;
use crate::layout::{lines_of, words_of};
use crate::open::{ObjectOpen, ObjectOpenClient, OpenObjectError};
use crate::versions::{Stamped, copy_once, has_ended};
use crate::words::ReaderWords;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use underpass_os::{clock, fork};
use underpass_seam::spin_hint;
use underpass_shared::{Shareable, with_value_from};

/// How long to wait for a stopped home's answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to copy before the home is said to be too fast. An honest home needs as long to
/// publish a version as a reader needs to copy it, and the memory holds several.
const COPIES: usize = 128;

/// An object whose home is another domain, or this one: remote access (Psyche, section 2). Clones
/// are the same object.
///
/// [`access`](Self::access) copies its newest version out of memory that the home alone can write.
/// It enters no kernel and waits for nobody. So it works as well while the home is busy, asleep or
/// stopped. It costs one cache line beside those of the object.
///
/// A home can spoil its object, and nothing else: what is read is checked to be a value of `T`.
///
/// # Examples
/// See [`ObjectHome`](crate::ObjectHome).
pub struct HomedObject<T: Shareable> {
    name: Arc<str>,
    opened: Arc<Opened>,
    value: PhantomData<fn() -> T>,
}

/// The home has overwritten a version while it was copied.
struct Torn;

struct Opened {
    words: ReaderWords,
    /// The right to the object. It ends with the home.
    stub: ObjectOpenClient,
    generation: u64,
    /// How far this domain's clock is ahead of the home's, in ns. The home's part of it is
    /// untrusted: a wrong value makes its own versions look older or younger.
    ahead_ns: i64,
}

/// A version of an object, as it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectVersion<T> {
    /// The value.
    pub value: T,
    number: u64,
    generation: u64,
    /// In ns of this domain's clock.
    published_ns: u64,
}

impl<T> ObjectVersion<T> {
    /// Its number: 1 for the first one of each home.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Which home has published it: see [`ObjectHome::generation`](crate::ObjectHome::generation).
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How long ago the home has published it. It may still be the newest one: if the home is
    /// stopped, or has nothing to change, its newest version grows old.
    ///
    /// It is as true as the home: a hostile one can tell any age.
    pub fn age(&self) -> Duration {
        Duration::from_nanos(clock::now_ns().saturating_sub(self.published_ns))
    }
}

impl<T> Deref for ObjectVersion<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl Opened {
    fn of<T: Shareable>(stub: ObjectOpenClient) -> Result<Self, ObjectImportError> {
        let opened = stub.with_deadline(PATIENCE).open(shape::<T>()).map_err(|e| match e {
            OpenObjectError::Call(e) => ObjectImportError::Call(e),
            OpenObjectError::OtherType => ObjectImportError::OtherType,
            OpenObjectError::NoResources => ObjectImportError::NoResources,
        })?;
        let words = words_of(size_of::<T>());
        let words = ReaderWords::adopt(opened.memory.as_fd(), words).map_err(ObjectImportError::Memory)?;
        let ahead_ns = clock::ahead_ns().saturating_sub(opened.ahead_ns);
        Ok(Self { words, stub, generation: opened.generation, ahead_ns })
    }

    /// Whether no version follows.
    #[inline]
    fn is_over(&self) -> bool {
        self.stub.has_ended() || has_ended(&self.words)
    }
}

impl<T: Shareable> HomedObject<T> {
    /// Imports the object `name`.
    ///
    /// # Errors
    /// [`ObjectImportError`], each variant with its remedy.
    pub fn import(name: &str) -> Result<Self, ObjectImportError> {
        let stub = ObjectOpenClient::import(name).map_err(ObjectImportError::Import)?;
        Ok(Self { name: name.into(), opened: Arc::new(Opened::of::<T>(stub)?), value: PhantomData })
    }

    /// As [`import`](Self::import), but waits up to `patience` for the home.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    pub fn import_within(name: &str, patience: Duration) -> Result<Self, ObjectImportError> {
        let stub = ObjectOpenClient::import_within(name, patience).map_err(ObjectImportError::Import)?;
        Ok(Self { name: name.into(), opened: Arc::new(Opened::of::<T>(stub)?), value: PhantomData })
    }

    /// Imports the object again if its home has died, and waits up to `patience` for a new home.
    /// Versions then have a new [`generation`](Self::generation), and numbers from 1 on. Other
    /// clones keep the object that they have. If it fails, so does this one.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    pub fn renew_within(&mut self, patience: Duration) -> Result<(), ObjectImportError> {
        if self.opened.is_over() {
            *self = Self::import_within(&self.name, patience)?;
        }
        Ok(())
    }

    /// Copies the newest version.
    ///
    /// If this domain has called the home, it sees what the home published before it replied.
    ///
    /// # Errors
    /// [`HomedError`], each variant with its remedy. [`HomeDied`](HomedError::HomeDied) has the
    /// last version.
    #[inline]
    pub fn access(&self) -> Result<ObjectVersion<T>, HomedError<T>> {
        self.copied(|value, stamped| self.version(value, stamped))
    }

    /// As [`access`](Self::access), but lends the version's value in place of returning it. A large
    /// object is copied once then.
    ///
    /// # Errors
    /// As [`access`](Self::access).
    #[inline]
    pub fn access_with<R>(&self, work: impl FnOnce(&T) -> R) -> Result<R, HomedError<T>> {
        self.copied(|value, _| work(value))
    }

    #[inline]
    fn copied<R>(&self, work: impl FnOnce(&T, Stamped) -> R) -> Result<R, HomedError<T>> {
        if fork::is_forked() {
            return Err(HomedError::Forked);
        }
        // Before the copy: the version that is found then is the last one.
        let is_over = self.opened.is_over();
        let mut work = Some(work);
        let stamped = Cell::new(Stamped { version: 0, published_ns: 0 });
        for _ in 0..COPIES {
            let worked = with_value_from(
                |place| {
                    let (of, bytes) = copy_once(&self.opened.words, place).ok_or(Torn)?;
                    stamped.set(of);
                    Ok(bytes)
                },
                |value| {
                    if is_over || self.opened.words.is_damaged() {
                        return Err(self.spoiled(value, stamped.get()));
                    }
                    let work = work.take().expect("one copy is whole");
                    Ok(work(value, stamped.get()))
                },
            );
            match worked {
                Ok(Some(done)) => return done,
                Ok(None) if self.opened.words.is_damaged() => return Err(HomedError::NoMemory),
                Ok(None) => return Err(HomedError::Invalid),
                Err(Torn) => spin_hint(),
            }
        }
        Err(HomedError::Overtaken)
    }

    fn version(&self, value: &T, stamped: Stamped) -> ObjectVersion<T> {
        ObjectVersion {
            value: *value,
            number: stamped.version,
            generation: self.opened.generation,
            published_ns: stamped.published_ns.saturating_add_signed(self.opened.ahead_ns),
        }
    }

    /// Why the value is no present version.
    #[cold]
    fn spoiled(&self, value: &T, stamped: Stamped) -> HomedError<T> {
        match () {
            () if self.opened.words.is_damaged() => HomedError::NoMemory,
            () if self.opened.stub.is_revoked() => HomedError::Revoked,
            () => HomedError::HomeDied(Box::new(self.version(value, stamped))),
        }
    }

    /// What its lines and its home's answers take, as measured now.
    pub(crate) fn calibrate(&self) -> CostFigures {
        calibration::measure(&self.opened.stub, lines_of(size_of::<T>()))
    }

    /// The right to the object.
    #[inline]
    pub(crate) fn opener(&self) -> &ObjectOpenClient {
        &self.opened.stub
    }

    /// Whether no version follows.
    pub(crate) fn is_over(&self) -> bool {
        self.opened.is_over()
    }

    /// Which home this object has: see [`ObjectHome::generation`](crate::ObjectHome::generation).
    pub fn generation(&self) -> u64 {
        self.opened.generation
    }
}

impl<T: Shareable> Clone for HomedObject<T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), opened: self.opened.clone(), value: PhantomData }
    }
}

impl<T: Shareable> fmt::Debug for HomedObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HomedObject")
            .field("name", &self.name)
            .field("generation", &self.opened.generation)
            .finish_non_exhaustive()
    }
}
