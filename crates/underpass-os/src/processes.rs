//! This process and its children: their start, their forks, their end and their core dumps.

pub mod children;
pub mod dump;
pub mod end_signal;
pub mod failpoint;
pub mod fork;
pub mod niceness;
pub mod process;
pub mod process_table;
pub mod processor_time;
pub mod random;
pub mod signal_file;
pub mod spawn;
pub mod usage;
