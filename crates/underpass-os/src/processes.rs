//! This process and its children: their start, their forks, their end and their core dumps.

pub mod dump;
pub mod end_signal;
pub mod failpoint;
pub mod fork;
pub mod process;
pub mod processor_time;
pub mod random;
pub mod spawn;
