//! Metrics and spans, as OpenTelemetry has them.

mod bridge;
