//! Move a trait's implementation into another process, and keep calling it like a function.
//!
//! Underpass is user-level RPC (URPC, 1991) for Linux: a call travels through memory that two
//! processes share and is scheduled by user-level threads. The kernel is entered only to move a
//! processor.
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
//! * [`interface`] lists what it generates; [`Wire`](derive@Wire) derives what a type needs to be
//!   passed.
//! * [`Server`] exports. The generated `…Client` imports, and itself implements the trait.
//! * A call blocks the calling thread and no other. A user-level thread ([`thread::spawn`]) yields
//!   to others; a kernel thread polls briefly and then sleeps.
//! * Open files are values: [`OwnedFd`](std::os::fd::OwnedFd) and [`File`](std::fs::File), by
//!   themselves or inside of other types, are arguments and results, at most 64 in a call. No file
//!   stays open when a process dies. A file that comes from a peer may be of any type, and the peer
//!   may hold it too.
//! * [`CallError`] says why a call failed, whether it may be repeated, and what to do.
//!
//! # Async callers and handlers
//!
//! Tasks of any executor call by `greet_async(..).await`, which blocks no thread. The call is sent
//! at the first poll. Dropping the future abandons the call: its result is discarded, and the
//! handler can see that nobody wants it ([`is_cancelled`]). A deadline needs no timer of the
//! executor.
//!
//! With `#[underpass::interface(asynchronous)]` handlers may be `async fn`s, which run on an
//! executor of the server's choice. They implement the trait whose name ends in `Async`. Its
//! `serve` takes a closure that starts a future. For tokio that is `move |handler|
//! drop(handle.spawn(handler))`, for smol `move |handler| executor.spawn(handler).detach()`.
//!
//! ```
//! use underpass::{CallError, Handler};
//!
//! #[underpass::interface(asynchronous)]
//! pub trait Greeter {
//!     /// Greets `whom`.
//!     fn greet(&self, whom: &str) -> Result<String, CallError>;
//! }
//!
//! struct Polite;
//!
//! impl GreeterAsync for Polite {
//!     async fn greet(&self, whom: &str) -> Result<String, CallError> {
//!         // Here it may await timers, sockets, and calls to other domains.
//!         Ok(format!("Good day, {whom}."))
//!     }
//! }
//!
//! # let dir = std::env::temp_dir().join(format!("underpass-doc-async-{}", std::process::id()));
//! # // SAFETY: no other thread has been started yet.
//! # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
//! # struct Unpark(std::thread::Thread);
//! # impl std::task::Wake for Unpark {
//! #     fn wake(self: std::sync::Arc<Self>) { self.0.unpark() }
//! # }
//! # fn block_on<F: Future>(future: F) -> F::Output {
//! #     let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
//! #     let mut future = std::pin::pin!(future);
//! #     loop {
//! #         match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
//! #             std::task::Poll::Ready(output) => return output,
//! #             std::task::Poll::Pending => std::thread::park(),
//! #         }
//! #     }
//! # }
//! // The server's process. This executor is a simple one: a kernel thread for each call.
//! let spawn = |handler: Handler| drop(std::thread::spawn(|| block_on(handler)));
//! let running = underpass::Server::new().export("polite", GreeterAsync::serve(Polite, spawn)).start()?;
//!
//! // The client's, which doesn't see how the server's handlers are written.
//! let greeter = GreeterClient::import("polite")?;
//! let greeting = block_on(async { greeter.greet_async("Ada").await });
//! assert_eq!(greeting?, "Good day, Ada.");
//! # drop(running);
//! # std::fs::remove_dir(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Servers without locks
//!
//! An implementation that keeps its state in a [`Cell`](std::cell::Cell) or a
//! [`RefCell`](std::cell::RefCell) is not `Sync`. Two provided methods of the interface serve it
//! all the same, if it is `Send`. At any moment at most one thread runs a method of it, whichever
//! processor serves, and whether callers are in other domains or in this one (OThreads, section
//! 5.3).
//!
//! ```
//! use std::cell::RefCell;
//! use std::collections::BTreeMap;
//! use underpass::{CallError, Server, thread};
//!
//! #[underpass::interface]
//! pub trait Register {
//!     /// Counts a visit. Returns how many there were.
//!     fn visit(&self, whom: &str) -> Result<u32, CallError>;
//! }
//!
//! #[derive(Default)]
//! struct Visits(RefCell<BTreeMap<String, u32>>);
//!
//! impl Register for Visits {
//!     fn visit(&self, whom: &str) -> Result<u32, CallError> {
//!         let mut visits = self.0.borrow_mut();
//!         let count = visits.entry(whom.to_owned()).or_default();
//!         *count += 1;
//!         Ok(*count)
//!     }
//! }
//!
//! # let dir = std::env::temp_dir().join(format!("underpass-doc-visits-{}", std::process::id()));
//! # // SAFETY: no other thread has been started yet.
//! # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
//! let service = Register::serve_exclusive(Visits::default());
//! let running = Server::new().export("visits", service).start()?;
//! let register = RegisterClient::import("visits")?;
//! let visitors: Vec<_> = (0..16)
//!     .map(|_| {
//!         let register = register.clone();
//!         thread::spawn(move || register.visit("Ada"))
//!     })
//!     .collect();
//! for visitor in visitors {
//!     visitor.join().unwrap()?;
//! }
//! assert_eq!(register.visit("Ada")?, 17);
//! # drop(running);
//! # std::fs::remove_dir(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | `serve_exclusive` | `serve_sequential` |
//! |---|---|---|
//! | others run | where a method waits | when a method has ended |
//! | a borrow of a `RefCell` that lasts across a wait | may make another call panic | is safe |
//! | a method waits for what a later call does | it is let go | it waits for ever |
//! | a call that comes back into the service, direct or over other domains | runs | fails with [`CallError::Deadlock`] |
//!
//! A method *waits* in a call, for a lock of [`sync`] that another thread holds, for a message, a
//! time or the end of a thread, and in [`thread::yield_now`] and [`thread::checkpoint`]. It does
//! not wait where it blocks its processor: in [`thread::blocking`], in a lock of `std`, or when its
//! time slice ends.
//!
//! A call waits for its turn as long as its caller wants it. If its deadline passes before that, or
//! its caller gives up or dies, it is not started. Turns are first come, first served, but a
//! waiting thread may be overtaken up to five times. A panic gives the turn to the next. A call
//! costs what the same call costs with a [`sync::Mutex`].
//!
//! A sequential service recognises calls of the method that it runs by numbers that calls carry. So
//! it also refuses a call of a thread that works for that method ([`Cancellation::scope`]). It does
//! not recognise a call of another thread, nor the earliest of more than four services in a chain:
//! such a call waits. *Remedy:* a deadline, or `serve_exclusive`.
//!
//! With `serve_exclusive`, several suspended threads borrow the implementation at the same time, on
//! several kernel threads, though only one of them runs. The cells of `std` allow that. A type
//! with unsafe code that relies on a borrow that stays on one kernel thread does not: serve it by
//! `serve_sequential`.
//!
//! Async handlers hold `&self` across their waits in futures that are `Send`, so they need an
//! implementation that is `Sync`.
//!
//! # Threads without calls
//!
//! The threads are useful by themselves. To change from `std`'s threads to these, change the paths
//! and leave the rest:
//!
//! ```
//! use underpass::sync::{Condvar, Mutex, mpsc}; // was: std::sync
//! use underpass::io::net::TcpStream; // was: std::net
//! use underpass::thread; // was: std::thread
//!
//! underpass::thread_local! { // was: std::thread_local!
//!     static NAME: String = thread::current().name().unwrap_or("nobody").to_owned();
//! }
//!
//! let (send, receive) = mpsc::channel();
//! for number in 0..10_000 {
//!     let send = send.clone();
//!     thread::spawn(move || send.send(number)); // tens of ns; in std tens of µs
//! }
//! drop(send);
//! assert_eq!(receive.iter().sum::<u64>(), 49_995_000);
//!
//! // A call that blocks in the kernel goes into `blocking`, so that other threads run meanwhile.
//! let lines = thread::spawn(|| thread::blocking(|| std::fs::read_to_string("/proc/cpuinfo")));
//! assert!(lines.join().unwrap()?.lines().count() > 0);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`thread`] lists the other differences, and [`processors`] says how many threads run at once.
//!
//! # Features
//!
//! Calls, threads and locks are always there. Each of the features `io`, `port` (ports, signals and
//! streams), `shared`, `homed` and `service` adds the module of its name. By `symbols`, dumps name
//! functions, and not just addresses. All of these are on by default. A program that only calls
//! builds in less time without them: `default-features = false`. The features `device`, `sandbox`
//! and `serde` are off by default.

