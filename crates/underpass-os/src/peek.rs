//! Reading memory of this process that may go away or change meanwhile.

use rustix::fs::{Mode, OFlags, open};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// The mapping that `address` lies in, if there is one: of code, that of its library.
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

/// A way to memory of this process by which nothing is assumed of it: the kernel copies it, or says
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
    /// One.
    ///
    /// # Errors
    /// There is no `/proc`; too many open files.
    pub fn new() -> io::Result<Self> {
        Ok(Self(open(c"/proc/self/mem", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Copies what lies from `address` on, and says how many bytes of it are there.
    pub fn read(&self, address: usize, into: &mut [u8]) -> usize {
        rustix::io::pread(&self.0, into, address as u64).unwrap_or(0)
    }

    /// The word at `address`, if it is there.
    pub fn word(&self, address: usize) -> Option<usize> {
        let mut bytes = [0; size_of::<usize>()];
        (self.read(address, &mut bytes) == bytes.len()).then(|| usize::from_ne_bytes(bytes))
    }
}
