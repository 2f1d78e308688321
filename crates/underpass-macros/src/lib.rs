//! The procedural macros of Underpass: a thin shell over `underpass-idl`.
//!
//! *Decides:* nothing. *Must not know:* anything. *Read first:* `underpass-idl`.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;

/// Makes an interface of a trait: its implementation may live in another process.
///
/// # What it generates
/// For a trait `FileCache`:
/// * `FileCacheClient`, the client stub, which implements `FileCache` by calling another process,
///   and has `import`, `import_within`, `import_resilient`, `import_resilient_with`,
///   `acknowledge_restart`, `with_deadline`, `abandonable`, `quarantine`, `urgent`,
///   `when_all_leased`, `counters` and `descriptor`. If the interface is exported by this very
///   process, its calls are direct. Each method `read` has a `read_async` beside it, for async
///   tasks under any executor. It is `Clone + Debug + Send + Sync`, and has the trait's
///   documentation.
/// * `FileCache::serve(implementation)`, a provided method that makes a service for
///   `Server::export`.
/// * The descriptor: procedures, types, sizes and a hash, by which the two processes find out at
///   import whether they speak of the same interface.
///
/// * With the option `asynchronous`, a trait `FileCacheAsync` of the same methods as `async fn`s,
///   for servers whose handlers are such: its `serve` takes the implementation and a closure that
///   starts a future on an executor.
///
/// # What the trait must be
/// * Each method takes `&self` and returns `Result<T, E>` with `E: From<CallError>`, since every
///   call can fail. `E` may be `CallError` itself. An alias of `Result` needs a name that ends in
///   `Result`.
/// * Arguments own what they hold, or are lent as a whole: `&str`, `&[T]`, `&Path` and `&T` are
///   sent as they are, and the server makes a `String`, a `Vec<T>`, a `PathBuf` or a `T` of them,
///   which it lends to the implementation.
/// * Types are the plain ones of the standard library, open files (`OwnedFd`, `File`), sealed
///   memory that travels without a copy (`underpass::Sealed`), those that derive
///   [`Wire`](macro@Wire), and, with the feature `serde`, those that are marked
///   `#[underpass(serde)]`: on an argument, or on a method for the `T` of its result.
/// * The trait is not generic, and its supertraits are at the most `Send`, `Sync`, `Debug` and
///   `'static`, which the stub has too. Methods may have bodies: an implementation in the server
///   may leave those out, while the stub always calls.
///
/// A method that may be executed twice without harm says so by `#[idempotent]`. A stub from
/// `import_resilient` then makes its call again though it may have been executed before the server
/// died. It does so only where the client's state has gone on.
///
/// # State
/// Servers give their clients ids, sessions and other names for what they keep, and to a server
/// that was restarted these mean nothing, or something else. So calls over a stub from
/// `import_resilient` fail with `CallError::Restarted` after that, unless the state has gone on
/// (`Service::state_id`) or the client has restored it (`import_resilient_with`).
/// `#[interface(stateless)]` says that no call depends on what a server has given before, so that
/// calls go to any server. As both sides rely on that it counts for the hash.
///
/// Whatever else is found is an error that says what to do.
///
/// # A-stacks
/// Arguments and results of more than 56 bytes lie in an *A-stack* of the binding's shared memory,
/// one for each call under way (LRPC, 5.2). Its size follows from the types where theirs is fixed:
/// what arguments and result take at the most. Whatever has no fixed size is given 32 KiB, an error
/// 512 bytes. Procedures share the A-stacks of their interface, which have the size of the largest.
/// What is larger goes out of band, at a higher price: some ten system calls. `#[underpass(astack =
/// BYTES)]` on a method says another size, of at most 4 MiB (4,194,304). The compiler works all of
/// this out: the stub's constants `ASTACK` and `SIZES` have it, so that who counts on a size can
/// say so, as `const _: () = assert!(AdderClient::ASTACK <= 4096);`.
///
/// `#[underpass(calls = N)]` on a method says how many of its calls are expected at once: 1 to 64,
/// five if nothing is said, or what `#[interface(calls = N)]` says for all of them. The interface
/// expects as many as the method that expects most, on each channel of a binding. What a caller
/// does when so many are under way it chooses itself, by the stub's `when_all_leased`: take one
/// more A-stack (which it does if nothing is said, up to 64), wait, or fail. A-stacks that were
/// never needed take no memory, and the one that was given back last is leased first.
///
/// `#[underpass(shared)]` on an argument of the type `underpass::Shared<'_>` says that the server
/// needs no protection from later changes of these bytes: its handler reads them where the client
/// wrote them, and they are copied once less. The client passes `Shared::from(&bytes)`. All other
/// arguments are copied for the server, which no client can change any more (LRPC, Table III: *AE*,
/// where a shared one takes *A*).
///
/// # Options
/// `#[interface(crate = path)]` says where the crate `underpass` is, if it is not `::underpass`;
/// `#[interface(calls = N)]`, how many calls of each method are expected at once.
/// `#[interface(asynchronous)]` asks for the trait of `async fn`s; `#[interface(stateless)]` says
/// that a client needs nothing that a server has given it before.
///
/// # Examples
/// ```standalone_crate
/// # extern crate self as underpass;
/// # pub use underpass_macros::{Wire, interface};
/// # #[allow(dead_code)]
/// # mod mock { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mock/mod.rs")); }
/// # pub use mock::{CallError, __private};
/// #[underpass::interface]
/// pub trait Adder {
///     /// Adds up.
///     fn sum(&self, numbers: &[u32]) -> Result<u32, underpass::CallError>;
/// }
///
/// struct Plain;
///
/// impl Adder for Plain {
///     fn sum(&self, numbers: &[u32]) -> Result<u32, underpass::CallError> {
///         Ok(numbers.iter().sum())
///     }
/// }
///
/// // Doesn't know where the implementation is.
/// fn use_it(adder: &impl Adder) -> Result<(), underpass::CallError> {
///     assert_eq!(adder.sum(&[1, 2, 3])?, 6);
///     Ok(())
/// }
///
/// # fn main() -> Result<(), underpass::CallError> {
/// use_it(&Plain)?;
/// # mock::export("adder", Adder::serve(Plain));
/// // Once a server exports `Adder::serve(Plain)` as "adder":
/// use_it(&AdderClient::import("adder").expect("exported"))?;
/// assert_eq!(AdderClient::descriptor().procedures[0].doc, "Adds up.");
/// # Ok(())
/// # }
/// ```
#[proc_macro_attribute]
pub fn interface(attributes: TokenStream, item: TokenStream) -> TokenStream {
    underpass_idl::interface(attributes.into(), item.into()).into()
}

