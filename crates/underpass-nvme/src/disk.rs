//! A disk: reads, writes, flushes, and resets.

use crate::controller::{Controller, Transfer, VECTOR};
use crate::registers::ControllerRegisters;
use crate::{BlockDriver, NvmeError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use underpass::device::{
    Device, DeviceError, EnabledInterrupt, InterruptCounts, InterruptOutcome, WaitingMode,
};
use underpass::sync;
use underpass::thread::{self, no_preempt};

/// How long queues that another driver has left may take to answer. Then the controller is started,
/// which is right in any case.
const TAKING_OVER: Duration = Duration::from_secs(2);

/// How a disk is driven.
#[derive(Clone, Copy, Debug)]
pub struct DiskOptions {
    patience: Duration,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(30) }
    }
}

impl DiskOptions {
    /// For so long a command may take, and each step of a start. The default is 30 s, as in Linux.
    #[must_use]
    pub fn patience(self, span: Duration) -> Self {
        Self { patience: span }
    }
}

/// What has happened at a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskCounts {
    /// Its interrupts, and how threads waited.
    pub interrupts: InterruptCounts,
    /// Completions since the last start that were for no command under way.
    pub lies: u64,
}

/// An NVMe disk. Any number of threads may use it at once.
///
/// # Examples
/// ```
/// use underpass::device::{Device, DeviceSource};
/// use underpass_nvme::{DiskOptions, NvmeDisk};
///
/// # let (socket, _device) = underpass_test_device::start_nvme()?;
/// let device = Device::open(DeviceSource::vfio_user_socket(socket))?;
/// let disk = NvmeDisk::open(device, DiskOptions::default())?;
/// disk.write(8192, &[7; 4096])?;
/// disk.flush()?;
/// let mut bytes = [0; 4096];
/// disk.read(8192, &mut bytes)?;
/// assert_eq!(bytes, [7; 4096]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NvmeDisk {
    device: Device,
    registers: ControllerRegisters,
    options: DiskOptions,
    interrupt: EnabledInterrupt,
    running: Arc<Running>,
    /// Held by the thread that resets the disk.
    resetting: sync::Mutex<()>,
    /// The next driver goes on with the controller.
    handed_over: AtomicBool,
}

/// The controller that runs, for the handler and for commands. `None` while the disk is reset, and
/// after a reset that failed.
#[derive(Debug, Default)]
struct Running {
    controller: Mutex<Option<Arc<Controller>>>,
}

impl Running {
    fn with<R>(&self, what: impl FnOnce(&mut Option<Arc<Controller>>) -> R) -> R {
        // The handler takes this lock, so its holder is not preempted.
        let _section = no_preempt();
        what(&mut self.controller.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn get(&self) -> Option<Arc<Controller>> {
        self.with(|controller| controller.clone())
    }
}

impl NvmeDisk {
    /// Starts the controller of `device`.
    ///
    /// # Errors
    /// The device is no such disk, fails, or is late.
    pub fn open(device: Device, options: DiskOptions) -> Result<Self, NvmeError> {
        let registers = ControllerRegisters::new(device.map_bar(0)?)?;
        let running = Arc::new(Running::default());
        let handled = Arc::clone(&running);
        let interrupt = device.interrupt(VECTOR.into())?.register_for_waiters(move |upcall| {
            if upcall.interrupts == 0 {
                // The device is gone, or a storm is over.
                upcall.wake_all();
            }
            match handled.get().map_or(0, |controller| controller.queue.drain()) {
                0 => InterruptOutcome::Nothing,
                _ => InterruptOutcome::Handled,
            }
        })?;
        let (resetting, handed_over) = (sync::Mutex::new(()), AtomicBool::new(false));
        let disk = Self { device, registers, options, interrupt, running, resetting, handed_over };
        // If the queues can't be taken over, the controller is started.
        let soon = Instant::now() + disk.options.patience.min(TAKING_OVER);
        match Controller::take_over(&disk.device, &disk.registers, soon) {
            Ok(Some(controller)) => disk.running.with(|running| *running = Some(Arc::new(controller))),
            Ok(None) | Err(_) => disk.reset()?,
        }
        Ok(disk)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.options.patience
    }

    fn controller(&self) -> Result<Arc<Controller>, NvmeError> {
        self.running.get().ok_or(NvmeError::Stopped)
    }

    /// Stops the controller and starts it again. Commands under way end with
    /// [`Reset`](NvmeError::Reset): they may have been done, or not.
    ///
    /// # Errors
    /// The controller does not stop, or does not start. Then the disk takes no commands.
    pub fn reset(&self) -> Result<(), NvmeError> {
        let _one = self.resetting.lock().unwrap_or_else(PoisonError::into_inner);
        self.restart()
    }

    /// Resets the disk if it [needs a reset](Self::needs_reset). Of threads that find this at the
    /// same time, one resets it.
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    pub fn recover(&self) -> Result<(), NvmeError> {
        let _one = self.resetting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.needs_reset() { self.restart() } else { Ok(()) }
    }

    fn restart(&self) -> Result<(), NvmeError> {
        let deadline = self.deadline();
        let mut old = self.running.with(Option::take);
        if let Some(old) = &old {
            old.queue.stop();
        }
        if self.device.kept().is_some() {
            // The new one uses the same memory, which its holder keeps.
            if let Some(old) = old.take() {
                sole(old, deadline)?;
            }
        }
        // The old one's memory stays until the controller is disabled, in the next line. If it does
        // not stop, the device keeps the memory until it is reset or closed.
        let started = Controller::start(&self.device, &self.registers, deadline);
        drop(old);
        let controller = Arc::new(started?);
        self.running.with(|running| *running = Some(controller));
        Ok(())
    }

    /// Checks that these are whole blocks of the disk. Returns the first one.
    fn check(controller: &Controller, offset: u64, len: usize) -> Result<u64, NvmeError> {
        let block = controller.identity.block as u64;
        let size = controller.identity.blocks * block;
        let whole = offset.is_multiple_of(block) && (len as u64).is_multiple_of(block);
        let inside = offset.checked_add(len as u64).is_some_and(|end| end <= size);
        if whole && inside { Ok(offset / block) } else { Err(NvmeError::OutOfBounds) }
    }

    /// Fills `bytes` from the disk's byte `offset` on.
    ///
    /// # Errors
    /// [`OutOfBounds`](NvmeError::OutOfBounds): they are not whole blocks of the disk. The disk
    /// fails, is late, or was reset.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), NvmeError> {
        let controller = self.controller()?;
        let mut block = Self::check(&controller, offset, bytes.len())?;
        for part in bytes.chunks_mut(controller.most()) {
            let blocks = part.len() / controller.identity.block;
            controller.transfer(block, Transfer::Read(part), &self.interrupt, self.deadline())?;
            block += blocks as u64;
        }
        Ok(())
    }

    /// Writes `bytes` to the disk's byte `offset` and what follows. If it fails, any part of them
    /// may have been written.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), NvmeError> {
        let controller = self.controller()?;
        let mut block = Self::check(&controller, offset, bytes.len())?;
        for part in bytes.chunks(controller.most()) {
            controller.transfer(block, Transfer::Write(part), &self.interrupt, self.deadline())?;
            block += (part.len() / controller.identity.block) as u64;
        }
        Ok(())
    }

