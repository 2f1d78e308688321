//! What an idle processor does: it polls (`spin.rs`), gives way to others on its CPU
//! (`yield_cost.rs`, `cpu_sharing.rs`), donates its processor (`donate.rs`), and sleeps
//! (`sleep.rs`).

mod cpu_sharing;
pub(crate) mod donate;
pub(crate) mod sleep;
pub(crate) mod spin;
mod yield_cost;
