//! Processors: which activations may run, what an idle one polls, and how it sleeps and wakes.
//!
//! *Decides:* how many activations of a domain run at once and which ([`Pool`], [`Activation`]). It
//! decides when one has to give way ([`preempt`], and the monitor). It decides which lines an idle
//! processor polls ([`lines`]), for how long ([`Spin`]), and by which steps it goes to sleep
//! ([`sleep()`]).
//!
//! *Must not know:* threads (they implement [`Upcall`], which this crate declares), channels (they
//! implement [`Line`]), calls.
//!
//! | folder | what is in it |
//! |---|---|
//! | `permits/` | the permit protocol apart from kernel threads: counts, states, steps, deferral of preemption; when donated processors go back |
//! | `pool/` | the activations of a domain: their starts and ends, the maximum, preemption |
//! | `monitor/` | the kernel thread that ends time slices and finds blocked activations |
//! | `lines/` | what an idle processor polls |
//! | `idle/` | polling, giving way to others on the same CPU, donating, sleeping |
//! | `park/` | the words on which kernel threads sleep, and what a wake-up costs |
//!
//! *Read first:* the proof, which follows here from `README.md`. Then read `permits/protocol.rs`:
//! its functions are the steps of the proof.
#![doc = include_str!("README.md")]
#![forbid(unsafe_code)]

#[cfg(not(underpass_loom))]
mod idle;
#[cfg(not(underpass_loom))]
pub mod lines;
#[cfg(not(underpass_loom))]
mod metrics;
#[cfg(not(underpass_loom))]
mod monitor;
mod park;
#[cfg(not(underpass_loom))]
mod permits;
#[cfg(not(underpass_loom))]
mod pool;
#[cfg(not(underpass_loom))]
mod start;

/// The permit protocol apart from kernel threads, for its models.
#[cfg(underpass_loom)]
pub mod permits;

#[cfg(not(underpass_loom))]
pub use idle::donate::{give_way, stand_by};
#[cfg(not(underpass_loom))]
pub use idle::sleep::{DonateTo, PROMPT, SleepRole, patience, prompt_patience, sleep, sleep_and_donate};
#[cfg(not(underpass_loom))]
pub use idle::spin::{AdaptiveSpin, Spin};
#[cfg(not(underpass_loom))]
pub use lines::line::{ActiveLine, AwaitedLine, CallProgress, DonationLine, Line, PolledLine, SleepLine};
#[cfg(not(underpass_loom))]
pub use lines::owner::LineOwner;
#[cfg(not(underpass_loom))]
pub use metrics::{Metrics, metrics};
pub use park::parker::Parker;
#[cfg(not(underpass_loom))]
pub use permits::ReturnPolicy;
#[cfg(not(underpass_loom))]
pub use pool::activation::{Activation, KeptPermit};
#[cfg(not(underpass_loom))]
pub use pool::activation_counts::ActivationCounts;
#[cfg(not(underpass_loom))]
pub use pool::placing::freed_cpu;
#[cfg(not(underpass_loom))]
pub use pool::preempt;
#[cfg(not(underpass_loom))]
pub use pool::registry::MOST_ACTIVATIONS;
#[cfg(not(underpass_loom))]
pub use pool::sharing::ProcessorSharing;
#[cfg(not(underpass_loom))]
pub use pool::{Pool, Upcall};
