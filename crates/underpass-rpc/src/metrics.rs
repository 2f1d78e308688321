//! Metrics by method: calls, errors by kind, bytes, and times of one call in 64.
//!
//! A *meter* counts for one export or import. Exports and imports that are measured
//! have a wrapper around their stubs (`dispatch/measured.rs`, `call/stub/measured.rs`), and all
//! others have none, so nothing is added to their calls.
#![doc = include_str!("metrics/README.md")]

mod histogram;
pub(crate) mod kind;
pub(crate) mod meter;
mod method_counts;
mod place;
mod registry;
mod views;

pub use histogram::LatencyHistogram;
pub use registry::snapshot;
pub use views::{FailureCount, InterfaceMetrics, MeasuredSide, MethodMetrics};

pub(crate) use registry::{is_default, meter_of};

/// The path that derived code uses.
mod generated {
    pub(crate) mod __private {
        pub(crate) use underpass_wire as wire;
    }
}
