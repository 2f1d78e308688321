//! What an idle processor does: it polls (`spin.rs`), gives way to others on its CPU
//! (`contention.rs`, `cpu_sharing.rs`), donates its processor (`donate.rs`), and sleeps
//! (`sleep.rs`).

mod contention;
mod cpu_sharing;
pub(crate) mod donate;
pub(crate) mod sleep;
pub(crate) mod spin;
