//! The holder's side: it opens the device, and lends it to one driver after another.

use crate::backing::Backing;
use crate::holder::hold_message::{HANDED_OVER, HeldWay, HoldMessage};
use crate::iova::{FIRST, PAGE};
use crate::{DeviceError, DeviceSource};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;
use underpass_os::{DeviceMemory, DeviceStream, Memory, StreamEvent};
use underpass_sync::{Condvar, Mutex, MutexGuard};
use underpass_threads::blocking;

/// How a driver has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverEnd {
    /// It has [handed the device over](crate::Device::hand_over): the next one goes on with the
    /// device's queues.
    HandedOver,
    /// It has died, or closed the device. The device is reset before the next driver gets it.
    Died,
}

/// Keeps a device, and memory for its DMA, while drivers come and go: in a process of its own, a
/// driver's death costs neither.
///
/// A driver that starts gets the device, and the memory as the last driver left it. The memory is
/// used for something else only after the device was reset, and is freed only after the device was
/// closed.
///
/// *When to use it:* a driver that may be killed or replaced while its device has work. *When not:*
/// a driver that starts its device anew each time opens the device itself.
///
/// # Examples
/// ```
/// use std::os::unix::net::UnixStream;
/// use std::time::{Duration, Instant};
/// use underpass::device::{Device, DeviceHolder, DeviceSource, DriverEnd, HeldDevice};
///
/// # let (socket, _device) = underpass_test_device::start_edu()?;
/// // The holder's process:
/// let holder = DeviceHolder::open(DeviceSource::vfio_user_socket(socket), 1 << 20)?;
/// let (ours, theirs) = UnixStream::pair()?;
/// let lending = std::thread::spawn(move || holder.lend(ours));
///
/// // The driver's, which has got the other end of the socket:
/// let soon = Instant::now() + Duration::from_secs(60);
/// let device = Device::open(DeviceSource::held(HeldDevice::take(theirs, soon)?))?;
/// let memory = device.kept_memory(0, 4096)?;
/// memory.copy_in(0, b"for the next driver")?;
/// drop((memory, device));
/// assert_eq!(lending.join().unwrap()?, DriverEnd::Died);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DeviceHolder {
    order: Mutex<HolderOrder>,
    /// A driver's turn has ended.
    ended: Condvar,
    /// Held by the driver whose turn it is.
    turn: Mutex<Turn>,
    again: Option<DeviceSource>,
    /// Freed after the device is closed.
    memory: DeviceMemory,
    file: OwnedFd,
}

/// Drivers get the device in the order in which they have asked. Otherwise the successor of a
/// successor could come first. The one in between would wait for calls that wait for the device.
#[derive(Debug, Default)]
struct HolderOrder {
    /// The number of the next driver that asks.
    next: u64,
    /// The number of the driver whose turn it is.
    serving: u64,
}

/// A driver's turn. The next one's begins when this is dropped.
struct TurnHeld<'a>(&'a DeviceHolder);

impl<'a> TurnHeld<'a> {
    /// H1.
    fn await_turn(holder: &'a DeviceHolder) -> Self {
        let mut order = holder.order();
        let own = order.next;
        order.next += 1;
        let waited = holder.ended.wait_while(order, |order| order.serving != own);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        Self(holder)
    }
}

impl Drop for TurnHeld<'_> {
    fn drop(&mut self) {
        self.0.order().serving += 1;
        self.0.ended.notify_all();
    }
}

#[derive(Debug)]
struct Turn {
    /// `None` only while it is opened again, and after that has failed.
    backing: Option<Box<dyn Backing>>,
    state: HeldState,
    /// How many drivers have died.
    deaths: u16,
}

/// In what state the device is between two drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeldState {
    /// As it was first opened.
    Fresh,
    HandedOver,
    /// It may be doing anything.
    Unknown,
}

impl DeviceHolder {
    /// Opens a device, with at least `memory` bytes for its DMA, which are zero at first.
    ///
    /// # Errors
    /// Those of [`Device::open`](crate::Device::open). There is no memory.
    pub fn open(source: DeviceSource, memory: usize) -> Result<Self, DeviceError> {
        let len = memory.max(1).checked_next_multiple_of(PAGE as usize);
        let len = len.ok_or(DeviceError::Unsupported("so much memory"))?;
        let (memory, file) = Memory::create("underpass-held", len)?;
        // Lack of memory is an error now, not a fault later.
        memory.fill(len)?;
        let again = source.again();
        let holder = Self {
            order: Mutex::default(),
            ended: Condvar::new(),
            turn: Mutex::new(Turn { backing: None, state: HeldState::Fresh, deaths: 0 }),
            again,
            memory: DeviceMemory::new(memory),
            file,
        };
        holder.turn().backing = Some(holder.connect(source)?);
        Ok(holder)
    }

