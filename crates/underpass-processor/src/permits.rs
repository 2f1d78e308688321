//! The permit protocol, apart from kernel threads, so that loom can run it: the counts of permits,
//! the state of each activation, the steps, and how preemption is held off.

mod activation_state;
mod counts;
pub mod deferral;
pub mod protocol;

pub use activation_state::{ActivationState, state};
#[cfg(not(underpass_loom))]
pub(crate) use counts::fence_after_change;
pub use counts::{Counts, Permits, Released};
