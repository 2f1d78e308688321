//! The example as a user runs it.

mod two_lines;
