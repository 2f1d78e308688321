//! The words on which kernel threads of a domain sleep until others unpark them (`parker.rs`,
//! `monitor_parker.rs`), and an estimate of what a wake-up costs (`wake_up_cost.rs`).

#[cfg(not(underpass_loom))]
mod monitor_parker;
pub(crate) mod parker;
#[cfg(not(underpass_loom))]
pub(crate) mod wake_up_cost;

#[cfg(not(underpass_loom))]
pub(crate) use monitor_parker::MonitorParker;
