//! PCI devices by the kernel's `vfio-pci`: registers, interrupts and memory behind an IOMMU.

use crate::{DeviceMemory, EventFd, Memory};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// A PCI device that this process drives.
#[derive(Debug)]
pub struct VfioDevice {
    device: File,
    container: OwnedFd,
    /// Kept: without its group the container forgets its memory.
    group: OwnedFd,
}

/// What a device is.
#[derive(Clone, Copy, Debug)]
pub struct VfioInfo {
    /// It can be reset.
    pub resets: bool,
    /// How many regions it has.
    pub regions: u32,
}

/// One region of a device.
#[derive(Clone, Debug)]
pub struct VfioRegion {
    /// Bytes.
    pub size: u64,
    /// Where it begins in the device's file.
    offset: u64,
    /// The parts that can be mapped: where each begins in the region, and its length.
    pub parts: Vec<(u64, u64)>,
}

/// The kinds of interrupts of a PCI device that need no unmasking after each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum VfioInterrupts {
    /// Message-signalled.
    Msi = 1,
    /// The same, with more vectors.
    MsiX = 2,
}

/// The region that holds the configuration space of a PCI device.
const CONFIGURATION: u32 = 7;
/// Offset of the command register there, and its bits: memory accesses are answered, DMA may begin.
const COMMAND: u64 = 4;
const ENABLED: u16 = 0b110;

/// `_IO(';', 100 + n)` of the kernel's `vfio.h`.
const fn request(n: u32) -> u32 {
    0x3b64 + n
}

const SET_IOMMU: u32 = request(2);
const GROUP_STATUS: u32 = request(3);
const SET_CONTAINER: u32 = request(4);
const GET_DEVICE: u32 = request(6);
const DEVICE_INFO: u32 = request(7);
const REGION_INFO: u32 = request(8);
const IRQ_INFO: u32 = request(9);
const SET_IRQS: u32 = request(10);
const RESET: u32 = request(11);
const MAP_DMA: u32 = request(13);
const UNMAP_DMA: u32 = request(14);

/// The second version of the interface to IOMMUs (`VFIO_TYPE1v2_IOMMU`).
const TYPE1: i32 = 3;
/// All devices of the group are free for this process.
const VIABLE: u32 = 1;
/// Of regions: can be mapped; more about it follows.
const CAN_MAP: u32 = 4;
const CAPABILITIES: u32 = 8;
/// The capability that lists the parts that can be mapped.
const SPARSE_MAP: u32 = 1;
/// Event counters follow, and trigger from now on.
const EVENTS: u32 = 4 | 32;
/// No data follow: all vectors of the kind are disabled.
const DISABLE: u32 = 1 | 32;

/// Arguments of requests are arrays of words, as `vfio.h` lays them out. The first word is the
/// number of bytes.
fn ask(file: impl AsFd, request: u32, words: &mut [u32]) -> io::Result<()> {
    words[0] = size_of_val(words) as u32;
    // SAFETY: each of these requests reads and writes at most as many bytes as the first word says.
    let done = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), u64::from(request), words.as_mut_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn long(words: &[u32], at: usize) -> u64 {
    u64::from(words[at]) | u64::from(words[at + 1]) << 32
}

fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

