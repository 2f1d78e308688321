//! A disk as a block device for clients in other domains, whatever drives it.

use crate::{BlockDevice, BlockError, BlockInfo, NvmeDisk};
use std::sync::{Arc, PoisonError};
use underpass::sync::{Condvar, Mutex, MutexGuard};

/// The most bytes of one read or write: 1 MiB.
const MOST: u32 = 1 << 20;

/// What drives a disk, for a [`DiskService`].
///
/// # Examples
/// A disk in memory:
/// ```
/// use std::sync::{Mutex, PoisonError};
/// use underpass_nvme::{BlockDevice, BlockDriver, BlockError, DiskService};
///
/// struct MemoryDisk(Mutex<Vec<u8>>);
///
/// impl MemoryDisk {
///     /// What `what` does with `len` bytes at `offset`.
///     fn at(&self, offset: u64, len: usize, what: impl FnOnce(&mut [u8])) -> Result<(), BlockError> {
///         let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
///         let at = usize::try_from(offset).ok().filter(|at| at % 512 == 0 && len % 512 == 0);
///         let range = at.and_then(|at| Some(at..at.checked_add(len)?));
///         let part = range.and_then(|range| bytes.get_mut(range)).ok_or(BlockError::OutOfBounds)?;
///         Ok(what(part))
///     }
/// }
///
/// impl BlockDriver for MemoryDisk {
///     type Error = BlockError;
///
///     fn geometry(&self) -> Result<(u32, u64), BlockError> {
///         Ok((512, 4096))
///     }
///     fn model(&self) -> Result<String, BlockError> {
///         Ok("memory".to_owned())
///     }
///     fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<(), BlockError> {
///         self.at(offset, to.len(), |bytes| to.copy_from_slice(bytes))
///     }
///     fn write_at(&self, offset: u64, from: &[u8]) -> Result<(), BlockError> {
///         self.at(offset, from.len(), |bytes| bytes.copy_from_slice(from))
///     }
///     fn flush_all(&self) -> Result<(), BlockError> {
///         Ok(())
///     }
///     fn recover_from(&self, _: &BlockError) {}
/// }
///
/// let disk = DiskService::new(MemoryDisk(Mutex::new(vec![0; 4096])));
/// disk.write(512, &[7; 512])?;
/// assert_eq!(disk.read(512, 512)?, [7; 512]);
/// assert_eq!(disk.read(3584, 1024), Err(BlockError::OutOfBounds));
/// # Ok::<(), BlockError>(())
/// ```
pub trait BlockDriver: Send + Sync + 'static {
    /// Why a command failed.
    type Error: Into<BlockError>;

    /// Bytes of a block, and of the disk.
    ///
    /// # Errors
    /// The disk fails.
    fn geometry(&self) -> Result<(u32, u64), Self::Error>;

    /// What the disk says that it is.
    ///
    /// # Errors
    /// The disk fails.
    fn model(&self) -> Result<String, Self::Error>;

    /// Fills `bytes` from the disk's byte `offset` on.
    ///
    /// # Errors
    /// They are not whole blocks of the disk. The disk fails.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Self::Error>;

    /// Writes `bytes` to the disk's byte `offset` and what follows.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Makes all writes that have returned last.
    ///
    /// # Errors
    /// The disk fails.
    fn flush_all(&self) -> Result<(), Self::Error>;

    /// Resets the disk, if a command that has failed with `error` shows that it needs that. If the
    /// reset fails, the next command that fails tries again.
    fn recover_from(&self, error: &Self::Error);
}

/// Serves a disk to clients, whatever drives it. If a command is late, or the disk fails, it is
/// reset, and later commands go on.
///
/// # Examples
/// ```
/// use underpass::Server;
/// use underpass::device::{Device, DeviceSource};
/// use underpass_nvme::{BlockDevice, BlockDeviceClient, DiskOptions, DiskService, NvmeDisk};
///
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-disk-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// # let (socket, _device) = underpass_test_device::start_nvme()?;
/// // The driver's process:
/// let device = Device::open(DeviceSource::vfio_user_socket(socket))?;
/// let disk = NvmeDisk::open(device, DiskOptions::default())?;
/// let service = BlockDevice::serve(DiskService::new(disk));
/// let running = Server::new().export("disk", service).start()?;
///
/// // A client's; in this example the same, so that the calls are direct:
/// let disk = BlockDeviceClient::import("disk")?;
/// disk.write(0, &vec![1; 65_536])?;
/// assert_eq!(disk.read(61_440, 4096)?, [1; 4096]);
/// # drop(running);
/// # std::fs::remove_dir(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A driver that [replaces](underpass::Server::replace) another one serves before it has the disk,
/// which the other one leaves only then. Calls wait for the disk. Clones are the same service.
#[derive(Debug)]
pub struct DiskService<D = NvmeDisk> {
    place: Arc<DiskPlace<D>>,
}

