//! The procedural macros of Underpass: a thin wrapper of `underpass-idl`.
//!
//! *Decides:* nothing. *Must not know:* anything. *Read first:* `underpass-idl`.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;

/// Makes a trait an RPC interface: its implementation may run in another process.
///
/// # What it generates
/// For a trait `FileCache`:
/// * `FileCacheClient`, the client stub. It implements `FileCache` by calling another process. If
///   this process itself exports the interface, the stub's calls are direct. Each method `read` has
///   a `read_async` beside it, for async tasks under any executor. The stub has the trait's
///   documentation, and is `Clone + Debug + Send + Sync`.
/// * The stub's own methods. Some make a stub: `import`, `import_within`, `import_apart`,
///   `import_by`, `import_from`, `import_resilient`, `import_resilient_with`; and, of an
///   implementation in this process, `new`, `of_service` and `of_handlers` (with the option
///   `asynchronous`). Others set the terms of calls: `with_deadline`, `abandonable`, `urgent`,
///   `when_all_leased`, `quarantine`, `measured`. The others concern the binding: `share_with`,
///   `acknowledge_restart`, `counters`, `descriptor`. There are the constants `ASTACK` and `SIZES`.
/// * `FileCache::serve(implementation)`, a provided method that makes a service for
///   `Server::export`. `serve_exclusive` and `serve_sequential` do so for an implementation that is
///   not `Sync`: one thread at a time runs it.
/// * The descriptor: procedures, types, sizes and a hash for each version. By the hashes the two
///   processes check at import that both mean the same interface.
/// * With the option `asynchronous`, a trait `FileCacheAsync` with the same methods as `async fn`s,
///   for servers whose handlers are async. Its `serve` takes the implementation and a closure that
///   starts a future on an executor.
///
/// # What the trait must be
/// * Each method takes `&self` and returns `Result<T, E>` with `E: From<CallError>`, because every
///   call can fail. `E` may be `CallError` itself. An alias of `Result` needs a name that ends in
///   `Result`.
/// * Arguments are owned, or borrowed as a whole: `&str`, `&[T]`, `&Path` and `&T`. The server
///   makes a `String`, a `Vec<T>`, a `PathBuf` or a `T` of a borrowed argument, and lends it to the
///   implementation.
/// * Types are the plain types of the standard library, open files (`OwnedFd`, `File`), sealed
///   memory that is passed without a copy (`underpass::Sealed`), and types that derive
///   [`Wire`](macro@Wire). With the feature `serde` any type of serde is allowed if it is marked
///   `#[underpass(serde)]`: on an argument, or on a method for the `T` of its result.
/// * The trait is not generic. Its supertraits can be `Send`, `Sync`, `Debug` and `'static`, which
///   the stub implements too. Methods may have bodies. An implementation in the server may leave
///   out methods with bodies, and the stub always calls the server.
///
/// Any other trait is a compiler error that says what to write instead.
///
/// Mark a method `#[idempotent]` if executing it twice does no harm. A stub from `import_resilient`
/// then repeats the method's call even if the call may have been executed before the server died.
/// It does so only if the client's state has gone on.
///
/// # State
/// Servers give their clients ids, sessions and other names for what they keep. To a server that
/// was restarted these mean nothing, or something else. So after a restart the calls of a stub from
/// `import_resilient` fail with `CallError::Restarted`. They do not fail if the state has gone on
/// (`Service::state_id`) or the client has restored it (`import_resilient_with`).
///
/// `#[interface(stateless)]` says that no call depends on what a server has given before, so that
/// calls may go to any server. Both sides rely on that, so it is a part of the hash.
///
/// # Versions
/// `#[underpass(since = N)]` on a method says that it was added in version N of the interface, from
/// 2 to 64. Such methods come last. Fields of extensible structs can be added in the same way (see
/// [`Wire`](macro@Wire)). Programs with an older and a newer version understand each other, as long
/// as the newer one has only added something. A method that the server lacks returns
/// `CallError::Unsupported`. The interface has its versions in common with its structs, so use one
/// numbering for both.
///
/// # A-stacks
/// Up to 48 bytes of arguments and 56 of a result travel in the cache line of the message. More lie
/// in an *A-stack* of the connection's shared memory, one for each call under way (LRPC, 5.2). If
/// the types have a fixed size, the interface wants an A-stack of the size of its largest arguments
/// and result. A type without a fixed size wants 32 KiB, and an error 512 bytes. The A-stacks of a
/// connection have 32 KiB, or what its first interface wants, if that is more.
///
/// Still larger arguments and results go out of band, into an *overflow buffer* of up to 64 MiB
/// that both sides keep for the next ones. To make one takes 12 system calls on both sides
/// together, and a message over the socket. To use it again takes none. Beyond 64 MiB there is a
/// file for each call.
///
/// `#[underpass(astack = BYTES)]` on a method sets another size, of at most 4 MiB (4,194,304). The
/// compiler computes all of this: the stub's constants `ASTACK` and `SIZES` contain it. To rely on
/// a size, write `const _: () = assert!(AdderClient::ASTACK <= 4096);`.
///
/// `#[underpass(calls = N)]` on a method says how many of its calls are expected at once: 1 to 64.
/// The default is five, or what `#[interface(calls = N)]` sets for all methods. The interface
/// expects as many as the method that expects most, on each channel of a connection. If that many
/// are under way, the stub's `when_all_leased` decides: take one more A-stack (the default, up to
/// 64), wait, or fail. An A-stack that was never needed takes no memory, and the A-stack that was
/// given back last is leased first.
///
/// `#[underpass(shared)]` on an argument of the type `underpass::Shared<'_>` says that the server
/// needs no protection from later changes of these bytes. Its handler reads them where the client
/// wrote them, which saves one copy. The client passes `Shared::from(&bytes)`. All other arguments
/// are copied for the server, and no client can change the copy (LRPC, Table III: *AE*, where a
/// shared one takes *A*).
///
/// # Options
/// * `#[interface(crate = path)]`: the path of the crate `underpass`, if it is not `::underpass`.
/// * `#[interface(calls = N)]`: how many calls of each method are expected at once.
/// * `#[interface(asynchronous)]`: also makes the trait of `async fn`s.
/// * `#[interface(stateless)]`: a client needs nothing that a server has given it before.
///
/// # Examples
/// ```standalone_crate
/// # extern crate self as underpass;
/// # pub use underpass_macros::{Wire, interface};
/// # #[allow(dead_code)]
/// # mod mock { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mock.rs")); }
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

