//! An object with operations, as other domains have it.

use crate::choice::{Chooser, ChosenWay, Explanation};
use crate::errors::{HomedError, ObjectImportError};
use crate::invoke::{HomeInvoker, InvokerConnectError};
use crate::object::{HomedObject, ObjectVersion};
use crate::operations::either::EitherPlan;
use crate::operations::errors::{ObjectBindError, OperationError};
use crate::operations::home::{GENERATION, HomeOperations, calls_of, interrupts_of};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass_os::clock::now_ns;
use underpass_port::ConnectError;
use underpass_rpc::{CallError, ImportError};
use underpass_threads::sleep;

/// How long the home may take to tell its generation.
const ANSWER: Duration = Duration::from_secs(10);
/// How long to wait before importing again what came from two homes.
const MOMENT: Duration = Duration::from_millis(10);
/// The bounds of the time for which an `either` operation waits for the home, and how many times as
/// long as that of a home that sleeps.
const LEAST_PATIENCE_NS: f64 = 1e6;
const MOST_PATIENCE_NS: f64 = 20e6;
const OF_ASLEEP: f64 = 8.0;

/// An object whose operations say how they run, as other domains have it. `#[underpass::object]` on
/// `impl Book` generates `BookClient`, which has one, and a method for each operation. Clones are
/// the same object.
///
/// # Examples
/// See the attribute `underpass::object`.
pub struct BoundObject<T: HomeOperations> {
    object: HomedObject<T>,
    choosers: Arc<[Chooser]>,
    fixed: Option<ChosenWay>,
    interrupts: Option<HomeInvoker>,
    within: Duration,
    patience: Duration,
}

/// Whether the home went during an import, so that the next one may be there.
fn has_gone(e: &ObjectBindError) -> bool {
    let ended = |e: &CallError| matches!(e, CallError::Closed(_) | CallError::PeerDied(_));
    match e {
        ObjectBindError::Replaced | ObjectBindError::Home(OperationError::HomeDied) => true,
        ObjectBindError::Object(ObjectImportError::Call(e))
        | ObjectBindError::Home(OperationError::Call(e))
        | ObjectBindError::Interrupts(
            InvokerConnectError::Call(e) | InvokerConnectError::Signals(ConnectError::Call(e)),
        ) => ended(e),
        _ => false,
    }
}

impl<T: HomeOperations> BoundObject<T> {
    /// Imports the object `name`, and a stub of its operations by `import`, both of one home.
    ///
    /// # Errors
    /// [`ObjectBindError`], each variant with its remedy.
    #[doc(hidden)]
    pub fn import<S>(
        name: &str,
        patience: Option<Duration>,
        import: impl Fn(&str) -> Result<S, ImportError>,
        generation_of: impl Fn(&S, Duration) -> Result<u64, CallError>,
    ) -> Result<(Self, S), ObjectBindError> {
        let wait_until = Instant::now() + patience.unwrap_or(ANSWER);
        loop {
            let found = Self::import_once(name, patience, &import, &generation_of);
            match found {
                // Another home has taken over, or is about to.
                Err(e) if has_gone(&e) && Instant::now() < wait_until => sleep(MOMENT),
                found => return found,
            }
        }
    }

    fn import_once<S>(
        name: &str,
        patience: Option<Duration>,
        import: impl Fn(&str) -> Result<S, ImportError>,
        generation_of: impl Fn(&S, Duration) -> Result<u64, CallError>,
    ) -> Result<(Self, S), ObjectBindError> {
        let object = match patience {
            Some(patience) => HomedObject::import_within(name, patience),
            None => HomedObject::import(name),
        };
        let object = object.map_err(ObjectBindError::Object)?;
        let stub = import(&calls_of(name)).map_err(ObjectBindError::Operations)?;
        let interrupts = T::INTERRUPTS.then(|| match patience {
            Some(patience) => HomeInvoker::connect_within(&interrupts_of(name), patience),
            None => HomeInvoker::connect(&interrupts_of(name)),
        });
        let interrupts = interrupts.transpose().map_err(ObjectBindError::Interrupts)?;
        let mut generations =
            vec![generation_of(&stub, ANSWER).map_err(|e| ObjectBindError::Home(e.into()))?];
        if let Some(invoker) = &interrupts {
            let told = invoker.invoke(GENERATION, [0; 6], ANSWER);
            generations.push(told.map_err(|e| ObjectBindError::Home(e.into()))?[0]);
        }
        match generations.iter().all(|generation| *generation == object.generation()) {
            true => Ok((Self::bound(object, interrupts), stub)),
            // Another home has taken over some of the names already.
            false => Err(ObjectBindError::Replaced),
        }
    }

