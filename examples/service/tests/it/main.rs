//! The example as a user runs it.

mod containers;
mod units;