impl<D> Clone for DiskService<D> {
    fn clone(&self) -> Self {
        Self { place: Arc::clone(&self.place) }
    }
}

#[derive(Debug)]
struct DiskPlace<D> {
    disk: Mutex<DiskState<D>>,
    changed: Condvar,
}

#[derive(Debug)]
enum DiskState<D> {
    Awaited,
    Here(Arc<D>),
    Left,
}

impl<D: BlockDriver> DiskService<D> {
    /// Serves `disk`.
    pub fn new(disk: D) -> Self {
        let service = Self::awaiting();
        service.arrive(disk);
        service
    }

    /// Serves a disk that is still to come. Calls wait for it.
    ///
    /// # Examples
    /// ```
    /// use underpass::device::{Device, DeviceSource};
    /// use underpass_nvme::{BlockDevice, DiskOptions, DiskService, NvmeDisk};
    ///
    /// let service = DiskService::awaiting();
    /// let waiting = underpass::thread::spawn({
    ///     let service = service.clone();
    ///     move || service.flush()
    /// });
    /// # let (socket, _device) = underpass_test_device::start_nvme()?;
    /// let device = Device::open(DeviceSource::vfio_user_socket(socket))?;
    /// service.arrive(NvmeDisk::open(device, DiskOptions::default())?);
    /// waiting.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn awaiting() -> Self {
        let place = DiskPlace { disk: Mutex::new(DiskState::Awaited), changed: Condvar::new() };
        Self { place: Arc::new(place) }
    }

    fn state(&self) -> MutexGuard<'_, DiskState<D>> {
        self.place.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk is there. Calls that wait for it go on.
    pub fn arrive(&self, disk: D) {
        let mut state = self.state();
        if matches!(*state, DiskState::Awaited) {
            *state = DiskState::Here(Arc::new(disk));
        }
        drop(state);
        self.place.changed.notify_all();
    }

    /// Takes the disk out, to [hand it over](NvmeDisk::hand_over). Later calls fail. If the disk is
    /// still to come, this waits for it: the next driver gets it from nobody else. `None`: it was
    /// taken out already, or a call is under way.
    pub fn leave(&self) -> Option<D> {
        let awaited = |state: &mut DiskState<D>| matches!(*state, DiskState::Awaited);
        let waited = self.place.changed.wait_while(self.state(), awaited);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let was = std::mem::replace(&mut *state, DiskState::Left);
        drop(state);
        self.place.changed.notify_all();
        match was {
            DiskState::Here(disk) => Arc::into_inner(disk),
            _ => None,
        }
    }

    /// The disk, if it is there.
    pub fn disk(&self) -> Option<Arc<D>> {
        match &*self.state() {
            DiskState::Here(disk) => Some(Arc::clone(disk)),
            _ => None,
        }
    }

    /// The disk, as soon as it is there.
    fn await_disk(&self) -> Result<Arc<D>, BlockError> {
        let mut state = self.state();
        loop {
            match &*state {
                DiskState::Here(disk) => return Ok(Arc::clone(disk)),
                DiskState::Left => return Err(BlockError::Restarted),
                DiskState::Awaited if underpass::thread::cancelled() => return Err(BlockError::Restarted),
                DiskState::Awaited => {}
            }
            state = self.place.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs `what`. If the disk needs a reset afterwards, resets it.
    fn attempt<T>(&self, what: impl FnOnce(&D) -> Result<T, D::Error>) -> Result<T, BlockError> {
        let disk = self.await_disk()?;
        what(&disk).map_err(|e| {
            disk.recover_from(&e);
            e.into()
        })
    }
}

impl<D: BlockDriver> BlockDevice for DiskService<D> {
    fn info(&self) -> Result<BlockInfo, BlockError> {
        self.attempt(|disk| {
            let ((block, size), model) = (disk.geometry()?, disk.model()?);
            Ok(BlockInfo { block, size, most: MOST, model })
        })
    }

    fn read(&self, offset: u64, len: u32) -> Result<Vec<u8>, BlockError> {
        if len > MOST {
            return Err(BlockError::OutOfBounds);
        }
        self.attempt(|disk| {
            let mut bytes = vec![0; len as usize];
            disk.read_at(offset, &mut bytes)?;
            Ok(bytes)
        })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), BlockError> {
        if bytes.len() > MOST as usize {
            return Err(BlockError::OutOfBounds);
        }
        self.attempt(|disk| disk.write_at(offset, bytes))
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.attempt(D::flush_all)
    }
}
