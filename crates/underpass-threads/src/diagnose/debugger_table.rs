//! What a debugger needs to know of a stopped process: where the control blocks are, and where
//! their fields lie.
//!
//! `tools/gdb/underpass.py` finds the table by its symbol. That needs no debug information and
//! works on core files. All words have 64 bits.

use crate::block::control::Control;
use crate::block::registry::{CHUNKS, FIRST};
use crate::sched::activations::Outside;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass_context::{Context, Stack};
use underpass_processor::MOST_ACTIVATIONS;

/// Goes up when the meaning of a word changes.
const VERSION: u64 = 1;

/// The table. Offsets are in bytes.
#[repr(C)]
pub(crate) struct DebuggerTable {
    magic: [u8; 8],
    version: u64,
    /// Control blocks in the first chunk. Each further chunk has twice as many.
    first: u64,
    /// Bytes of a control block.
    block: u64,
    control: ControlOffsets,
    /// Offsets in a context: where it stopped, the address of its stack's guard, and the length of
    /// its stack with the guard.
    context: [u64; 3],
    /// Offsets in the shared part of an activation: the running thread, the thread in a blocking
    /// call, the first ready thread, and the last thread in the inbox.
    outside: [u64; 4],
    /// Offset in a control block: the name's address and length. Known when the first block is
    /// made.
    name: AtomicU64,
    chunks: u64,
    /// Addresses of the chunks. 0: not made yet.
    chunk: [AtomicU64; CHUNKS],
    activations: u64,
    /// Addresses of the shared parts of activations. 0: not begun yet.
    activation: [AtomicU64; MOST_ACTIVATIONS],
}

/// Offsets of the fields of a control block.
#[repr(C)]
pub(crate) struct ControlOffsets {
    pub(crate) next: u64,
    pub(crate) home: u64,
    pub(crate) flags: u64,
    pub(crate) number: u64,
    pub(crate) holders: u64,
    pub(crate) context: u64,
    pub(crate) wait: u64,
    pub(crate) since: u64,
    pub(crate) waits_for: u64,
}

/// Not mangled, so that a debugger finds it.
// SAFETY: nobody else uses names of this crate.
#[unsafe(no_mangle)]
pub(crate) static UNDERPASS_THREADS: DebuggerTable = DebuggerTable {
    magic: *b"UNDERPAS",
    version: VERSION,
    first: FIRST as u64,
    block: size_of::<Control>() as u64,
    control: Control::OFFSETS,
    context: [
        Context::SAVED as u64,
        (Context::STACK + Stack::PARTS.0) as u64,
        (Context::STACK + Stack::PARTS.1) as u64,
    ],
    outside: Outside::OFFSETS,
    name: AtomicU64::new(0),
    chunks: CHUNKS as u64,
    chunk: [const { AtomicU64::new(0) }; CHUNKS],
    activations: MOST_ACTIVATIONS as u64,
    activation: [const { AtomicU64::new(0) }; MOST_ACTIVATIONS],
};

/// A chunk of control blocks was made.
pub(crate) fn made(chunk: usize, blocks: &[Control]) {
    // Relaxed, here and below: debuggers look when nothing runs.
    UNDERPASS_THREADS.name.store(blocks[0].place_of_name() as u64, Ordering::Relaxed);
    UNDERPASS_THREADS.chunk[chunk].store(blocks.as_ptr().addr() as u64, Ordering::Relaxed);
}

/// An activation has begun.
pub(crate) fn begun(number: usize, outside: &'static Outside) {
    UNDERPASS_THREADS.activation[number].store(std::ptr::from_ref(outside).addr() as u64, Ordering::Relaxed);
}
