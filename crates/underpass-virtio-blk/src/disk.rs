//! A disk: reads, writes, flushes, and resets.

use crate::VirtioError;
use crate::registers::{Agreed, VirtioRegisters};
use crate::ring::{ENTRIES, MOST, Request, VirtioRing};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use underpass::device::{Device, DeviceError, EnabledInterrupt, InterruptCounts, InterruptOutcome};
use underpass::sync;
use underpass::thread::no_preempt;
use underpass_nvme::BlockDriver;

/// Bytes of a sector, whatever the blocks of the disk are.
const SECTOR: u64 = 512;

/// How a virtio disk is driven.
#[derive(Clone, Copy, Debug)]
pub struct VirtioDiskOptions {
    patience: Duration,
}

impl Default for VirtioDiskOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(30) }
    }
}

impl VirtioDiskOptions {
    /// For so long a request may take. The default is 30 s, as in Linux.
    #[must_use]
    pub fn patience(self, span: Duration) -> Self {
        Self { patience: span }
    }
}

/// A virtio disk. Any number of threads may use it at once.
///
/// # Examples
/// ```no_run
/// use underpass::device::{Device, DeviceSource};
/// use underpass_virtio_blk::{VirtioDisk, VirtioDiskOptions};
///
/// // `qemu-storage-daemon` with an export of the type `vhost-user-blk`.
/// let device = Device::open(DeviceSource::vhost_user("/run/disk.sock"))?;
/// let disk = VirtioDisk::open(device, VirtioDiskOptions::default())?;
/// disk.write(8192, &[7; 4096])?;
/// disk.flush()?;
/// let mut bytes = [0; 4096];
/// disk.read(8192, &mut bytes)?;
/// assert_eq!(bytes, [7; 4096]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct VirtioDisk {
    device: Device,
    registers: VirtioRegisters,
    options: VirtioDiskOptions,
    interrupt: EnabledInterrupt,
    running: Arc<RunningDisk>,
    /// Held by the thread that resets the disk.
    resetting: sync::Mutex<()>,
}

/// The queue that runs, for the handler and for requests. `None` while the disk is reset, and after
/// a reset that failed.
#[derive(Debug, Default)]
struct RunningDisk(Mutex<Option<(Arc<VirtioRing>, Agreed)>>);

impl RunningDisk {
    fn with<R>(&self, what: impl FnOnce(&mut Option<(Arc<VirtioRing>, Agreed)>) -> R) -> R {
        // The handler takes this lock, so its holder is not preempted.
        let _section = no_preempt();
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn get(&self) -> Option<(Arc<VirtioRing>, Agreed)> {
        self.with(|running| running.clone())
    }
}

impl VirtioDisk {
    /// Starts the disk.
    ///
    /// # Errors
    /// The device is no such disk, fails, or is late.
    pub fn open(device: Device, options: VirtioDiskOptions) -> Result<Self, VirtioError> {
        let registers = VirtioRegisters(device.map_bar(0)?);
        let running = Arc::new(RunningDisk::default());
        let handled = Arc::clone(&running);
        let interrupt = device.interrupt(0)?.register_for_waiters(move |upcall| {
            if upcall.interrupts == 0 {
                // The device is gone, or a storm is over.
                upcall.wake_all();
            }
            match handled.get().map_or(0, |(ring, _)| ring.drain()) {
                0 => InterruptOutcome::Nothing,
                _ => InterruptOutcome::Handled,
            }
        })?;
        let disk = Self { device, registers, options, interrupt, running, resetting: sync::Mutex::new(()) };
        disk.reset()?;
        Ok(disk)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.options.patience
    }

    fn running(&self) -> Result<(Arc<VirtioRing>, Agreed), VirtioError> {
        self.running.get().ok_or(VirtioError::Stopped)
    }

    /// Stops the disk and starts it again. Requests under way end with
    /// [`Reset`](VirtioError::Reset): they may have been done, or not.
    ///
    /// # Errors
    /// The disk does not stop, or does not start. Then it takes no requests.
    pub fn reset(&self) -> Result<(), VirtioError> {
        let _one = self.resetting.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.running.with(Option::take);
        old.iter().for_each(|(ring, _)| ring.stop());
        // The old queue's memory stays until the disk has another queue. If it does not stop, the
        // device keeps the memory until it is closed.
        self.registers.reset()?;
        let agreed = self.registers.agree()?;
        let ring = VirtioRing::new(&self.device, &self.registers)?;
        self.registers.start(ENTRIES, ring.parts())?;
        drop(old);
        self.running.with(|running| *running = Some((Arc::new(ring), agreed)));
        Ok(())
    }

