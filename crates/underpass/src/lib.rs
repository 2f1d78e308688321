//! Move a trait's implementation into another process, and keep calling it like a function.
//!
//! Underpass is user-level RPC (URPC, 1991) for Linux: a call travels through memory that two processes share and is
//! scheduled by user-level threads. The kernel is entered only to move a processor.
//!
//! An interface is a trait; its methods return `Result<T, E>` where `E: From<CallError>`:
//!
//! ```
//! use underpass::CallError;
//!
//! #[underpass::interface]
//! pub trait Greeter {
//!     /// Greets `whom`.
//!     fn greet(&self, whom: &str) -> Result<String, CallError>;
//! }
//!
//! struct Polite;
//!
//! impl Greeter for Polite {
//!     fn greet(&self, whom: &str) -> Result<String, CallError> {
//!         Ok(format!("Good day, {whom}."))
//!     }
//! }
//!
//! # let dir = std::env::temp_dir().join(format!("underpass-doc-{}", std::process::id()));
//! # // SAFETY: no other thread has been started yet.
//! # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
//! // The server's process:
//! let running = underpass::Server::new().export("greeter", Greeter::serve(Polite)).start()?;
//!
//! // The client's process; in this example the same, so that the call is direct:
//! let greeter = GreeterClient::import("greeter")?;
//! assert_eq!(greeter.greet("Ada")?, "Good day, Ada.");
//! # drop(running);
//! # std::fs::remove_dir(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * [`interface`] says what it generates; [`Wire`] derives what a type needs to travel.
//! * [`Server`] exports; the generated `…Client` imports, and is itself an implementation of the trait.
//! * A call blocks the calling thread and no other: a user-level one ([`thread::spawn`]) gives way to others, a kernel
//!   thread polls a little and then sleeps.
//! * [`CallError`] says what became of a call that failed, and what to do.

#![forbid(unsafe_code)]

pub use underpass_macros::{Wire, interface};
pub use underpass_rpc::{
    CallError, Counters, Error, ExportError, ImportError, Outcome, Running, Server, Service, counters,
};
pub use underpass_wire::Descriptor;
#[cfg(feature = "serde")]
pub use underpass_wire::Serde;

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// User-level threads, with the names and shapes of [`std::thread`].
pub mod thread {
    pub use underpass_threads::{
        Builder, JoinHandle, Thread, current, on_user_thread, sleep, spawn, yield_now,
    };
}

/// How many processors this domain uses.
pub mod processors {
    use underpass_processor::Pool;

    /// Has this domain use `count` activations, instead of one for each CPU that it may use.
    ///
    /// The same is done by `$UNDERPASS_PROCESSORS`. Returns whether it had an effect: it has none once a thread was spawned or an
    /// interface exported.
    ///
    /// # Examples
    /// ```
    /// assert!(underpass::processors::set(1));
    /// ```
    pub fn set(count: u32) -> bool {
        Pool::configure(count)
    }
}

/// For generated code; not for use by hand, and subject to change.
#[doc(hidden)]
pub mod __private {
    pub use underpass_rpc::{
        CallError, Counters, Dispatch, FromCallError, ImportError, Incoming, Refused, Service, Stub,
    };
    pub use underpass_wire as wire;
    pub use underpass_wire::{Decode, Descriptor, Encode, Schema};
}