impl VfioDevice {
    /// Opens the device at `address`, such as `0000:00:03.0`, which `vfio-pci` has to hold.
    ///
    /// # Errors
    /// `NotFound`: there is no such device, no IOMMU, or another driver holds the device.
    /// `ResourceBusy`: another driver holds a device of its group. `PermissionDenied`.
    pub fn open(address: &str) -> io::Result<Self> {
        let group = fs::read_link(format!("/sys/bus/pci/devices/{address}/iommu_group"))?;
        let name = group.file_name().ok_or(io::ErrorKind::NotFound)?.to_string_lossy().into_owned();
        let open = |path: String| fs::OpenOptions::new().read(true).write(true).open(path).map(OwnedFd::from);
        let (container, group) = (open("/dev/vfio/vfio".into())?, open(format!("/dev/vfio/{name}"))?);
        let mut status = [0; 2];
        ask(&group, GROUP_STATUS, &mut status)?;
        if status[1] & VIABLE == 0 {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another driver holds a device of the same IOMMU group",
            ));
        }
        let number = container.as_raw_fd();
        // SAFETY: the request reads one number.
        let set = unsafe { libc::ioctl(group.as_raw_fd(), u64::from(SET_CONTAINER), &raw const number) };
        // SAFETY: the request takes a number.
        if set < 0 || unsafe { libc::ioctl(container.as_raw_fd(), u64::from(SET_IOMMU), TYPE1) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let address = std::ffi::CString::new(address)?;
        // SAFETY: the request reads a string that ends in a zero.
        let device = unsafe { libc::ioctl(group.as_raw_fd(), u64::from(GET_DEVICE), address.as_ptr()) };
        if device < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has opened it just now, and nothing owns it yet.
        let device = unsafe { OwnedFd::from_raw_fd(device) };
        Self::adopt(device, container, group)
    }

    /// Takes over a device that another process has opened and passed.
    ///
    /// # Errors
    /// The descriptors are not those of a device.
    pub fn adopt(device: OwnedFd, container: OwnedFd, group: OwnedFd) -> io::Result<Self> {
        let device = Self { device: device.into(), container, group };
        device.enable()?;
        Ok(device)
    }

    /// Lets the device answer accesses and begin DMA.
    fn enable(&self) -> io::Result<()> {
        let configuration = self.region(CONFIGURATION)?;
        let mut command = [0; 2];
        self.read(&configuration, COMMAND, &mut command)?;
        let enabled = u16::from_le_bytes(command) | ENABLED;
        self.write(&configuration, COMMAND, &enabled.to_le_bytes())
    }

    /// The files of the device, of its container and of its group, for another process to
    /// [adopt](Self::adopt).
    pub fn files(&self) -> [BorrowedFd<'_>; 3] {
        [self.device.as_fd(), self.container.as_fd(), self.group.as_fd()]
    }

    /// What the device is.
    ///
    /// # Errors
    /// The errors of `ioctl`.
    pub fn info(&self) -> io::Result<VfioInfo> {
        let mut words = [0; 5];
        ask(&self.device, DEVICE_INFO, &mut words)?;
        Ok(VfioInfo { resets: words[1] & 1 != 0, regions: words[2] })
    }

    /// One region of the device.
    ///
    /// # Errors
    /// `InvalidInput`: there is no such region.
    pub fn region(&self, number: u32) -> io::Result<VfioRegion> {
        let mut words = vec![0; 8];
        words[2] = number;
        ask(&self.device, REGION_INFO, &mut words)?;
        let wanted = words[0] as usize / size_of::<u32>();
        if words[1] & CAPABILITIES != 0 && (9..1024).contains(&wanted) {
            words = vec![0; wanted];
            words[2] = number;
            ask(&self.device, REGION_INFO, &mut words)?;
        }
        let (size, offset) = (long(&words, 4), long(&words, 6));
        let parts = match words[1] & CAN_MAP {
            0 => Vec::new(),
            _ => parts(&words).unwrap_or_else(|| vec![(0, size)]),
        };
        Ok(VfioRegion { size, offset, parts })
    }

    /// Maps a part of a region.
    ///
    /// # Errors
    /// The errors of `mmap`.
    pub fn map(&self, region: &VfioRegion, (begin, len): (u64, u64)) -> io::Result<DeviceMemory> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        Ok(DeviceMemory::new(Memory::of_device(self.device.as_fd(), region.offset + begin, len)?))
    }

    /// Reads registers that are not mapped.
    ///
    /// # Errors
    /// The errors of `pread`.
    pub fn read(&self, region: &VfioRegion, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.device.read_exact_at(bytes, region.offset + offset)
    }

    /// Writes registers that are not mapped.
    ///
    /// # Errors
    /// The errors of `pwrite`.
    pub fn write(&self, region: &VfioRegion, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.device.write_all_at(bytes, region.offset + offset)
    }

    /// How many vectors of a kind the device has.
    ///
    /// # Errors
    /// The errors of `ioctl`.
    pub fn vectors(&self, kind: VfioInterrupts) -> io::Result<u32> {
        let mut words = [0, 0, kind as u32, 0];
        ask(&self.device, IRQ_INFO, &mut words)?;
        Ok(words[3])
    }

    /// Enables `count` vectors of a kind, none of which signals anything yet.
    ///
    /// # Errors
    /// There are not as many. The errors of `ioctl`.
    pub fn enable_vectors(&self, kind: VfioInterrupts, count: u32) -> io::Result<()> {
        let mut words = vec![0, EVENTS, kind as u32, 0, count];
        words.resize(5 + count as usize, u32::MAX);
        ask(&self.device, SET_IRQS, &mut words)
    }

    /// Disables all vectors of a kind.
    ///
    /// # Errors
    /// The errors of `ioctl`.
    pub fn disable_vectors(&self, kind: VfioInterrupts) -> io::Result<()> {
        ask(&self.device, SET_IRQS, &mut [0, DISABLE, kind as u32, 0, 0])
    }

    /// Has an enabled vector signal `events` from now on, or nothing.
    ///
    /// # Errors
    /// There is no such vector. The errors of `ioctl`.
    pub fn set_vector(&self, kind: VfioInterrupts, vector: u32, events: Option<&EventFd>) -> io::Result<()> {
        let file = events.map_or(-1, |events| events.as_fd().as_raw_fd());
        ask(&self.device, SET_IRQS, &mut [0, EVENTS, kind as u32, vector, 1, file as u32])
    }

    /// Lets the device access `memory` as its addresses from `iova` on. The kernel keeps its pages
    /// until they are unmapped, or the device is closed.
    ///
    /// # Errors
    /// `OutOfMemory`: more than this process may lock (`ulimit -l`). The errors of `ioctl`.
    pub fn map_dma(&self, iova: u64, memory: &DeviceMemory) -> io::Result<()> {
        let ([a, b], [c, d], [e, f]) =
            (halves(memory.address() as u64), halves(iova), halves(memory.len() as u64));
        // It may read and write.
        ask(&self.container, MAP_DMA, &mut [0, 3, a, b, c, d, e, f])
    }

    /// The device can't access `len` bytes from `iova` on any more.
    ///
    /// # Errors
    /// The errors of `ioctl`.
    pub fn unmap_dma(&self, iova: u64, len: u64) -> io::Result<()> {
        let ([a, b], [c, d]) = (halves(iova), halves(len));
        ask(&self.container, UNMAP_DMA, &mut [0, 0, a, b, c, d])
    }

    /// Puts the device into its first state.
    ///
    /// # Errors
    /// The device can't be reset. The errors of `ioctl`.
    pub fn reset(&self) -> io::Result<()> {
        // SAFETY: the request takes no argument.
        if unsafe { libc::ioctl(self.device.as_raw_fd(), u64::from(RESET)) } < 0 {
            return Err(io::Error::last_os_error());
        }
        self.enable()
    }
}