/// Makes a type in shared memory an object with a home: the operations in its `impl` say how they
/// run (Psyche, section 2).
///
/// The type derives [`Shareable`](macro@Shareable), and is the object's representation: its home
/// publishes it, and other domains read it where it lies. Each method is an operation, and has one
/// of these attributes:
///
/// | attribute | `self` | runs |
/// |---|---|---|
/// | `#[access]` | `&self` | in the caller, on a copy of the newest version. It enters no kernel, and waits for nobody |
/// | `#[invoke]` | either | at home, by a call: process level. It may block. Other operations that change the object wait for one that does |
/// | `#[invoke(interrupt)]` | either | at home, between two of its threads: interrupt level. It may not block. Arguments and results take 48 bytes each, and derive `Shareable` |
/// | `#[either]` | `&self` | as `#[access]` or as `#[invoke]`, whichever is cheaper at the moment. Owned arguments are `Clone` |
///
/// An operation that changes the object takes `&mut self`. So it runs at home, and readers see the
/// object before it or after it. A panic in it changes nothing. Arguments and results of
/// operations that may run at home travel as those of an [`interface`](macro@interface) do.
///
/// # What it generates
/// For `impl Book`:
/// * `BookHome`, the home: `BookHome::new(initial)` gives it with its services, to be exported.
/// * `BookClient`, for all domains: it has `import`, `import_within`, `renew_within`, `access`,
///   `object`, `is_over`, `fixed`, `with_deadline`, `explain`, and each operation. An operation
///   returns its result in a `Result` with `OperationError`, as it may not be executed.
///
/// The methods of `Book` itself stay as they are written. Both are as visible as the most visible
/// operation.
///
/// # The choice
/// An `#[either]` operation compares (R − 1) n with C: what the object's n cache lines take more
/// because they are in the cache of the home's processor, and what an invocation takes. Both are
/// measured when the object is imported, and watched afterwards in at most 1 % of the operation's
/// time. C depends on whether the home polls, is busy, sleeps or is stopped. `explain` tells the
/// figures and the choice. `#[either(fixed = access)]`, `#[either(fixed = invoke)]` and the
/// client's `fixed` take it away.
///
/// If the home does not answer soon, an `#[either]` operation runs in the caller. It may then be
/// executed at home as well, which changes nothing.
///
/// # Which ways can be mixed
/// All of them. Readers copy whole versions, so they need no lock. Operations at process level run
/// one at a time. If there are operations at interrupt level as well, incoming interrupts are
/// masked while one at process level runs, so that it should be short.
///
/// # Options
/// `#[object(crate = path)]`: the path of the crate `underpass`, if it is not `::underpass`.
#[proc_macro_attribute]
pub fn object(attributes: TokenStream, item: TokenStream) -> TokenStream {
    underpass_idl::object(attributes.into(), item.into()).into()
}

