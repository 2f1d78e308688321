//! The driver for virtio disks, against a disk that can lie.

mod disk;
mod pretended;
