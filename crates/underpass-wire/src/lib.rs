//! How values travel between domains: their bytes, and the schema that both sides must agree on.
//!
//! *Decides:* the bytes of every type ([`Encode`], [`Decode`]), the errors of untrusted bytes,
//! which can do no other harm ([`DecodeError`]), and when two sides have the same interface
//! ([`Schema`], [`Descriptor`]).
//!
//! *Must not know:* where the bytes lie (it sees only [`Sink`] and [`Source`]), calls, bindings,
//! Linux.
//!
//! *Read first:* `encode.rs`, then `decode.rs`.
//!
//! # The format
//! Little-endian and packed. A value of a fixed size ([`Encode::FIXED`]) consists of its fields'
//! bytes, one after the other.
//!
//! | type | bytes |
//! |---|---|
//! | integers and floats | as they are; `usize` and `isize` as 64 bits |
//! | `bool`, `char` | one byte, 0 or 1; four bytes, the scalar value |
//! | tuples, arrays, structs | their parts |
//! | `Option`, `Result` | one byte (`None` and `Ok` are 0, `Some` and `Err` 1), the content |
//! | extensible structs | their first fields, and the added ones in an envelope ([`added`]) |
//! | enums | the variant's position in as many bytes as that needs (one up to 256 variants), its fields |
//! | `String`, `Vec`, `VecDeque`, maps, sets | how many elements, the elements |
//! | how many | one byte below 255; else 255 and eight bytes |
//! | `Duration`, `SystemTime` | seconds in eight bytes (since 1970, with a sign), nanoseconds in four |
//! | `OsString`, `PathBuf` | how many bytes, the bytes |
//! | `Ipv4Addr`, `Ipv6Addr` | 4 and 16 bytes, the first one first |
//! | `SocketAddrV4`, `SocketAddrV6` | the address, the port, and of the latter flow information and scope |
//! | `IpAddr`, `SocketAddr` | one byte, 0 or 1 for the version 4 or 6; what it is |
//! | `Range`, `RangeInclusive` | where it begins, where it ends |
//! | `io::ErrorKind` | one byte, its number |
//! | `io::Error` | one byte; 0 and the system's number, or 1, the kind and the text |
//! | `Box`, `Arc`, `Cow`, references | what they point to |
//! | `OwnedFd`, `File` | none: the open file goes beside the bytes ([`Sink::put_file`]) |
//! | client stubs | none: the interface goes beside the bytes ([`Sink::put_interface`]) |
//! | `Serde<T>` (feature `serde`) | one byte, 1, and a value that describes itself; 0 if `T`'s `Serialize` refused |
//!
//! # Examples
//! ```
//! let bytes = underpass_wire::to_bytes(&("cache", 4096u32));
//! assert_eq!(bytes, [5, b'c', b'a', b'c', b'h', b'e', 0, 16, 0, 0]);
//! let back: (String, u32) = underpass_wire::from_bytes(&bytes)?;
//! assert_eq!(back, ("cache".to_owned(), 4096));
//! # Ok::<(), underpass_wire::DecodeError>(())
//! ```
#![forbid(unsafe_code)]

pub mod added;
mod argument_place;
pub mod astack;
mod builder;
mod bulk;
pub mod carried;
mod compound;
mod decode;
mod depth;
mod descriptor;
mod differences;
mod encode;
mod error;
mod file;
pub mod fixed;
#[cfg(feature = "serde")]
mod foreign;
mod io_error;
mod length;
mod lent;
mod list;
mod map;
mod net;
mod path;
mod primitive;
mod range;
mod reference;
mod returned;
mod schema;
mod sink;
mod source;
mod stays_on_machine;
pub mod tag;
mod time;
mod types;
mod versions;

pub use argument_place::ArgumentPlace;
pub use astack::Sizes;
pub use builder::{DescriptorBuilder, ProcedureBuilder};
pub use carried::{Carried, ListOf, RefTo, SliceOf};
pub use decode::{Decode, from_bytes};
use depth::deeper_to;
pub use depth::{DEEPEST, deeper, watch_stacks};
pub use descriptor::{Argument, Descriptor, InterfaceVersion, Procedure};
pub use encode::{Encode, to_bytes};
pub use error::DecodeError;
#[cfg(feature = "serde")]
pub use foreign::Serde;
pub use length::decode as decode_length;
pub use lent::Lent;
pub use returned::Returned;
pub use schema::Schema;
pub use sink::{Sink, SliceSink};
pub use source::Source;
pub use types::{Definition, Fields, MethodSchema, TypeDefinition, TypeDocs, TypeName, Types, Variant};