/// Lets a struct or an enum travel: derives `Encode`, `Decode` and `Schema`.
///
/// Every field's type has to travel too; a field marked `#[underpass(serde)]` does so by serde's
/// traits (feature `serde`). A generic type travels if its parameters do. What the type holds is
/// bound by nothing but its fields, so a type whose values obey a rule checks it where it is used,
/// or implements `Decode` by hand.
///
/// `#[underpass(crate = path)]` on the type says where the crate `underpass` is, if it is not
/// `::underpass`.
///
/// # Examples
/// ```standalone_crate
/// # extern crate self as underpass;
/// # pub use underpass_macros::{Wire, interface};
/// # #[allow(dead_code)]
/// # mod mock { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mock/mod.rs")); }
/// # pub use mock::{CallError, __private};
/// #[derive(Debug, PartialEq, underpass::Wire)]
/// pub struct Stat {
///     pub size: u64,
///     pub owner: Option<String>,
/// }
///
/// #[derive(Debug, PartialEq, underpass::Wire)]
/// pub enum FsError {
///     Call(underpass::CallError),
///     NotFound { path: String },
///     Stale,
/// }
///
/// # fn main() {
/// # use underpass_wire::{Encode, from_bytes, to_bytes};
/// # let stat = Stat { size: 7, owner: None };
/// # assert_eq!(to_bytes(&stat), [7, 0, 0, 0, 0, 0, 0, 0, 0]);
/// # assert_eq!(from_bytes(&to_bytes(&stat)), Ok(stat));
/// # assert_eq!(from_bytes(&[2]), Ok(FsError::Stale));
/// # }
/// ```
#[proc_macro_derive(Wire, attributes(underpass))]
pub fn wire(item: TokenStream) -> TokenStream {
    underpass_idl::derive_wire(item.into()).into()
}
