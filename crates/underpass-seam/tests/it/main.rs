//! Models of the cells that protocols share.
#![cfg(underpass_loom)]

mod loom;