/// The parts of a region that can be mapped, if its capabilities list them.
fn parts(words: &[u32]) -> Option<Vec<(u64, u64)>> {
    let mut at = words[3] as usize / size_of::<u32>();
    while at >= 8 {
        let (kind, next) = (*words.get(at)? & 0xffff, *words.get(at + 1)? as usize / size_of::<u32>());
        if kind == SPARSE_MAP {
            let count = *words.get(at + 2)? as usize;
            let listed = words.get(at + 4..)?.chunks_exact(4).take(count);
            return Some(listed.map(|part| (long(part, 0), long(part, 2))).collect());
        }
        // Each lies behind the one before, so this ends.
        at = if next > at { next } else { 0 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_must_be_a_device() {
        assert!(VfioDevice::open("ffff:ff:1f.7").is_err());
        let file = || OwnedFd::from(File::open("/dev/null").unwrap());
        assert!(VfioDevice::adopt(file(), file(), file()).is_err());
    }

    #[test]
    fn the_parts_that_can_be_mapped_are_listed() {
        let head = [0, CAPABILITIES, 0, 32, 0, 0, 0, 0];
        let list = [&head[..], &[SPARSE_MAP | 1 << 16, 0, 2, 0, 1, 0, 2, 0, 3, 0, 0, 4]].concat();
        assert_eq!(parts(&list), Some(vec![(1, 2), (3, 4 << 32)]));
        let other = [&head[..], &[9, 40, SPARSE_MAP, 0, 1, 0, 5, 0, 6, 0]].concat();
        assert_eq!(parts(&other), Some(vec![(5, 6)]));
        assert_eq!(parts(&[&head[..], &[9, 32]].concat()), None, "it does not go in circles");
        assert_eq!(parts(&head), None);
    }
}