#![forbid(unsafe_code)]

#[cfg(feature = "homed")]
pub use objects::object;
#[cfg(feature = "shared")]
pub use underpass_macros::{RegionLayout, Shareable};
pub use underpass_macros::{Wire, interface};
/// # Examples
/// A server gives numbers to jars. Its successor learns them again from the client's hook. A client
/// without a hook is told about the restart.
///
/// ```standalone_crate
/// use std::collections::BTreeMap;
/// use std::process::{Child, Command};
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
/// use underpass::{CallError, Policy, Server};
///
/// #[underpass::interface]
/// trait Pantry {
///     /// Puts a jar there, and gives its number.
///     fn put(&self, label: &str) -> Result<u64, CallError>;
///     /// Puts a jar there that has a number already.
///     fn put_again(&self, jar: u64, label: &str) -> Result<(), CallError>;
///     /// What is in a jar.
///     fn label(&self, jar: u64) -> Result<String, CallError>;
/// }
/// # #[derive(Default)]
/// # struct Jars(Mutex<BTreeMap<u64, String>>);
/// # impl Pantry for Jars {
/// #     fn put(&self, label: &str) -> Result<u64, CallError> {
/// #         let mut jars = self.0.lock().unwrap();
/// #         let jar = jars.last_key_value().map_or(1, |(last, _)| last + 1);
/// #         jars.insert(jar, label.to_owned());
/// #         Ok(jar)
/// #     }
/// #     fn put_again(&self, jar: u64, label: &str) -> Result<(), CallError> {
/// #         self.0.lock().unwrap().insert(jar, label.to_owned());
/// #         Ok(())
/// #     }
/// #     fn label(&self, jar: u64) -> Result<String, CallError> {
/// #         Ok(self.0.lock().unwrap()[&jar].clone())
/// #     }
/// # }
///
/// /// Starts this program once more, as the server.
/// fn start() -> std::io::Result<Child> {
///     Command::new(std::env::current_exe()?).env("PART", "server").spawn()
/// }
/// # fn kill(mut server: Child) -> std::io::Result<()> {
/// #     server.kill()?;
/// #     server.wait().map(drop)
/// # }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     if std::env::var_os("PART").is_some() {
///         return Ok(Server::new().export("pantry", Pantry::serve(Jars::default())).run()?);
///     }
/// #   let dir = std::env::temp_dir().join(format!("underpass-doc-restart-{}", std::process::id()));
/// #   // SAFETY: no other thread has been started yet.
/// #   unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
///     let server = start()?;
///     let policy = Policy::new().patience(Duration::from_secs(60));
///
///     // This client keeps what it needs to restore its state.
///     let kept: Arc<Mutex<Vec<(u64, &str)>>> = Arc::default();
///     let known = kept.clone();
///     let pantry = PantryClient::import_resilient_with("pantry", policy, move |pantry| {
///         for (jar, label) in known.lock().unwrap().iter() {
///             pantry.put_again(*jar, label)?;
///         }
///         Ok(())
///     })?;
///     let plums = pantry.put("plums")?;
///     kept.lock().unwrap().push((plums, "plums"));
///
///     // This one keeps nothing.
///     let careless = PantryClient::import_resilient("pantry", policy)?;
///     let pears = careless.put("pears")?;
///
///     kill(server)?;
///     let server = start()?;
///     assert_eq!(pantry.label(plums)?, "plums");
///     assert!(matches!(careless.label(pears), Err(CallError::Restarted(..))));
///     // It forgets all numbers that it has, acknowledges the restart, and goes on.
///     careless.acknowledge_restart();
///     let pears = careless.put("pears")?;
///     assert_eq!(careless.label(pears)?, "pears");
/// #   kill(server)?;
/// #   std::fs::remove_dir_all(dir)?;
///     Ok(())
/// }
/// ```
pub use underpass_rpc::Policy;
/// # Examples
/// A process that can't import the name gets a binding from one that has it, over any Unix socket:
/// here its standard input.
///
/// ```standalone_crate
/// use std::io::{Read, stdin};
/// use std::os::{fd::OwnedFd, unix::net::UnixStream};
/// use std::process::{Child, Command};
/// use std::time::Duration;
/// use underpass::{CallError, Server};
///
/// #[underpass::interface]
/// trait Adder {
///     fn add(&self, a: u32, b: u32) -> Result<u32, CallError>;
/// }
/// # struct Sum;
/// # impl Adder for Sum {
/// #     fn add(&self, a: u32, b: u32) -> Result<u32, CallError> {
/// #         Ok(a + b)
/// #     }
/// # }
///
/// const SOON: Duration = Duration::from_secs(60);
///
/// /// Starts this program once more.
/// fn start(part: &str, socket: UnixStream) -> std::io::Result<Child> {
///     Command::new(std::env::current_exe()?).env("PART", part).stdin(OwnedFd::from(socket)).spawn()
/// }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     match std::env::var("PART").as_deref() {
///         Ok("first") => {
///             let adder = AdderClient::import_within("doc-adder", SOON)?;
///             adder.share_with(stdin())?;
///             // Keep the binding until the other process has taken it. That process then hangs up.
///             stdin().read_to_end(&mut Vec::new())?;
///         }
///         Ok(_) => {
///             let adder = AdderClient::import_from(stdin(), SOON)?;
///             assert_eq!(adder.add(1, 2)?, 3);
///         }
///         Err(_) => {
/// #           let dir = std::env::temp_dir().join(format!("underpass-doc-share-{}", std::process::id()));
/// #           // SAFETY: no other thread has been started yet.
/// #           unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
///             let server = Server::new().export("doc-adder", Adder::serve(Sum).shareable()).start()?;
///             let (one, other) = UnixStream::pair()?;
///             for mut child in [start("first", one)?, start("third", other)?] {
///                 assert!(child.wait()?.success());
///             }
///             server.stop();
/// #           std::fs::remove_dir(dir)?;
///         }
///     }
///     Ok(())
/// }
/// ```
pub use underpass_rpc::ShareError;
pub use underpass_rpc::{
    Abandon, AllLeased, Binding, Bindings, BoundServer, CallError, Cancellation, Copied, Counters, Error,
    ExportError, Grant, Handler, Health, HealthChanges, ImportError, InTraceContext, Limits, Outcome, Peer,
    RunPhase, Running, Sealed, SealedWriter, Server, Service, Shared, TraceContext, active_bindings,
    binding_state, caller, cancellation, cancelled, copied, counters, deadline, detached, given_interfaces,
    hang_up, is_cancelled,
};
#[cfg(feature = "sandbox")]
pub use underpass_sandbox::Sandbox;
#[cfg(feature = "serde")]
pub use underpass_wire::Serde;
pub use underpass_wire::{Descriptor, Schema as Wire};

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub mod estacks;
pub mod metrics;
#[cfg(feature = "homed")]
mod objects;
pub mod processors;
pub mod thread;

