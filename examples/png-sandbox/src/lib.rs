//! An image decoder that can't harm the program that uses it: it runs in a sandbox, and a file that
//! makes it crash, loop or eat memory costs one call.
//!
//! *Read first:* `decoder.rs`, an ordinary interface and an ordinary implementation over the `png`
//! crate; then `studio.rs`, which keeps a sandboxed decoder at hand and tells what became of each
//! file. `samples.rs` makes the files, good and bad.
//!
//! The `png` crate is written in safe Rust, and no file is known that takes it over. So the worst
//! files of this example are *acted*: a chunk of our own, `evIl`, tells the decoder to crash, to
//! loop, to eat memory or to open a file, as a fault in a decoder written in C would have it do.
#![forbid(unsafe_code)]

mod decoder;
pub mod samples;
mod studio;

pub use decoder::{Decoder, DecoderClient, Image, PngDecoder, PngError};
pub use studio::{Fate, Studio};
