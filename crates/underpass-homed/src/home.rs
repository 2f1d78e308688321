//! The home of an object: the one domain that changes it.

use crate::calibration::CalibrationLines;
use crate::errors::PublishError;
use crate::layout::{GENERATION, LAYOUT, SHAPE, VERSION, lines_of, words_of};
use crate::open::{ObjectOpen, OpenObjectError, OpenedObject};
use crate::versions::{end, publish};
use crate::words::{HomeWords, Words};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use underpass_os::{clock, fork};
use underpass_rpc::{CallError, Service};
use underpass_seam::atomic::Ordering;
use underpass_shared::{Shareable, bytes_of, mix, shape_of};
use underpass_sync::{Mutex, MutexGuard, PoisonError};

/// On what a home and its readers must agree.
pub(crate) fn shape<T: Shareable>() -> u64 {
    mix(mix(mix(shape_of("object"), T::SHAPE), size_of::<T>() as u64), VERSION)
}

/// An object's home: the domain that changes it (Psyche, section 2). Clones are the same home.
///
/// * Other domains read the object where it lies, and can't write there. See
///   [`HomedObject`](crate::HomedObject).
/// * They ask for changes by ordinary calls. The handlers hold a clone of this: that is remote
///   invocation at process level (section 3.2).
/// * Each change is a *version*, with a number from 1 on. Readers see whole versions only.
/// * To publish a version enters no kernel and waits for no reader. It copies the whole object.
/// * The object ends with its last clone, or with its process. Its readers are told, and keep its
///   last version.
///
/// # Examples
/// ```
/// use underpass::homed::{HomedError, HomedObject, ObjectHome};
///
/// #[derive(Clone, Copy, Debug, PartialEq, underpass::Shareable)]
/// #[repr(C)]
/// struct Quote {
///     bid: u64,
///     ask: u64,
/// }
///
/// #[underpass::interface]
/// trait Desk {
///     fn bid(&self, price: u64) -> Result<(), underpass::CallError>;
/// }
///
/// struct AtHome(ObjectHome<Quote>);
///
/// impl Desk for AtHome {
///     fn bid(&self, price: u64) -> Result<(), underpass::CallError> {
///         let updated = self.0.update(|quote| quote.bid = quote.bid.max(price));
///         updated.map(drop).map_err(|_| underpass::CallError::Forked)
///     }
/// }
///
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-homed-home-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// // In the home's process:
/// let (service, home) = ObjectHome::new(Quote { bid: 99, ask: 103 })?;
/// let running = underpass::Server::new()
///     .export("quote", service)
///     .export("desk", Desk::serve(AtHome(home.clone())))
///     .start()?;
///
/// // In another process, or in several:
/// let quote = HomedObject::<Quote>::import("quote")?;
/// let desk = DeskClient::import("desk")?;
/// desk.bid(101)?;
/// let seen = quote.access()?;
/// assert_eq!((seen.value.bid, seen.number()), (101, 2));
///
/// // The home ends: the last version stays readable.
/// drop((desk, running, home));
/// let Err(HomedError::HomeDied(last)) = quote.access() else { panic!("it has ended") };
/// assert_eq!(last.value.bid, 101);
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ObjectHome<T: Shareable>(Arc<Kept<T>>);

/// | field | written by |
/// |---|---|
/// | `newest` | whichever thread of the home publishes, under its lock |
/// | `words` | the same thread, under the same lock; others read |
struct Kept<T: Shareable> {
    newest: Mutex<Newest<T>>,
    words: HomeWords,
    generation: u64,
}

/// The newest version.
struct Newest<T> {
    number: u64,
    value: T,
}

/// Gives the object to readers.
struct Opener {
    shape: u64,
    generation: u64,
    file: OwnedFd,
    calibration: CalibrationLines,
}

impl ObjectOpen for Opener {
    fn open(&self, shape: u64) -> Result<OpenedObject, OpenObjectError> {
        if shape != self.shape {
            return Err(OpenObjectError::OtherType);
        }
        let memory = self.file.try_clone().map_err(|_| OpenObjectError::NoResources)?;
        Ok(OpenedObject { generation: self.generation, ahead_ns: clock::ahead_ns(), memory })
    }

