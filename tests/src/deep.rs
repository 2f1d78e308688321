//! An interface whose calls go deep, by recursion and by nested values.
#![allow(clippy::missing_errors_doc, reason = "what the tests call")]

use std::hint::black_box;
use std::sync::Mutex;
use underpass::{CallError, Running, Server, Wire};

/// Boxes inside boxes. Each is as large as a message that few would consider large.
#[derive(Clone, Debug, PartialEq, Wire)]
pub struct Nest {
    /// Data.
    pub load: [u64; 325],
    /// The next box.
    pub inner: Option<Box<Nest>>,
}

impl Nest {
    /// `levels` boxes, one inside the other.
    pub fn of(levels: u32) -> Self {
        let outer =
            |inner: Self, level: u32| Self { load: [level.into(); 325], inner: Some(Box::new(inner)) };
        (1..levels).fold(Self { load: [0; 325], inner: None }, outer)
    }

    /// The number of boxes.
    pub fn levels(&self) -> u32 {
        1 + self.inner.as_ref().map_or(0, |inner| inner.levels())
    }
}

/// The interface that the clients call.
#[underpass::interface]
pub trait Deep {
    /// Recurses until it has used `kib` KiB of its stack. Returns how many KiB it used.
    fn dive(&self, kib: u64) -> Result<u64, CallError>;
    /// Returns its argument.
    fn echo(&self, nest: Nest) -> Result<Nest, CallError>;
    /// Returns `levels` boxes, one inside the other.
    fn nest(&self, levels: u32) -> Result<Nest, CallError>;
    /// Exports the same interface under another name, with stacks of `bytes` bytes.
    fn export(&self, name: &str, bytes: u64) -> Result<(), CallError>;
}

/// The implementation of [`Deep`].
#[derive(Debug, Default)]
pub struct Diver(Mutex<Vec<Running>>);

impl Deep for Diver {
    fn dive(&self, kib: u64) -> Result<u64, CallError> {
        let top = 0u8;
        Ok(deeper((&raw const top).addr(), kib * 1024) / 1024)
    }

    fn echo(&self, nest: Nest) -> Result<Nest, CallError> {
        Ok(nest)
    }

    fn nest(&self, levels: u32) -> Result<Nest, CallError> {
        Ok(Nest::of(levels))
    }

    fn export(&self, name: &str, bytes: u64) -> Result<(), CallError> {
        let server = Server::new().export(name, Deep::serve(Self::default()).stack_size(bytes as usize));
        self.0.lock().unwrap().push(server.start().unwrap());
        Ok(())
    }
}

/// Recurses until `bytes` lie between `top` and a local variable of this function.
#[inline(never)]
fn deeper(top: usize, bytes: u64) -> u64 {
    let frame = black_box([1u8; 256]);
    let used = (top - frame.as_ptr().addr()) as u64;
    // The addition after the call prevents a tail call.
    if used >= bytes { used } else { deeper(top, bytes) + u64::from(frame[7]) - 1 }
}
