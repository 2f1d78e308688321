//! The permit protocol, apart from kernel threads, so that loom can run it.
//!
//! It consists of the counts of permits (`counts.rs`), the state of each activation
//! (`activation_state.rs`), the steps (`protocol.rs`), and the deferral of preemption
//! (`deferral.rs`). Beside it lies the policy by which donated processors go back
//! (`return_policy.rs`).

mod activation_state;
mod counts;
pub mod deferral;
pub mod protocol;
mod return_policy;

pub use activation_state::{ActivationState, state};
#[cfg(not(underpass_loom))]
pub(crate) use counts::fence_after_change;
pub use counts::{Counts, Permits, Released};
pub use return_policy::ReturnPolicy;
