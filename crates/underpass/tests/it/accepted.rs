//! Interfaces, objects and types that must compile, without a warning where their crate denies
//! those.

#![allow(clippy::all, reason = "odd names and shapes are what they are for")]

#[allow(dead_code, reason = "to compile is all that they have to")]
mod names;
mod objects;
mod strict;
mod types_in_functions;
