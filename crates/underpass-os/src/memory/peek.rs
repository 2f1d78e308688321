//! Reads memory of this process that may be unmapped or changed meanwhile.

use rustix::fs::{Mode, OFlags, open};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// The file of the mapping that contains `address`. For code, that is its library.
///
/// # Examples
/// ```
/// let here = underpass_os::mapping as *const () as usize;
/// assert!(underpass_os::mapping(here).unwrap().contains(&here));
/// assert_eq!(underpass_os::mapping(8), None);
/// ```
pub fn mapping(address: usize) -> Option<Range<usize>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let ranges = maps.lines().filter_map(|line| {
        let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(number(begin)?..number(end)?)
    });
    ranges.into_iter().find(|range| range.contains(&address))
}

/// Reads this process's memory without assuming that it is mapped: the kernel copies it, or reports
/// that it is not there.
///
/// # Examples
/// ```
/// let word = 7usize;
/// let peek = underpass_os::Peek::new()?;
/// assert_eq!(peek.word(&raw const word as usize), Some(7));
/// assert_eq!(peek.word(8), None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Peek(OwnedFd);

impl Peek {
    /// Opens `/proc/self/mem`.
    ///
    /// # Errors
    /// There is no `/proc`, or too many files are open.
    pub fn new() -> io::Result<Self> {
        Ok(Self(open(c"/proc/self/mem", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Copies the bytes from `address` on, and returns how many of them are there.
    pub fn read(&self, address: usize, into: &mut [u8]) -> usize {
        rustix::io::pread(&self.0, into, address as u64).unwrap_or(0)
    }

    /// The word at `address`, if it is mapped.
    pub fn word(&self, address: usize) -> Option<usize> {
        let mut bytes = [0; size_of::<usize>()];
        (self.read(address, &mut bytes) == bytes.len()).then(|| usize::from_ne_bytes(bytes))
    }
}
