//! What user-level device drivers need of the kernel.

pub(crate) mod alarm;
pub(crate) mod device_memory;
pub(crate) mod device_stream;
pub(crate) mod event_fd;
pub(crate) mod uio;
pub(crate) mod vfio;
