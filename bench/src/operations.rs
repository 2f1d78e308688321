//! The cheapest operations of threads, for whatever repeats them to count their instructions.

pub(crate) use crate::threads::cases::ours::{fork_join, lock};
pub(crate) use crate::threads::cases::yields;