pub use underpass_threads::thread_local;

/// Locks, conditions, semaphores, barriers and channels, with the names and shapes of
/// [`std::sync`].
///
/// Any of them may be shared between user-level threads and plain kernel threads. A user-level
/// thread that waits gives its activation to others; a kernel thread sleeps in the kernel. A lock
/// of `std` in their place would put a whole activation to sleep, and with it all threads that live
/// there.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use underpass::sync::{Condvar, Mutex};
/// use underpass::thread;
///
/// let shared = Arc::new((Mutex::new(None), Condvar::new()));
/// let theirs = Arc::clone(&shared);
/// let thinker = thread::spawn(move || {
///     *theirs.0.lock().unwrap() = Some(42);
///     theirs.1.notify_one();
/// });
/// // This is a kernel thread.
/// let mut answer = shared.0.lock().unwrap();
/// while answer.is_none() {
///     answer = shared.1.wait(answer).unwrap();
/// }
/// assert_eq!(*answer, Some(42));
/// # drop(answer);
/// thinker.join().unwrap();
/// ```
///
/// Channels are in [`mpsc`](sync::mpsc) and [`mpmc`](sync::mpmc), and a [`Select`](sync::Select)
/// waits for several at once:
///
/// ```
/// use underpass::sync::mpmc;
/// use underpass::thread;
///
/// let (send, receive) = mpmc::unbounded();
/// let workers: Vec<_> = (0..4)
///     .map(|_| {
///         let receive = receive.clone();
///         thread::spawn(move || receive.iter().sum::<u64>())
///     })
///     .collect();
/// (1..=100).for_each(|number| send.send(number).unwrap());
/// drop(send);
/// assert_eq!(workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u64>(), 5_050);
/// ```
pub mod sync {
    pub use underpass_sync::*;
}

