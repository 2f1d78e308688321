//! The driver for NVMe disks, against a disk that can lie.

mod common;
mod disk;
mod holder;
mod hostile;
mod processes;
