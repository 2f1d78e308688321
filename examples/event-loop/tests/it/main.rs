//! The example as a user runs it.

mod lines;
