//! Claims of the papers as pure functions of measured curves, for the benchmarks and for the
//! report.

pub use crate::othreads::verdicts::{CurvePoint, barriers, calls, spinlocks};
pub use crate::urpc::verdicts::{latency, throughput};
