//! Devices by the kernel's UIO: registers that are mapped, and interrupts that the kernel counts.

use crate::{DeviceMemory, Memory};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A device of `/dev/uioN`.
///
/// The kernel counts the interrupts of such a device. Most of these devices hold their line until
/// they are told that it was seen. So the kernel masks the line at each interrupt, and the driver
/// [unmasks](Self::unmask) it.
#[derive(Debug)]
pub struct UioDevice {
    file: File,
    /// What the kernel tells about it: `/sys/class/uio/uioN`.
    place: PathBuf,
    /// Its count of interrupts, as far as it was taken.
    taken: AtomicU32,
    mask: InterruptMask,
}

/// How its interrupt is masked and unmasked.
#[derive(Debug)]
enum InterruptMask {
    /// By a write to the device's file. Some drivers of the kernel know no masking, and then none
    /// is needed.
    Control,
    /// By a bit in the configuration space of a PCI device. `uio_pci_generic` sets it at each
    /// interrupt, and leaves the rest to the driver.
    PciCommand(File),
}

/// A part of a device's registers, in a file that can be mapped.
#[derive(Debug)]
pub struct UioRegion {
    file: File,
    /// Where the mapping begins in the file.
    begin: u64,
    /// Where the registers begin in the mapping.
    offset: u64,
    /// Bytes of the registers.
    pub size: u64,
}

/// The kernel's driver for any PCI device with a line of its own for interrupts.
const PCI_GENERIC: &str = "uio_pci_generic";
/// Offset of the command register in the configuration space, and its bit that masks the line.
const COMMAND: u64 = 4;
const MASKED: u16 = 1 << 10;
/// A region of memory, in the list of a PCI device's regions.
const IS_MEMORY: u64 = 0x200;
const PAGE: u64 = 4096;

