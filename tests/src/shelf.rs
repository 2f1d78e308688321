//! An interface that keeps the files that are passed to it.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::Duration;
use underpass::{CallError, thread};

/// The interface that keeps files.
#[underpass::interface]
pub trait Shelf {
    /// Keeps these files.
    fn put(&self, files: Vec<OwnedFd>) -> Result<(), CallError>;
    /// Closes `files` of the kept files. Returns how many are left.
    fn clear(&self, files: u32) -> Result<u32, CallError>;
    /// Returns files of the server's own.
    fn give(&self) -> Result<Vec<OwnedFd>, CallError>;
    /// Never returns.
    fn stay(&self) -> Result<(), CallError>;
    /// Does nothing.
    fn null(&self) -> Result<(), CallError>;
}

/// The implementation of [`Shelf`].
#[derive(Debug, Default)]
pub struct Board {
    files: Mutex<Vec<OwnedFd>>,
}

impl Shelf for Board {
    fn put(&self, files: Vec<OwnedFd>) -> Result<(), CallError> {
        self.files.lock().expect("nobody panics with it").extend(files);
        Ok(())
    }

    fn clear(&self, files: u32) -> Result<u32, CallError> {
        let mut kept = self.files.lock().expect("nobody panics with it");
        let left = kept.len().saturating_sub(files as usize);
        kept.truncate(left);
        Ok(left as u32)
    }

    fn give(&self) -> Result<Vec<OwnedFd>, CallError> {
        Ok(Vec::new())
    }

    fn stay(&self) -> Result<(), CallError> {
        loop {
            thread::sleep(Duration::from_secs(1000));
        }
    }

    fn null(&self) -> Result<(), CallError> {
        Ok(())
    }
}
