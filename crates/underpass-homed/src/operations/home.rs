//! The home of an object whose operations say how they run.

use crate::errors::PublishError;
use crate::home::ObjectHome;
use crate::invoke::{InvocationHandlers, InvocationHome, InvocationMask, InvocationServices};
use std::fmt;
use std::io;
use std::sync::Arc;
use underpass_rpc::{CallError, Grant, Peer, Server, Service};
use underpass_shared::Shareable;

/// What `#[underpass::object]` implements for a representation.
pub trait HomeOperations: Shareable {
    /// The `either` operations: their names, and the way that their attributes fix.
    const EITHER: &'static [(&'static str, Option<crate::ChosenWay>)];
    /// Whether there are operations at interrupt level.
    const INTERRUPTS: bool;

    /// The service of operations at process level.
    fn calls(home: OperatedHome<Self>) -> Service;

    /// The handlers of operations at interrupt level.
    fn handlers(object: &ObjectHome<Self>, handlers: InvocationHandlers) -> InvocationHandlers;
}

/// The operation at interrupt level by which a requester learns the home's generation.
pub(crate) const GENERATION: u64 = 0;

/// The names of the services of the object `name`.
pub(crate) fn calls_of(name: &str) -> String {
    format!("{name}+calls")
}

pub(crate) fn interrupts_of(name: &str) -> String {
    format!("{name}+urgent")
}

/// The home of an object with operations. `#[underpass::object]` on `impl Book` generates
/// `BookHome`, which is an `OperatedHome<Book>`. Clones are the same home.
///
/// It ends with its last clone, once its services are served no longer. A client in the home's own
/// domain keeps it alive as well.
///
/// # Examples
/// See the attribute `underpass::object`.
pub struct OperatedHome<T: HomeOperations> {
    object: ObjectHome<T>,
    interrupts: Option<Arc<InvocationHome>>,
}

impl<T: HomeOperations> OperatedHome<T> {
    /// Makes an object whose version 1 is `initial`, and the services by which others have it.
    ///
    /// # Errors
    /// As of [`ObjectHome::new`].
    pub fn new(initial: T) -> io::Result<(ObjectServices, Self)> {
        let (service, object) = ObjectHome::new(initial)?;
        let (interrupts, home) = if T::INTERRUPTS {
            let generation = object.generation();
            let handlers = InvocationHandlers::new().on(GENERATION, move |_| [generation, 0, 0, 0, 0, 0]);
            let (services, home) = T::handlers(&object, handlers).start();
            (Some(services), Some(Arc::new(home)))
        } else {
            (None, None)
        };
        let home = Self { object, interrupts: home };
        let calls = T::calls(home.clone());
        Ok((ObjectServices { object: service, calls, interrupts }, home))
    }

    /// Begins a critical section in which no operation runs at interrupt level. See
    /// [`InvocationHome::mask`]. `None` if the object has no such operations.
    pub fn mask(&self) -> Option<InvocationMask<'_>> {
        self.interrupts.as_deref().map(InvocationHome::mask)
    }

    /// Publishes what `change` makes of the newest version, and returns its number, as
    /// [`ObjectHome::update`] does. No operation runs at interrupt level meanwhile.
    ///
    /// # Errors
    /// [`PublishError`], with its remedy.
    pub fn update(&self, change: impl FnOnce(&mut T)) -> Result<u64, PublishError> {
        // Before the lock, which handlers take.
        let _section = self.mask();
        self.object.update(change)
    }

    /// The newest version, and its number.
    ///
    /// # Errors
    /// [`PublishError`], with its remedy.
    pub fn newest_version(&self) -> Result<(T, u64), PublishError> {
        let _section = self.mask();
        self.object.newest_version()
    }

    /// See [`ObjectHome::generation`].
    pub fn generation(&self) -> u64 {
        self.object.generation()
    }

    /// How many operations have run at interrupt level.
    pub fn interrupts(&self) -> u64 {
        self.interrupts.as_ref().map_or(0, |home| home.handled())
    }

    /// Runs an operation that changes the object.
    #[doc(hidden)]
    pub fn change<R>(&self, operation: impl FnOnce(&mut T) -> R) -> Result<R, CallError> {
        let mut result = None;
        self.update(|object| result = Some(operation(object))).map_err(refused)?;
        Ok(result.expect("`update` has run it"))
    }

    /// Runs an operation that reads the object.
    #[doc(hidden)]
    pub fn read<R>(&self, operation: impl FnOnce(&T) -> R) -> Result<R, CallError> {
        // It ends before the operation begins. Handlers take the object's lock.
        let section = self.mask();
        self.object
            .with_newest(|object| {
                drop(section);
                operation(object)
            })
            .map_err(refused)
    }
}

fn refused(why: PublishError) -> CallError {
    match why {
        PublishError::Forked => CallError::Forked,
    }
}

impl<T: HomeOperations> Clone for OperatedHome<T> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), interrupts: self.interrupts.clone() }
    }
}

impl<T: HomeOperations> fmt::Debug for OperatedHome<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatedHome").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

/// What the home of an object exports: the object, its operations, and those at interrupt level.
///
/// # Examples
/// See the attribute `underpass::object`.
#[must_use = "nobody has the object before its services are exported"]
#[derive(Debug)]
pub struct ObjectServices {
    object: Service,
    calls: Service,
    interrupts: Option<InvocationServices>,
}

impl ObjectServices {
    /// As [`Service::authorize`]. It is asked once for each service, so up to four times for each
    /// domain.
    pub fn authorize<G: Into<Grant>>(
        self,
        decide: impl Fn(&Peer) -> G + Clone + Send + Sync + 'static,
    ) -> Self {
        Self {
            object: self.object.authorize(decide.clone()),
            calls: self.calls.authorize(decide.clone()),
            interrupts: self.interrupts.map(|services| services.authorize(decide)),
        }
    }

    /// Exports them from `server` as `name`. There must be room in the name for 13 more bytes.
    pub fn export(self, server: Server, name: &str) -> Server {
        let server = match self.interrupts {
            Some(interrupts) => interrupts.export(server, &interrupts_of(name)),
            None => server,
        };
        server.export(calls_of(name), self.calls).export(name, self.object)
    }
}
