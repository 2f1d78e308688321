//! What the generator makes of traits: its output, and its errors.

mod errors;
mod golden;
mod objects;
mod shared_memory;
