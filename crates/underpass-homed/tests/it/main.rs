//! Models of versions, requests, critical sections and hybrid locks.
#![cfg(underpass_loom)]

mod loom;