    fn order(&self) -> MutexGuard<'_, HolderOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the device, and lets it access the memory.
    fn connect(&self, source: DeviceSource) -> Result<Box<dyn Backing>, DeviceError> {
        let (backing, held) = source.open()?;
        if held.is_some() || backing.files().is_empty() {
            return Err(DeviceError::Unsupported("holder, the way that it is reached"));
        }
        backing.map_dma(FIRST, &self.memory, self.file.as_fd())?;
        Ok(backing)
    }

    /// Lends the device to the driver at the other end of `driver`, and waits until that driver
    /// hands it over or ends. If other drivers have asked before, this waits for their ends
    /// first.
    ///
    /// # Errors
    /// The device can't be reset, or is gone, and can't be opened again.
    pub fn lend(&self, driver: impl Into<OwnedFd>) -> Result<DriverEnd, DeviceError> {
        self.lend_and(driver, || {})
    }

    /// The same, and calls `lent` as soon as the driver has the device.
    ///
    /// # Errors
    /// As [`lend`](Self::lend).
    pub fn lend_and(
        &self,
        driver: impl Into<OwnedFd>,
        lent: impl FnOnce(),
    ) -> Result<DriverEnd, DeviceError> {
        let driver = DeviceStream::adopt(driver.into())?;
        let _own = TurnHeld::await_turn(self);
        let mut turn = self.turn();
        self.make_known(&mut turn)?;
        let Some(backing) = &turn.backing else { return Err(DeviceError::Gone) };
        let files = backing.files();
        let way = if files.len() == 1 { HeldWay::VfioUser } else { HeldWay::VfioPci };
        let handed_over = turn.state == HeldState::HandedOver;
        let message = HoldMessage { way, handed_over, iova: FIRST, len: self.memory.len() as u64 };
        let files: Vec<_> = std::iter::once(self.file.as_fd()).chain(files).collect();
        if driver.send(&message.encode(), &files).is_err() {
            // It has ended without the device, which is as it was.
            return Ok(DriverEnd::Died);
        }
        turn.state = HeldState::Unknown;
        lent();
        let end = blocking(|| until_end(&driver));
        match end {
            DriverEnd::HandedOver => turn.state = HeldState::HandedOver,
            // If this fails, the next driver has it tried again.
            DriverEnd::Died => drop(self.make_known(&mut turn)),
        }
        Ok(end)
    }

    /// Resets a device whose driver has died. If it can't be reset, opens it again.
    fn make_known(&self, turn: &mut Turn) -> Result<(), DeviceError> {
        if turn.state != HeldState::Unknown && turn.backing.is_some() {
            return Ok(());
        }
        turn.deaths = turn.deaths.wrapping_add(1);
        let reset = turn.backing.as_ref().map_or(Err(DeviceError::Gone), |it| it.reset_after(turn.deaths));
        if let Err(e) = reset {
            let source = self.again.as_ref().and_then(DeviceSource::again).ok_or(e)?;
            // The device forgets the memory when it is closed.
            turn.backing.take().inspect(|backing| backing.close());
            turn.backing = Some(self.connect(source)?);
        }
        turn.state = HeldState::Fresh;
        Ok(())
    }
}

/// Waits until the driver has closed its end.
fn until_end(driver: &DeviceStream) -> DriverEnd {
    let mut end = DriverEnd::Died;
    loop {
        let mut byte = [0];
        match driver.receive(&mut byte, &mut Vec::new()) {
            Ok(0) => return end,
            Ok(_) if byte[0] == HANDED_OVER => end = DriverEnd::HandedOver,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                // Only the driver's end ends the wait.
                let _ = driver.wait(StreamEvent::Readable, u64::MAX / 2);
            }
            // It was killed with something unread.
            Err(_) => return DriverEnd::Died,
        }
    }
}

impl Drop for DeviceHolder {
    fn drop(&mut self) {
        if let Some(backing) = self.turn().backing.take() {
            // Closing it would do, but a device that is reset is still then.
            let _ = backing.reset();
            backing.close();
        }
    }
}
