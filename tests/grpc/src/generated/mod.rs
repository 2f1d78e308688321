//! Made by `tools/grpc-code`. Don't change it by hand.

/// The messages, clients and servers.
#[rustfmt::skip]
#[path = "underpass.interop.rs"]
mod interop;

pub use interop::*;

/// The descriptors, for the reflection service.
pub const DESCRIPTORS: &[u8] = include_bytes!("interop.bin");
