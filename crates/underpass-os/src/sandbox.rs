//! What a process gives up for good, and the filter that watches its system calls.

pub mod calls;
pub mod confine;
pub mod forbidden;
pub mod landlock;