    fn calibration(&self) -> Result<OwnedFd, OpenObjectError> {
        self.calibration.file().map_err(|_| OpenObjectError::NoResources)
    }

    fn touch(&self, lines: u32) -> Result<(), CallError> {
        self.calibration.touch(lines);
        Ok(())
    }
}

impl<T: Shareable> ObjectHome<T> {
    /// Makes an object whose version 1 is `initial`. Export the service under the object's name: it
    /// has `authorize`, expiry and revocation as every [`Service`] has.
    ///
    /// A reader whose right is revoked keeps its mapping. [`access`](crate::HomedObject::access)
    /// refuses it, but a hostile reader can go on reading.
    ///
    /// # Errors
    /// There is no memory, too many files are open, or Linux is older than 5.1.
    pub fn new(initial: T) -> io::Result<(Service, Self)> {
        let (words, file) = HomeWords::publish(words_of(size_of::<T>()))?;
        // It grows from home to home on one machine, whatever time namespaces they are in.
        let generation = clock::now_ns().saturating_add_signed(clock::ahead_ns().saturating_neg());
        // Relaxed: nobody else has the memory yet.
        words.word(LAYOUT).store(VERSION, Ordering::Relaxed);
        words.word(SHAPE).store(shape::<T>(), Ordering::Relaxed);
        words.word(GENERATION).store(generation, Ordering::Relaxed);
        publish(&words, 1, clock::now_ns(), bytes_of(&initial));
        let newest = Mutex::new(Newest { number: 1, value: initial });
        let calibration = CalibrationLines::of(lines_of(size_of::<T>()));
        let service = ObjectOpen::serve(Opener { shape: shape::<T>(), generation, file, calibration });
        Ok((service, Self(Arc::new(Kept { newest, words, generation }))))
    }

    /// A panic between lock and unlock changes nothing: see [`update`](Self::update).
    fn newest(&self) -> Result<MutexGuard<'_, Newest<T>>, PublishError> {
        // Before the lock, which another thread of the parent's may have held.
        match fork::is_forked() {
            true => Err(PublishError::Forked),
            false => Ok(self.0.newest.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Publishes a version, and returns its number.
    ///
    /// # Errors
    /// [`PublishError`], with its remedy.
    pub fn publish(&self, value: T) -> Result<u64, PublishError> {
        self.update(|newest| *newest = value)
    }

    /// Publishes what `change` makes of the newest version, and returns its number. Other threads
    /// of the home wait meanwhile, and no reader does. If `change` panics, there is no new version.
    ///
    /// # Errors
    /// [`PublishError`], with its remedy.
    pub fn update(&self, change: impl FnOnce(&mut T)) -> Result<u64, PublishError> {
        let mut newest = self.newest()?;
        let mut value = newest.value;
        change(&mut value);
        let number = newest.number + 1;
        publish(&self.0.words, number, clock::now_ns(), bytes_of(&value));
        *newest = Newest { number, value };
        Ok(number)
    }

    /// The newest version, and its number.
    ///
    /// # Errors
    /// [`PublishError`], with its remedy.
    pub fn newest_version(&self) -> Result<(T, u64), PublishError> {
        self.newest().map(|newest| (newest.value, newest.number))
    }

    /// Lends a copy of the newest version. Nobody waits while `work` runs.
    pub(crate) fn with_newest<R>(&self, work: impl FnOnce(&T) -> R) -> Result<R, PublishError> {
        let value = self.newest()?.value;
        Ok(work(&value))
    }

    /// Differs from that of every earlier home, and is greater on the same machine.
    pub fn generation(&self) -> u64 {
        self.0.generation
    }
}

impl<T: Shareable> Clone for ObjectHome<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Shareable> fmt::Debug for ObjectHome<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectHome").field("generation", &self.0.generation).finish_non_exhaustive()
    }
}

impl<T: Shareable> Drop for Kept<T> {
    fn drop(&mut self) {
        // A forked child has no such memory.
        if !fork::is_forked() {
            end(&self.words);
        }
    }
}
