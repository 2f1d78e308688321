//! User-level device drivers: registers, memory for DMA, and interrupts as upcalls (Raven, section
//! 4).
//!
//! A driver is an ordinary domain. It maps the registers of its device, has the device's interrupts
//! delivered to its own threads, and serves its clients through ordinary interfaces. If it crashes,
//! its clients lose the calls under way, and a new one opens the device again.
//!
//! # Examples
//! ```
//! use std::sync::Arc;
//! use std::time::{Duration, Instant};
//! use underpass::device::{Device, DeviceEvent, DeviceSource, InterruptOutcome};
//!
//! # let (socket, _device) = underpass_test_device::start_edu()?;
//! # let source = DeviceSource::vfio_user_socket(socket);
//! # /*
//! let source = DeviceSource::vfio_user("/run/devices/edu.sock");
//! # */
//! let device = Device::open(source)?;
//! let registers = device.map_bar(0)?;
//! let enabled = device.interrupt(0)?.register_for_waiters(|upcall| {
//!     upcall.wake_all();
//!     InterruptOutcome::Handled
//! })?;
//! // This device computes factorials.
//! registers.write(0x20, 0x80u32)?;
//! registers.write(0x08, 5u32)?;
//! let soon = Instant::now() + Duration::from_secs(60);
//! let ready = || (registers.read::<u32>(0x20).ok()? & 1 == 0).then_some(());
//! enabled.wait(&Arc::new(DeviceEvent::new()), soon, ready)?;
//! assert_eq!(registers.read::<u32>(0x08)?, 120);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use underpass_device::*;