    fn bound(object: HomedObject<T>, interrupts: Option<HomeInvoker>) -> Self {
        let mut patience = Duration::from_nanos(LEAST_PATIENCE_NS as u64);
        let mut choosers = Vec::new();
        if !T::EITHER.is_empty() {
            let is_here = object.opener().is_here();
            let figures = object.calibrate();
            let asleep = figures.invocations[2].ns * OF_ASLEEP;
            patience = Duration::from_nanos(asleep.clamp(LEAST_PATIENCE_NS, MOST_PATIENCE_NS) as u64);
            let now = now_ns();
            choosers.extend(T::EITHER.iter().map(|(name, by_attribute)| {
                // In the home's own domain there is nothing to choose.
                let by_attribute = by_attribute.or(is_here.then_some(ChosenWay::Access));
                Chooser::new(name, by_attribute, figures, now)
            }));
        }
        let (choosers, fixed, within) = (choosers.into(), None, Duration::MAX);
        Self { object, choosers, fixed, interrupts, within, patience }
    }

    /// The object itself.
    pub fn object(&self) -> &HomedObject<T> {
        &self.object
    }

    /// Copies the newest version: see [`HomedObject::access`].
    ///
    /// # Errors
    /// [`HomedError`], each variant with its remedy.
    #[inline]
    pub fn access(&self) -> Result<ObjectVersion<T>, HomedError<T>> {
        self.object.access()
    }

    /// As [`access`](Self::access), but lends the value: see [`HomedObject::access_with`].
    ///
    /// # Errors
    /// As [`access`](Self::access).
    #[inline]
    pub fn access_with<R>(&self, work: impl FnOnce(&T) -> R) -> Result<R, HomedError<T>> {
        self.object.access_with(work)
    }

    /// Whether the home has died or has ended the object.
    pub fn is_over(&self) -> bool {
        self.object.is_over()
    }

    /// How long to wait for the home, if an `either` operation can run here as well.
    #[doc(hidden)]
    pub fn patience(&self) -> Duration {
        self.patience.min(self.within)
    }

    /// The same object. Its operations at interrupt level end after `within`.
    #[must_use]
    pub fn with_deadline(&self, within: Duration) -> Self {
        Self { within, ..self.clone() }
    }

    /// The same object. Its `either` operations run as `way` says, and by cost if it is `None`. An
    /// operation that is fixed to `Invoke` waits for the home, as one marked `#[invoke]` does.
    #[must_use]
    pub fn fixed(&self, way: Option<ChosenWay>) -> Self {
        Self { fixed: way, ..self.clone() }
    }

    /// The way that [`fixed`](Self::fixed) has set.
    #[doc(hidden)]
    pub fn is_fixed(&self) -> Option<ChosenWay> {
        self.fixed
    }

    /// What [`with_deadline`](Self::with_deadline) has set.
    #[doc(hidden)]
    pub fn deadline(&self) -> Option<Duration> {
        (self.within != Duration::MAX).then_some(self.within)
    }

    /// How each `either` operation runs at present, why, and by which figures.
    pub fn explain(&self) -> Vec<Explanation> {
        let (asleep, now) = (self.object.opener().home_sleeps(), now_ns());
        self.choosers.iter().map(|chooser| chooser.explain(self.fixed, asleep, now)).collect()
    }

    /// How the `either` operation number `index` runs now.
    #[doc(hidden)]
    #[inline]
    pub fn plan(&self, index: usize) -> EitherPlan<'_, T> {
        let opener = self.object.opener();
        let (asleep, is_stopped) = (|| opener.home_sleeps(), || opener.home_is_stopped());
        let plan = self.choosers[index].plan(self.fixed, asleep, now_ns, is_stopped);
        EitherPlan::new(plan, &self.object, self.patience)
    }

    /// Runs an operation here, on a copy of the newest version.
    ///
    /// # Errors
    /// As [`HomedObject::access`].
    #[doc(hidden)]
    #[inline]
    pub fn read<R>(&self, operation: impl FnOnce(&T) -> R) -> Result<R, OperationError> {
        Ok(self.object.access_with(operation)?)
    }

    /// Has the home execute an operation at interrupt level.
    ///
    /// # Errors
    /// [`OperationError`], each variant with its remedy.
    #[doc(hidden)]
    pub fn interrupt(&self, operation: u64, arguments: [u64; 6]) -> Result<[u64; 6], OperationError> {
        let invoker = self.interrupts.as_ref().expect("an object with such operations has one");
        Ok(invoker.invoke(operation, arguments, self.within)?)
    }
}

impl<T: HomeOperations> Clone for BoundObject<T> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            choosers: self.choosers.clone(),
            fixed: self.fixed,
            interrupts: self.interrupts.clone(),
            within: self.within,
            patience: self.patience,
        }
    }
}

impl<T: HomeOperations> fmt::Debug for BoundObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundObject")
            .field("object", &self.object)
            .field("fixed", &self.fixed)
            .finish_non_exhaustive()
    }
}
