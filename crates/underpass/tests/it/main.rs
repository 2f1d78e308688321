//! The facade as a user has it: its README, its errors, metrics and trace contexts.

mod accepted;
mod io_errors;
mod metrics;
mod readme;
mod trace_context;
mod trace_context_of_values;
mod ui;
