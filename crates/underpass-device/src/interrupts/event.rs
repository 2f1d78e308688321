//! Something that happens, for which one thread waits.

use crate::DeviceError;
use std::time::Instant;
use underpass_sync::{AcquireTimeoutError, Semaphore};

/// Something that happens: a handler signals it, and a thread waits for it. A signal that comes
/// first is kept.
///
/// A wait may end without a signal of its own, so the thread looks again at what it waits for.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
/// use underpass::device::DeviceEvent;
///
/// let event = DeviceEvent::new();
/// event.signal();
/// let soon = Instant::now() + Duration::from_secs(60);
/// assert!(event.wait(soon)?, "the signal was kept");
/// assert!(!event.wait(Instant::now())?, "and is used up");
/// # Ok::<(), underpass::device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct DeviceEvent {
    signals: Semaphore,
}

impl DeviceEvent {
    /// One that has not happened.
    pub fn new() -> Self {
        Self { signals: Semaphore::new(0) }
    }

    /// It has happened. This never waits, so a handler may call it.
    pub fn signal(&self) {
        // Two that signal at once may leave two: the second one ends a later wait too early.
        if self.signals.available() == 0 {
            self.signals.release(1);
        }
    }

    /// Waits until it happens. Returns `false` if `deadline` passes first.
    ///
    /// # Errors
    /// [`Cancelled`](DeviceError::Cancelled), if the thread is.
    pub fn wait(&self, deadline: Instant) -> Result<bool, DeviceError> {
        match self.signals.acquire_many_until(1, deadline) {
            Ok(signal) => {
                signal.forget();
                Ok(true)
            }
            Err(AcquireTimeoutError::Timeout) => Ok(false),
            Err(AcquireTimeoutError::Cancelled) => Err(DeviceError::Cancelled),
        }
    }
}

impl Default for DeviceEvent {
    fn default() -> Self {
        Self::new()
    }
}