    /// Makes all writes that have returned last, also if the power fails.
    ///
    /// # Errors
    /// The disk fails, is late, or was reset.
    pub fn flush(&self) -> Result<(), NvmeError> {
        self.controller()?.flush(&self.interrupt, self.deadline())
    }

    /// Bytes of a block, and of the disk.
    ///
    /// # Errors
    /// [`Stopped`](NvmeError::Stopped): its last reset failed.
    pub fn size(&self) -> Result<(u32, u64), NvmeError> {
        let controller = self.controller()?;
        let block = controller.identity.block;
        Ok((block as u32, controller.identity.blocks * block as u64))
    }

    /// Its model and its serial number, as it says.
    ///
    /// # Errors
    /// As [`size`](Self::size).
    pub fn name(&self) -> Result<(String, String), NvmeError> {
        let controller = self.controller()?;
        Ok((controller.identity.model.clone(), controller.identity.serial.clone()))
    }

    /// Leaves the disk to the next driver, which gets it from the device's holder once `self` is
    /// dropped. The controller is not stopped, and the next driver goes on with its queues. Returns
    /// `false` if the device has no holder, or a command does not end in time; then the next driver
    /// starts the controller, and repeats the writes that were under way.
    ///
    /// # Errors
    /// The device or its holder is gone.
    pub fn hand_over(self) -> Result<bool, NvmeError> {
        let deadline = self.deadline();
        let Some(controller) = self.running.with(Option::take) else { return Ok(false) };
        let controller = sole(controller, deadline)?;
        while !controller.hand_over()? {
            if self.device.kept().is_none() || controller.queue.is_stopped() || Instant::now() >= deadline {
                return Ok(false);
            }
            thread::sleep(Duration::from_micros(100));
        }
        // A read comes after all writes, so the disk has heard of all.
        self.registers.has_failed()?;
        self.device.hand_over()?;
        // Relaxed: the drop that follows is this thread's.
        self.handed_over.store(true, Ordering::Relaxed);
        Ok(true)
    }

    /// How threads wait for commands from now on.
    pub fn wait_by(&self, mode: WaitingMode) {
        self.interrupt.wait_by(mode);
    }

    /// Whether the disk takes no commands until it is reset.
    pub fn needs_reset(&self) -> bool {
        let failed = || self.registers.has_failed().unwrap_or(true);
        self.running.get().is_none_or(|controller| controller.queue.is_stopped()) || failed()
    }

    /// What has happened.
    pub fn counts(&self) -> DiskCounts {
        let lies = self.running.get().map_or(0, |controller| controller.queue.lies());
        DiskCounts { interrupts: self.interrupt.counts(), lies }
    }
}

impl BlockDriver for NvmeDisk {
    type Error = NvmeError;

    fn geometry(&self) -> Result<(u32, u64), NvmeError> {
        self.size()
    }

    fn model(&self) -> Result<String, NvmeError> {
        Ok(self.name()?.0)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), NvmeError> {
        self.read(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), NvmeError> {
        self.write(offset, bytes)
    }

    fn flush_all(&self) -> Result<(), NvmeError> {
        self.flush()
    }

    fn recover_from(&self, error: &NvmeError) {
        if matches!(error, NvmeError::Device(DeviceError::Late(_)) | NvmeError::Stopped) {
            let _ = self.recover();
        }
    }
}

/// Waits until no thread and no handler uses the controller any more.
fn sole(mut controller: Arc<Controller>, deadline: Instant) -> Result<Controller, NvmeError> {
    loop {
        controller = match Arc::try_unwrap(controller) {
            Ok(sole) => return Ok(sole),
            Err(shared) => shared,
        };
        if Instant::now() >= deadline {
            return Err(DeviceError::Late("leave its memory").into());
        }
        thread::sleep(Duration::from_micros(100));
    }
}

impl Drop for NvmeDisk {
    fn drop(&mut self) {
        if *self.handed_over.get_mut() {
            return;
        }
        self.running.with(Option::take).inspect(|controller| controller.queue.stop());
        // So that it does not access memory that is freed. If it does not stop, the device keeps
        // the memory until it is closed.
        let _ = self.registers.disable(self.deadline());
    }
}