#[cfg(feature = "homed")]
pub mod homed;
#[cfg(feature = "shared")]
pub mod shared;

/// What a process shows of the names that it exports, and calls of interfaces without their traits.
///
/// [`Inspect`](inspect::Inspect) is an interface that each name has beside its own. The command
/// `underpass` is made of it: `ls`, `describe`, `call` and `top`. [`Server::inspectable`] switches
/// it off.
pub mod inspect {
    #[doc(inline)]
    pub use underpass_rpc::inspect::*;
    #[doc(inline)]
    pub use underpass_rpc::{UntypedClient, UntypedMessage};
}

#[cfg(feature = "io")]
pub mod io;

/// Ports: messages from many domains to one, which are answered later or never.
///
/// A call waits until a handler has replied. A message to a port does not: its sender goes on as
/// soon as there is room, and the owner receives when it likes. Senders to a [synchronous
/// port](sync) wait for a reply, which the owner gives when it likes.
#[cfg(feature = "port")]
pub mod port {
    #[doc(inline)]
    pub use underpass_port::*;
}

/// Calls to and from other machines: which clients may call from there, and what a transport
/// implements.
///
/// The transport is a crate of its own: `underpass-grpc`, in its module `remote`.
pub mod remote {
    #[cfg(feature = "port")]
    #[doc(inline)]
    pub use underpass_port::remote::*;
    #[doc(inline)]
    pub use underpass_rpc::remote::*;
}

