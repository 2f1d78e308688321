//! The interface by which clients in other domains use a disk.

use crate::{NvmeDisk, NvmeError};
use std::fmt;
use std::sync::{Arc, PoisonError};
use underpass::device::DeviceError;
use underpass::sync::{Condvar, Mutex, MutexGuard};
use underpass::{CallError, Wire};

/// What a disk is.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
pub struct BlockInfo {
    /// Bytes of a block.
    pub block: u32,
    /// Bytes of the disk.
    pub size: u64,
    /// The most bytes of one read or write.
    pub most: u32,
    /// As the disk says.
    pub model: String,
}

/// Why a disk did not do what a client asked for.
#[derive(Clone, Debug, PartialEq, Wire)]
pub enum BlockError {
    /// The bytes are not whole blocks, lie beyond the end of the disk, or are too many.
    OutOfBounds,
    /// The disk failed, as the text says. A write may have been done in part.
    Failed(String),
    /// The driver has started the disk again while this was under way. A write may have been done
    /// in part. Repeat it.
    Restarted,
    /// The call failed: most likely the driver's process has ended.
    Call(CallError),
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds => {
                f.write_str("the bytes are not whole blocks, lie beyond the end of the disk, or are too many")
            }
            Self::Failed(why) => f.write_str(why),
            Self::Restarted => f.write_str("the disk was started again; repeat the request"),
            Self::Call(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for BlockError {}

impl From<CallError> for BlockError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

impl From<NvmeError> for BlockError {
    fn from(e: NvmeError) -> Self {
        match e {
            NvmeError::OutOfBounds => Self::OutOfBounds,
            NvmeError::Reset | NvmeError::Stopped => Self::Restarted,
            e => Self::Failed(e.to_string()),
        }
    }
}

/// A disk.
#[underpass::interface(stateless)]
pub trait BlockDevice {
    /// What the disk is.
    ///
    /// # Errors
    /// The disk or the call failed.
    #[idempotent]
    fn info(&self) -> Result<BlockInfo, BlockError>;
    /// Reads `len` bytes, from the disk's byte `offset` on.
    ///
    /// # Errors
    /// See [`BlockError`].
    #[idempotent]
    fn read(&self, offset: u64, len: u32) -> Result<Vec<u8>, BlockError>;
    /// Writes bytes to the disk's byte `offset` and what follows. Writing the same again does no
    /// harm, unless another client writes there.
    ///
    /// # Errors
    /// See [`BlockError`].
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), BlockError>;
    /// Makes all writes that have returned last.
    ///
    /// # Errors
    /// See [`BlockError`].
    #[idempotent]
    fn flush(&self) -> Result<(), BlockError>;
}

/// The most bytes of one read or write: 1 MiB.
const MOST: u32 = 1 << 20;

/// Serves a disk to clients. If a command is late, or the controller fails, the disk is reset, and
/// later commands go on.
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
#[derive(Clone, Debug)]
pub struct DiskService {
    place: Arc<DiskPlace>,
}

#[derive(Debug)]
struct DiskPlace {
    disk: Mutex<DiskState>,
    changed: Condvar,
}

#[derive(Debug)]
enum DiskState {
    Awaited,
    Here(Arc<NvmeDisk>),
    Left,
}

impl DiskService {
    /// Serves `disk`.
    pub fn new(disk: NvmeDisk) -> Self {
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

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.place.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk is there. Calls that wait for it go on.
    pub fn arrive(&self, disk: NvmeDisk) {
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
    pub fn leave(&self) -> Option<NvmeDisk> {
        let awaited = |state: &mut DiskState| matches!(*state, DiskState::Awaited);
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
    pub fn disk(&self) -> Option<Arc<NvmeDisk>> {
        match &*self.state() {
            DiskState::Here(disk) => Some(Arc::clone(disk)),
            _ => None,
        }
    }

    /// The disk, as soon as it is there.
    fn await_disk(&self) -> Result<Arc<NvmeDisk>, BlockError> {
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
    fn attempt<T>(&self, what: impl FnOnce(&NvmeDisk) -> Result<T, NvmeError>) -> Result<T, BlockError> {
        let disk = self.await_disk()?;
        what(&disk).map_err(|e| {
            let serious = matches!(e, NvmeError::Device(DeviceError::Late(_)) | NvmeError::Stopped);
            if serious {
                // If this fails, the next command tries again.
                let _ = disk.recover();
            }
            e.into()
        })
    }
}

impl BlockDevice for DiskService {
    fn info(&self) -> Result<BlockInfo, BlockError> {
        self.attempt(|disk| {
            let ((block, size), (model, _)) = (disk.size()?, disk.name()?);
            Ok(BlockInfo { block, size, most: MOST, model })
        })
    }

    fn read(&self, offset: u64, len: u32) -> Result<Vec<u8>, BlockError> {
        if len > MOST {
            return Err(BlockError::OutOfBounds);
        }
        self.attempt(|disk| {
            let mut bytes = vec![0; len as usize];
            disk.read(offset, &mut bytes)?;
            Ok(bytes)
        })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), BlockError> {
        if bytes.len() > MOST as usize {
            return Err(BlockError::OutOfBounds);
        }
        self.attempt(|disk| disk.write(offset, bytes))
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.attempt(|disk| disk.flush())
    }
}
