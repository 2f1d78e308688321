//! The benchmarks as a user or a script runs them.

mod command;