    /// Whether the disk takes no requests until it is reset.
    pub fn needs_reset(&self) -> bool {
        self.running.get().is_none_or(|(ring, _)| ring.is_stopped())
    }

    /// Checks that these are whole sectors of the disk. Returns the first one.
    fn check(agreed: Agreed, offset: u64, len: usize) -> Result<u64, VirtioError> {
        let whole = offset.is_multiple_of(SECTOR) && (len as u64).is_multiple_of(SECTOR);
        let inside = offset.checked_add(len as u64).is_some_and(|end| end <= agreed.sectors * SECTOR);
        if whole && inside { Ok(offset / SECTOR) } else { Err(VirtioError::OutOfBounds) }
    }

    /// Fills `bytes` from the disk's byte `offset` on.
    ///
    /// # Errors
    /// [`OutOfBounds`](VirtioError::OutOfBounds): they are not whole sectors of the disk. The disk
    /// fails, is late, or was reset.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), VirtioError> {
        let (ring, agreed) = self.running()?;
        let mut sector = Self::check(agreed, offset, bytes.len())?;
        for part in bytes.chunks_mut(MOST) {
            let sectors = part.len() as u64 / SECTOR;
            ring.run(sector, Request::Read(part), &self.interrupt, self.deadline())?;
            sector += sectors;
        }
        Ok(())
    }

    /// Writes `bytes` to the disk's byte `offset` and what follows. If it fails, any part of them
    /// may have been written.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), VirtioError> {
        let (ring, agreed) = self.running()?;
        let mut sector = Self::check(agreed, offset, bytes.len())?;
        for part in bytes.chunks(MOST) {
            ring.run(sector, Request::Write(part), &self.interrupt, self.deadline())?;
            sector += part.len() as u64 / SECTOR;
        }
        Ok(())
    }

    /// Makes all writes that have returned last, also if the power fails. A disk without such a
    /// request has them last at once.
    ///
    /// # Errors
    /// The disk fails, is late, or was reset.
    pub fn flush(&self) -> Result<(), VirtioError> {
        let (ring, agreed) = self.running()?;
        if agreed.flushes {
            ring.run(0, Request::Flush, &self.interrupt, self.deadline())?;
        }
        Ok(())
    }

    /// Bytes of the disk.
    ///
    /// # Errors
    /// [`Stopped`](VirtioError::Stopped): its last reset failed.
    pub fn size(&self) -> Result<u64, VirtioError> {
        Ok(self.running()?.1.sectors * SECTOR)
    }

    /// Its interrupts and how threads waited; and ended requests that were never under way, since
    /// the last start.
    pub fn counts(&self) -> (InterruptCounts, u64) {
        (self.interrupt.counts(), self.running.get().map_or(0, |(ring, _)| ring.lies()))
    }
}

impl Drop for VirtioDisk {
    fn drop(&mut self) {
        self.running.with(Option::take).iter().for_each(|(ring, _)| ring.stop());
        // So that it does not access memory that is freed. The device keeps the memory until it is
        // closed.
        let _ = self.registers.reset();
    }
}

impl BlockDriver for VirtioDisk {
    type Error = VirtioError;

    fn geometry(&self) -> Result<(u32, u64), VirtioError> {
        Ok((SECTOR as u32, self.size()?))
    }

    fn model(&self) -> Result<String, VirtioError> {
        Ok("virtio disk".to_owned())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), VirtioError> {
        self.read(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), VirtioError> {
        self.write(offset, bytes)
    }

    fn flush_all(&self) -> Result<(), VirtioError> {
        self.flush()
    }

    fn recover_from(&self, error: &VirtioError) {
        let serious = matches!(error, VirtioError::Device(DeviceError::Late(_)) | VirtioError::Stopped);
        if serious && self.needs_reset() {
            let _ = self.reset();
        }
    }
}
