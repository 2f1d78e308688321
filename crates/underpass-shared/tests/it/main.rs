//! Models of the queues, the lock and the walk after a death.
#![cfg(underpass_loom)]

mod loom;