/// A number as the kernel writes it: `0x` and hexadecimal digits.
fn number(text: &str) -> io::Result<u64> {
    let digits = text.trim().trim_start_matches("0x");
    u64::from_str_radix(digits, 16).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

fn to_use(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

impl UioDevice {
    /// Opens the device at `path`, such as `/dev/uio0`. What the kernel tells about all such
    /// devices is below `all`: `/sys/class/uio`.
    ///
    /// # Errors
    /// `NotFound`: there is no such device. `PermissionDenied`.
    pub fn open(path: &Path, all: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let place = all.join(path.file_name().ok_or(io::ErrorKind::NotFound)?);
        let name = fs::read_to_string(place.join("name"))?;
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&path)?;
        // Those that came before this are another driver's. If the kernel does not tell the number,
        // the first count is too large.
        let taken = fs::read_to_string(place.join("event")).ok().and_then(|told| told.trim().parse().ok());
        let mask = match name.trim() {
            PCI_GENERIC => InterruptMask::PciCommand(to_use(&place.join("device/config"))?),
            _ => InterruptMask::Control,
        };
        Ok(Self { file, place, taken: AtomicU32::new(taken.unwrap_or(0)), mask })
    }

    /// Whether it has an interrupt.
    pub fn interrupts(&self) -> bool {
        // A device without one refuses each read of its count.
        self.count().is_ok()
    }

    /// The registers of this number: those that the kernel's driver names, or a region of a PCI
    /// device. `None`: there are none that can be mapped.
    ///
    /// # Errors
    /// The errors of reading what the kernel tells.
    pub fn region(&self, number: u32) -> io::Result<Option<UioRegion>> {
        let found = match &self.mask {
            InterruptMask::Control => self.map_region(number),
            InterruptMask::PciCommand(_) => self.pci_region(number),
        };
        match found {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found,
        }
    }

    /// One of those that the kernel's driver names.
    fn map_region(&self, map: u32) -> io::Result<Option<UioRegion>> {
        let tells = |what| number(&fs::read_to_string(self.place.join(format!("maps/map{map}/{what}")))?);
        let (size, offset) = (tells("size")?, tells("offset")?);
        let begin = u64::from(map) * PAGE;
        Ok((size > 0).then_some(UioRegion { file: self.file.try_clone()?, begin, offset, size }))
    }

    /// A region of a PCI device. Those of ports can't be mapped.
    fn pci_region(&self, bar: u32) -> io::Result<Option<UioRegion>> {
        let list = fs::read_to_string(self.place.join("device/resource"))?;
        let line = list.lines().nth(bar as usize).ok_or(io::ErrorKind::NotFound)?;
        let told: Vec<u64> = line.split_whitespace().map(number).collect::<io::Result<_>>()?;
        let &[first, last, flags] = &told[..] else { return Ok(None) };
        let size = last.checked_sub(first).map_or(0, |more| more + 1);
        if flags & IS_MEMORY == 0 || last == 0 {
            return Ok(None);
        }
        let file = to_use(&self.place.join(format!("device/resource{bar}")))?;
        Ok(Some(UioRegion { file, begin: 0, offset: first % PAGE, size }))
    }

    fn count(&self) -> io::Result<Option<u32>> {
        let mut count = [0; 4];
        match (&self.file).read(&mut count) {
            Ok(4) => Ok(Some(u32::from_ne_bytes(count))),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// How many interrupts have come since this was asked last. It does not wait.
    ///
    /// # Errors
    /// The device is gone, or has no interrupt.
    pub fn take(&self) -> io::Result<u64> {
        let Some(count) = self.count()? else { return Ok(0) };
        // Relaxed: one thread takes the count at a time.
        let before = self.taken.swap(count, Ordering::Relaxed);
        Ok(count.wrapping_sub(before).into())
    }

    /// Lets the device interrupt once more. If its line says that it wants to, the kernel counts
    /// that at once.
    pub fn unmask(&self) {
        self.set_masked(false);
    }

    /// The device interrupts no more until [`unmask`](Self::unmask).
    pub fn mask(&self) {
        self.set_masked(true);
    }

    fn set_masked(&self, masked: bool) {
        // Errors mean that the device is gone, or that its driver knows no masking.
        let _ = match &self.mask {
            InterruptMask::Control => (&self.file).write(&u32::from(!masked).to_ne_bytes()).map(drop),
            InterruptMask::PciCommand(configuration) => set_command(configuration, masked),
        };
    }

    /// Puts a PCI device into its first state.
    ///
    /// # Errors
    /// `NotFound`: it can't be reset.
    pub fn reset(&self) -> io::Result<()> {
        let mut reset = OpenOptions::new().write(true).open(self.place.join("device/reset"))?;
        reset.write_all(b"1")
    }

    /// Its address on the PCI bus, if it is there.
    pub fn address(&self) -> Option<String> {
        let to = fs::read_link(self.place.join("device")).ok()?;
        let name = to.file_name()?.to_str()?;
        self.place.join("device/config").exists().then(|| name.to_owned())
    }
}

/// The kernel changes this bit too, but only sets it, and only while it is not set. So at most one
/// of the two changes it at a time.
fn set_command(configuration: &File, masked: bool) -> io::Result<()> {
    let mut command = [0; 2];
    configuration.read_exact_at(&mut command, COMMAND)?;
    let command = u16::from_le_bytes(command);
    let command = if masked { command | MASKED } else { command & !MASKED };
    configuration.write_all_at(&command.to_le_bytes(), COMMAND)
}

impl AsFd for UioDevice {
    /// It is readable when interrupts have come that were not taken.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl UioRegion {
    /// Maps the registers.
    ///
    /// # Errors
    /// The errors of `mmap`. `InvalidData`: it is larger than memory can be.
    pub fn map(&self) -> io::Result<DeviceMemory> {
        let too_large = || io::Error::from(io::ErrorKind::InvalidData);
        let end = self.offset.checked_add(self.size).ok_or_else(too_large)?;
        let len = end.checked_next_multiple_of(PAGE).and_then(|len| usize::try_from(len).ok());
        let memory = Memory::of_device(self.file.as_fd(), self.begin, len.ok_or_else(too_large)?)?;
        DeviceMemory::within(memory, self.offset as usize..end as usize).ok_or_else(too_large)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_must_be_a_device() {
        let none = UioDevice::open(Path::new("/dev/uio9999"), Path::new("/sys/class/uio"));
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::NotFound);
        let other = UioDevice::open(Path::new("/dev/null"), Path::new("/sys/class/uio"));
        assert_eq!(other.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn numbers_are_read_as_the_kernel_writes_them() {
        assert_eq!(number("0x00000000febd0000\n").unwrap(), 0xfebd_0000);
        assert!(number("memory").is_err());
    }
}
