//! Interfaces of `#[interface]` across machines, over HTTP/2: the transport behind
//! `GreeterClient::import("https://host:port/greeter")`, and the listener that it calls.
//!
//! Each call is one gRPC call of the method `/underpass.Remote/NAME.METHOD`. Its message is what a
//! channel would carry. So proxies, load balancers and tracing see ordinary gRPC.
//!
//! *Read first:* `service.rs` for the server, `binding.rs` for the client, then `metadata.rs`,
//! which has all that goes beside the messages. The README.md has the rules of streams.
//!
//! # Examples
//! A server for this machine and for others, and a client of either kind:
//!
//! ```
//! use std::time::Duration;
//! use underpass::CallError;
//! use underpass::remote::RemotePeers;
//! use underpass_grpc::remote::{Remote, RemoteServer};
//!
//! #[underpass::interface(stateless)]
//! trait Greeter {
//!     fn greet(&self, name: &str) -> Result<String, CallError>;
//! }
//!
//! struct Polite;
//!
//! impl Greeter for Polite {
//!     fn greet(&self, name: &str) -> Result<String, CallError> {
//!         Ok(format!("Good day, {name}."))
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let whose = |token: &str| (token == "s3cret").then(|| "the tests".to_owned());
//! let service = Greeter::serve(Polite).remote_peers(RemotePeers::token(whose));
//! // Elsewhere: `.listen("0.0.0.0:443", RemoteTls::new(certificate, key))`.
//! let listener = RemoteServer::new().export("greeter", service).listen("127.0.0.1:0", None)?;
//! let address = format!("http://{}/greeter", listener.address());
//!
//! let remote = Remote::new().token("s3cret");
//! let greeter = GreeterClient::import_by(&remote, &address, Duration::from_secs(60))?;
//! assert_eq!(greeter.greet("Ada")?, "Good day, Ada.");
//!
//! // Or once for the whole program, so that `import` takes addresses and names alike.
//! remote.install();
//! assert_eq!(GreeterClient::import(&address)?.greet("Bob")?, "Good day, Bob.");
//! # Ok(())
//! # }
//! ```
//!
//! # What differs from a call on one machine
//! | | here |
//! |---|---|
//! | open files, interfaces as values | refused at import and at export, naming the method |
//! | streams | one among the arguments and one in the result; several are refused as files are |
//! | `Sealed`, `Shared` | copied |
//! | who calls | [`Peer::remote`](underpass::Peer::remote): certificates and the owner of a token |
//! | `authorize` | is asked at import and at each call |
//! | a connection that ends | is made again. If another server answers, a stateful interface's calls fail with `PeerDied` |
//! | outcome | *not started* if nothing was sent, or if the server says so; else *unknown* |
//! | `binding_state` | lasts for one call |
//! | donation, quarantine, counters | mean nothing |

mod address;
mod binding;
mod client;
mod codec;
mod credit;
mod incoming;
mod listen;
mod metadata;
mod runtime;
mod service;
mod status;
mod stream_call;
mod stream_carrier;
mod stream_messages;
mod stream_service;
mod tls;

pub use client::{Remote, install};
pub use listen::{RemoteListener, RemoteServer};
pub use service::RemoteService;
pub use tls::RemoteTls;
