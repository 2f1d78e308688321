//! A message in memory, for tests and fuzz targets.

use std::os::fd::{BorrowedFd, OwnedFd};
use underpass_wire::{DecodeError, Sink, Source};

/// A message with files, as it is on its way.
#[derive(Default)]
pub(crate) struct Parcel {
    pub(crate) bytes: Vec<u8>,
    pub(crate) files: Vec<OwnedFd>,
}

impl Sink for Parcel {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.put(bytes);
    }

    fn put_file(&mut self, file: BorrowedFd<'_>) {
        self.files.push(file.try_clone_to_owned().expect("a file can be copied"));
    }
}

impl Source for Parcel {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        let mut left = &self.bytes[..];
        left.take(out)?;
        self.bytes = left.to_vec();
        Ok(())
    }

    fn take_file(&mut self) -> Result<OwnedFd, DecodeError> {
        if self.files.is_empty() { Err(DecodeError::NoFile) } else { Ok(self.files.remove(0)) }
    }
}
