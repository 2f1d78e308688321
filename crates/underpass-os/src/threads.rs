//! Kernel threads and their processors: sleeping and waking, barriers, signals, faults and clocks.

pub mod barrier;
pub mod clock;
pub mod cpu;
pub mod fault;
pub mod futex;
pub mod quota;
pub mod signal;
pub mod thread;