/// Makes a struct or an enum usable in interfaces: implements the trait `underpass::Wire` for it.
///
/// Every field's type must be usable too. A field marked `#[underpass(serde)]` is passed by serde's
/// traits (feature `serde`). A generic type is usable if its parameters are.
///
/// The decoder checks nothing but the fields. If a type's values obey a further rule, check the
/// rule where the type is used, or implement `Decode` by hand.
///
/// `#[underpass(crate = path)]` on the type sets the path of the crate `underpass`, if it is not
/// `::underpass`.
///
/// # Versions
/// `#[underpass(extensible)]` on a struct with named fields says that later versions may add fields
/// to it. It has to be there from the first version on, because it takes one byte more. An added
/// field comes last and is marked `#[underpass(since = N)]`, with the version N of the interface. A
/// reader that does not know the field skips it. Where the writer does not know it, the reader
/// takes the default of the field's type, or the value of `#[underpass(since = N, default =
/// VALUE)]`. Enums and other structs can't be extended.
///
/// # Examples
/// ```standalone_crate
/// # extern crate self as underpass;
/// # pub use underpass_macros::{Wire, interface};
/// # #[allow(dead_code)]
/// # mod mock { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mock.rs")); }
/// # pub use mock::{CallError, __private};
/// #[derive(Debug, PartialEq, underpass::Wire)]
/// pub struct Stat {
///     pub size: u64,
///     pub owner: Option<String>,
/// }
///
/// #[derive(Debug, PartialEq, underpass::Wire)]
/// #[underpass(extensible)]
/// pub struct Options {
///     pub recursive: bool,
///     #[underpass(since = 2, default = 8)]
///     pub depth: u32,
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
/// // From a program of version 1.
/// assert_eq!(from_bytes(&[1, 0]), Ok(Options { recursive: true, depth: 8 }));
/// # }
/// ```
#[proc_macro_derive(Wire, attributes(underpass))]
pub fn wire(item: TokenStream) -> TokenStream {
    underpass_idl::derive_wire(item.into()).into()
}

/// Makes a struct or an enum fit for shared memory: implements the trait
/// `underpass::shared::Shareable` for it.
///
/// A struct needs `#[repr(C)]`, fields of such types, and no padding. An enum needs variants
/// without fields, and `#[repr(u8)]` or another integer. Both are `Copy`, and have no parameters.
/// What is read from shared memory is checked: that a `bool` is 0 or 1, and that an enum is one of
/// its variants.
///
/// `#[underpass(crate = path)]` on the type sets the path of the crate `underpass`, if it is not
/// `::underpass`.
///
/// # Examples
/// ```standalone_crate
/// # extern crate self as underpass;
/// # pub mod __private {
/// #     pub mod shared {
/// #         pub unsafe trait Shareable: Copy { const SHAPE: u64; fn is_valid(bytes: &[u8]) -> bool; }
/// #         unsafe impl Shareable for u32 { const SHAPE: u64 = 0; fn is_valid(_: &[u8]) -> bool { true } }
/// #         pub const fn mix(a: u64, _: u64) -> u64 { a }
/// #         pub const fn shape_of(_: &str) -> u64 { 0 }
/// #     }
/// # }
/// # pub use underpass_macros::Shareable;
/// #[derive(Clone, Copy, underpass::Shareable)]
/// #[repr(C)]
/// struct Point {
///     x: u32,
///     y: u32,
/// }
/// # fn main() { use __private::shared::Shareable; assert!(Point::is_valid(&[7; 8])); let _ = Point { x: 1, y: 2 }; }
/// ```
#[proc_macro_derive(Shareable, attributes(underpass))]
pub fn shareable(item: TokenStream) -> TokenStream {
    underpass_idl::derive_shareable(item.into()).into()
}

/// Makes a struct of locks, conditions and the like the type of a region: implements the trait
/// `underpass::shared::RegionLayout` for it. The objects lie in the order of the fields.
///
/// `#[underpass(crate = path)]` on the type sets the path of the crate `underpass`, if it is not
/// `::underpass`.
///
/// # Examples
/// ```standalone_crate
/// # extern crate self as underpass;
/// # pub mod __private {
/// #     pub mod shared {
/// #         pub struct RegionPlace<'a>(pub usize, pub std::marker::PhantomData<&'a ()>);
/// #         pub trait RegionLayout { const WORDS: usize; const SHAPE: u64; fn attach(place: &mut RegionPlace<'_>) -> Self; }
/// #         pub struct Lock(pub usize);
/// #         impl RegionLayout for Lock {
/// #             const WORDS: usize = 8;
/// #             const SHAPE: u64 = 1;
/// #             fn attach(place: &mut RegionPlace<'_>) -> Self { place.0 += 8; Lock(place.0 - 8) }
/// #         }
/// #         pub const fn mix(a: u64, _: u64) -> u64 { a }
/// #         pub const fn shape_of(_: &str) -> u64 { 0 }
/// #     }
/// # }
/// # pub use underpass_macros::RegionLayout;
/// # use __private::shared::{Lock, RegionLayout as _, RegionPlace};
/// #[derive(underpass::RegionLayout)]
/// struct Board {
///     first: Lock,
///     second: Lock,
/// }
/// # fn main() {
/// # let board = Board::attach(&mut RegionPlace(0, std::marker::PhantomData));
/// # assert_eq!((Board::WORDS, board.first.0, board.second.0), (16, 0, 8));
/// # }
/// ```
#[proc_macro_derive(RegionLayout, attributes(underpass))]
pub fn region_layout(item: TokenStream) -> TokenStream {
    underpass_idl::derive_region_layout(item.into()).into()
}
