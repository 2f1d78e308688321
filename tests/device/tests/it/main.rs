//! Devices of the tests, and drivers for them.

mod common;
mod death;
mod holder;
mod interrupts;
mod other_server;
mod registers;
