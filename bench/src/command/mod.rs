//! What the command does: it measures, compares, and writes the report.

mod comparison;
mod curves;
pub(crate) mod measure;
mod papers;
mod peers;