/// Servers under a service manager, such as systemd: it hears that a server is ready, stops, and is
/// alive. The sockets that it passes are [`Server::socket_activation`].
#[cfg(feature = "service")]
pub mod service {
    #[doc(inline)]
    pub use underpass_service::*;
}

/// Streams: arguments and results of a call that come item by item, in either direction.
#[cfg(feature = "port")]
pub mod stream {
    #[doc(inline)]
    pub use underpass_port::stream::*;
}

/// Sandboxed domains, which can do nothing but serve and call their bindings: see [`Sandbox`].
///
/// A program puts a part of itself, or another program, behind a binding. It takes everything else
/// away from that part: files, network, other processes, and more memory or time than it was given.
/// A crash, a loop or an attack in the sandbox costs the calls under way and a restart.
///
/// # Examples
/// ```standalone_crate
/// use underpass::{CallError, Sandbox, Server, sandbox};
///
/// #[underpass::interface]
/// pub trait Decoder {
///     /// The sum of the bytes.
///     fn decode(&self, bytes: &[u8]) -> Result<u64, CallError>;
/// }
///
/// struct Sum;
///
/// impl Decoder for Sum {
///     fn decode(&self, bytes: &[u8]) -> Result<u64, CallError> {
///         Ok(bytes.iter().map(|&byte| u64::from(byte)).sum())
///     }
/// }
///
/// # const NAME: &str = "doc-sandbox-decoder";
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     if let Some(inside) = sandbox::inside()? {
///         // This is the process in the sandbox. It serves until it is ended.
///         match inside.serve(Server::new().export(NAME, Decoder::serve(Sum)))? {}
///     }
/// #   let dir = std::env::temp_dir().join(format!("underpass-doc-sandbox-{}", std::process::id()));
/// #   // SAFETY: no other thread has been started yet.
/// #   unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
///     let domain = Sandbox::this_program().memory(64 << 20).start()?;
///     let decoder = DecoderClient::import(NAME)?;
///     assert_eq!(decoder.decode(&[1, 2, 3])?, 6);
///
///     domain.end();
///     assert!(matches!(decoder.decode(&[1]), Err(CallError::PeerDied(_) | CallError::Closed(_))));
/// #   std::fs::remove_dir(dir)?;
///     Ok(())
/// }
/// ```
#[cfg(feature = "sandbox")]
pub mod sandbox {
    pub use underpass_sandbox::*;
}

#[cfg(feature = "device")]
pub mod device;

// Compiler errors about interfaces name these traits. They use the shortest path.
#[doc(hidden)]
pub use underpass_rpc::FromCallError;
#[doc(hidden)]
pub use underpass_wire::{Decode, Encode, Returned};

/// For generated code; not for use by hand, and subject to change.
#[doc(hidden)]
pub mod __private {
    #[cfg(feature = "homed")]
    pub use underpass_homed as homed;
    pub use underpass_rpc::{
        Abandon, AllLeased, CallError, CarriedError, Counters, DetachedCall, Dispatch, DispatchLocal,
        Exclusive, FromCallError, Handler, HandlerCall, ImportError, IncomingCall, LocalCall, Policy,
        ProcedureCall, Refused, ResultOf, Service, ShareError, Spawn, Stub, remote::RemoteTransport,
    };
    #[cfg(feature = "shared")]
    pub use underpass_shared as shared;
    pub use underpass_wire as wire;
}
