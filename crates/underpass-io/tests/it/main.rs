//! I/O of user-level threads and of plain kernel threads.

mod common;
mod one_activation;
mod process;
mod races;
mod tcp;
mod timer;
mod unix;
