//! Vectors without an upcall: those that the dispatcher handles itself, and those whose counter a
//! driver watches by itself.

use crate::DeviceError;
use crate::device::DeviceInner;
use crate::interrupts::counter::EventCounter;
use crate::interrupts::dispatcher::{DispatchSource, Dispatcher};
use crate::interrupts::interrupt::Interrupt;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use underpass_os::EventFd;

/// A vector that the dispatcher handles itself, as long as this lives.
pub struct DispatcherInterrupt {
    device: Arc<DeviceInner>,
    number: u32,
    key: u64,
    events: Arc<EventCounter>,
}

impl fmt::Debug for DispatcherInterrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatcherInterrupt").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Interrupt {
    /// Enables the vector, with a handler that the dispatcher's kernel thread runs itself: the
    /// first of the two levels of dispatch (Raven, section 4.3). It gets the number of interrupts.
    /// It runs beside the domain's threads, and holds up all other interrupts. So it only notes
    /// something in an atomic, or signals a [`DeviceEvent`](crate::DeviceEvent).
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn handle_in_dispatcher(
        self,
        handler: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<DispatcherInterrupt, DeviceError> {
        let dispatcher = Dispatcher::get()?;
        let (key, events) = (dispatcher.key(), Arc::new(self.device.backing().counter(self.number)?));
        let own = Arc::clone(&events);
        let handle = move || {
            if let Ok(interrupts @ 1..) = own.take() {
                handler(interrupts);
            }
            own.unmask();
            dispatcher.arm(key, own.as_fd());
        };
        dispatcher.add(key, events.as_fd(), DispatchSource::Runtime(Box::new(handle)))?;
        // From here on the drop of it takes all back.
        let enabled = DispatcherInterrupt { device: self.device, number: self.number, key, events };
        if let Some(events) = enabled.events.to_signal() {
            enabled.device.backing().set_interrupt(enabled.number, Some(events))?;
        }
        enabled.events.unmask();
        dispatcher.arm(key, enabled.events.as_fd());
        Ok(enabled)
    }

    /// Enables the vector, and returns its event counter: an `eventfd`, for a driver that waits for
    /// it by itself, for example among other files. The vector stays enabled.
    ///
    /// # Errors
    /// As [`register`](Self::register). [`Unsupported`](DeviceError::Unsupported), for a device by
    /// UIO: its interrupt has to be unmasked after each.
    ///
    /// # Examples
    /// ```
    /// use std::io::Read;
    /// use underpass::device::{Device, DeviceSource};
    ///
    /// # let (socket, _device) = underpass_test_device::start_edu()?;
    /// let device = Device::open(DeviceSource::vfio_user_socket(socket))?;
    /// let mut counter = std::fs::File::from(device.interrupt(0)?.into_counter()?);
    /// let registers = device.map_bar(0)?;
    /// registers.write(0x60, 1u32)?;
    /// // This read comes after the write.
    /// registers.read::<u32>(0x24)?;
    /// let mut count = [0; 8];
    /// counter.read_exact(&mut count)?;
    /// assert_eq!(u64::from_ne_bytes(count), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_counter(self) -> Result<OwnedFd, DeviceError> {
        let events = EventFd::new()?;
        self.device.backing().set_interrupt(self.number, Some(&events))?;
        Ok(events.as_fd().try_clone_to_owned()?)
    }
}

impl Drop for DispatcherInterrupt {
    fn drop(&mut self) {
        if let Ok(dispatcher) = Dispatcher::get() {
            dispatcher.remove(self.key, self.events.as_fd());
        }
        // If the device is gone or broken, it signals an event counter that nobody watches.
        let _ = self.device.backing().set_interrupt(self.number, None);
    }
}
