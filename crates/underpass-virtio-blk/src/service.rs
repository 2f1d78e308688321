//! The disk as a block device for clients in other domains.

use crate::{VirtioDisk, VirtioError};
use underpass::device::DeviceError;
use underpass_nvme::{BlockDevice, BlockError, BlockInfo};

/// The most bytes of one read or write: 1 MiB.
const MOST: u32 = 1 << 20;

/// Serves a virtio disk to clients, by the interface [`BlockDevice`]. If a request is late, the
/// disk is reset, and later requests go on.
///
/// # Examples
/// ```no_run
/// use underpass::Server;
/// use underpass::device::{Device, DeviceSource};
/// use underpass_nvme::BlockDevice;
/// use underpass_virtio_blk::{VirtioDisk, VirtioDiskOptions, VirtioDiskService};
///
/// let device = Device::open(DeviceSource::vhost_user("/run/disk.sock"))?;
/// let disk = VirtioDisk::open(device, VirtioDiskOptions::default())?;
/// Server::new().export("disk", BlockDevice::serve(VirtioDiskService::new(disk))).run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct VirtioDiskService {
    disk: VirtioDisk,
}

impl VirtioDiskService {
    /// Serves `disk`.
    pub fn new(disk: VirtioDisk) -> Self {
        Self { disk }
    }

    /// Runs `what`. If the disk needs a reset afterwards, resets it.
    fn attempt<T>(&self, what: impl FnOnce(&VirtioDisk) -> Result<T, VirtioError>) -> Result<T, BlockError> {
        what(&self.disk).map_err(|e| {
            let serious = matches!(e, VirtioError::Device(DeviceError::Late(_)) | VirtioError::Stopped);
            if serious && self.disk.needs_reset() {
                // If this fails, the next request tries again.
                let _ = self.disk.reset();
            }
            match e {
                VirtioError::OutOfBounds => BlockError::OutOfBounds,
                VirtioError::Reset | VirtioError::Stopped => BlockError::Restarted,
                e => BlockError::Failed(e.to_string()),
            }
        })
    }
}

impl BlockDevice for VirtioDiskService {
    fn info(&self) -> Result<BlockInfo, BlockError> {
        self.attempt(|disk| {
            let model = "virtio disk".to_owned();
            Ok(BlockInfo { block: 512, size: disk.size()?, most: MOST, model })
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
        self.attempt(VirtioDisk::flush)
    }
}
