//! Metrics and trace contexts of Underpass for OpenTelemetry.
//!
//! *Decides:* the names of instruments and attributes, and how a span's context becomes the
//! [`TraceContext`](underpass::TraceContext) of calls. *Must not know:* an SDK or an exporter. The
//! program chooses those, by the [`Meter`](opentelemetry::metrics::Meter) that it passes to
//! [`observe`].
//!
//! [`observe`] reports metrics. [`in_context`] makes calls as work of a span, and [`parent`] is
//! what a handler's spans belong to.
#![forbid(unsafe_code)]

mod instruments;
mod spans;

pub use instruments::observe;
pub use spans::{in_context, parent, span_context, trace_context};
