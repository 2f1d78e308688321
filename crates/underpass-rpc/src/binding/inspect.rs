//! What a process shows of its exports: an ordinary interface, which each name has beside its own.
//!
//! A name can have several services, and each client gets the one whose version it knows. A tool
//! that imports [`Inspect`] under the name of an interface gets this service, and everybody else
//! gets the interface. It needs no name of its own: every client that may import a name may ask for
//! it, and the directory of names says whom to ask. While nobody asks, it is an entry in a list
//! that is read at imports.
//!
//! Everything that it tells is gathered when it is asked for: nothing is counted for it.

mod described;
mod inspector;
mod trace;
mod views;

pub(crate) use inspector::Inspection;
pub use views::{
    BindingView, DomainView, ExportView, FieldsView, HealthView, InspectError, InterfaceView, MethodView,
    StructureView, TraceView, TracedCall, TypeView, VariantView, VersionView,
};

use crate::metrics::InterfaceMetrics;

/// The paths that generated code uses: those of the facade, which knows this crate.
pub(crate) mod generated {
    pub(crate) mod __private {
        pub(crate) use crate::{
            Abandon, AllLeased, CallError, CarriedError, Counters, DetachedCall, Dispatch, Exclusive,
            FromCallError, ImportError, IncomingCall, Policy, ProcedureCall, Refused, ResultOf, Service,
            ShareError, Stub, remote::RemoteTransport,
        };
        pub(crate) use underpass_wire as wire;
    }
}

/// What a process shows of a name that it exports. Every export has this interface beside its own,
/// unless [`Server::inspectable`](crate::Server::inspectable) says otherwise.
///
/// # Examples
/// ```
/// use underpass::inspect::{Inspect, InspectClient};
/// use underpass::{CallError, Server};
///
/// #[underpass::interface]
/// trait Greeter {
///     /// Greets `whom`.
///     fn greet(&self, whom: &str) -> Result<String, CallError>;
/// }
///
/// # struct Polite;
/// # impl Greeter for Polite {
/// #     fn greet(&self, whom: &str) -> Result<String, CallError> {
/// #         Ok(format!("Good day, {whom}."))
/// #     }
/// # }
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-inspect-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// let running = Server::new().export("greeter", Greeter::serve(Polite)).start()?;
///
/// // Another process, which does not have the trait:
/// let inspect = InspectClient::import("greeter")?;
/// assert_eq!(inspect.export()?.mode, 0o600);
/// let greeter = &inspect.interfaces()?[0];
/// assert_eq!(greeter.methods[0].doc, "Greets `whom`.");
/// assert_eq!(greeter.methods[0].arguments, [("whom".to_owned(), "String".to_owned())]);
/// # drop(running);
/// # std::fs::remove_dir(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[underpass_macros::interface(crate = crate::binding::inspect::generated, stateless)]
pub trait Inspect {
    /// The name through which it is asked, and the process that exports it.
    ///
    /// # Errors
    /// [`InspectError::Call`]: the call failed.
    fn export(&self) -> Result<ExportView, InspectError>;

    /// The interfaces that the name has, without this one.
    ///
    /// # Errors
    /// [`InspectError::Call`]: the call failed.
    fn interfaces(&self) -> Result<Vec<InterfaceView>, InspectError>;

    /// The bindings that clients have of the name, the oldest first, without those of this
    /// interface. For the process's own user and root alone.
    ///
    /// # Errors
    /// [`InspectError::OtherUser`], or the call failed.
    fn bindings(&self) -> Result<Vec<BindingView>, InspectError>;

    /// What the process has done so far. For its own user and root alone.
    ///
    /// # Errors
    /// [`InspectError::OtherUser`], or the call failed.
    fn domain(&self) -> Result<DomainView, InspectError>;

    /// Revokes a binding of the name, by its number. Returns whether there was one. For the
    /// process's own user and root alone, if the export allows it
    /// ([`Service::revocable`](crate::Service::revocable)).
    ///
    /// # Errors
    /// [`InspectError::OtherUser`], [`InspectError::NotRevocable`], or the call failed.
    fn revoke(&self, binding: u64) -> Result<bool, InspectError>;

    /// The calls that were recorded, from number `since` on. Calls are recorded for 3 s after each
    /// request. For the process's own user and root alone, if the export allows it
    /// ([`Service::traceable`](crate::Service::traceable)).
    ///
    /// # Errors
    /// [`InspectError::OtherUser`], [`InspectError::NotTraceable`], or the call failed.
    fn trace(&self, since: u64) -> Result<TraceView, InspectError>;

    /// What the measured exports and imports of the process have done so far, method by method
    /// ([`metrics`](crate::metrics)). For its own user and root alone.
    ///
    /// # Errors
    /// [`InspectError::OtherUser`], or the call failed.
    #[underpass(since = 2)]
    fn metrics(&self) -> Result<Vec<InterfaceMetrics>, InspectError>;

    /// Whether the server serves, as it says ([`Server::health`](crate::Server::health)). A server
    /// that can't take calls does not answer.
    ///
    /// # Errors
    /// [`InspectError::Call`]: the call failed. It is `Unsupported` if the server was built before
    /// there was this method.
    #[underpass(since = 2)]
    fn health(&self) -> Result<HealthView, InspectError>;
}
