//! An interface whose calls carry open files, and its implementation.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use crate::watchdog::until;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use underpass::{CallError, Outcome, Sealed, Shared, Wire, thread};
use underpass_os::dump::leaves_dumps;

/// Files at every position that a type can have.
#[derive(Debug, Wire)]
pub struct Package {
    /// Text before the files.
    pub label: String,
    /// A file by itself.
    pub one: OwnedFd,
    /// An option.
    pub maybe: Option<OwnedFd>,
    /// A list.
    pub many: Vec<OwnedFd>,
    /// An array, a tuple and a box.
    pub array: ([OwnedFd; 2], u8, Box<OwnedFd>),
    /// An enum, and lists of the same enum.
    pub nested: Vec<Item>,
}

/// Variants with files and without.
#[derive(Debug, Wire)]
pub enum Item {
    /// No file.
    Nothing,
    /// A file by position.
    One(OwnedFd),
    /// A file by name.
    Named {
        /// The file, of another type.
        file: File,
        /// Text beside it.
        text: String,
    },
    /// Items of the same enum.
    Many(Vec<Item>),
}

/// The interface that the file tests call.
#[underpass::interface]
pub trait Porter {
    /// Reads the file to its end.
    fn read(&self, file: OwnedFd) -> Result<String, CallError>;
    /// As `read`, for a file that its caller lends.
    fn read_lent(&self, file: &File) -> Result<String, CallError>;
    /// Returns a file from which `text` can be read.
    fn write(&self, text: &str) -> Result<OwnedFd, CallError>;
    /// Returns its argument.
    fn echo(&self, package: Package) -> Result<Package, CallError>;
    /// Returns its argument.
    fn maybe(&self, file: Option<OwnedFd>) -> Result<Option<OwnedFd>, CallError>;
    /// Returns its arguments, which may be out of band.
    fn large(&self, bytes: Vec<u8>, file: OwnedFd) -> Result<(OwnedFd, Vec<u8>), CallError>;
    /// Returns `files` files.
    fn several(&self, files: u32) -> Result<Vec<OwnedFd>, CallError>;
    /// Returns how many files came.
    fn count(&self, files: Vec<OwnedFd>) -> Result<u32, CallError>;
    /// Panics while it holds `file`.
    fn panic(&self, file: OwnedFd) -> Result<(), CallError>;
    /// Returns `file` once [`let_go`](Self::let_go) has been called.
    fn hold(&self, file: OwnedFd) -> Result<OwnedFd, CallError>;
    /// The number of calls that have reached [`hold`](Self::hold).
    fn held(&self) -> Result<u32, CallError>;
    /// Ends all calls of [`hold`](Self::hold).
    fn let_go(&self) -> Result<(), CallError>;
    /// Asks the `Porter` under `name` for `files` files, keeps none, and returns how many came.
    fn fetch(&self, name: &str, files: u32) -> Result<u32, CallError>;
    /// Sums bytes that it reads in place. Also returns whether it could change them.
    fn total(&self, bytes: Sealed) -> Result<(u64, bool), CallError>;
    /// Sums bytes that it reads where the client wrote them.
    fn total_shared(&self, #[underpass(shared)] bytes: Shared<'_>) -> Result<u64, CallError>;
    /// Returns `len` bytes of 7 that nobody can change, and more such memory beside them.
    fn seal(&self, len: u32) -> Result<(Vec<u8>, Vec<Sealed>), CallError>;
    /// Keeps its argument until its process ends.
    fn keep(&self, bytes: Sealed) -> Result<(), CallError>;
    /// Ends its process while it holds `file`.
    fn die(&self, file: OwnedFd) -> Result<(), CallError>;
    /// Ends its process in one of three ways: `exit`, `abort`, or `exec` after
    /// [`hang_up`](underpass::hang_up). Before `abort` it waits until no core dump would be
    /// written.
    fn perish(&self, how: &str) -> Result<(), CallError>;
    /// Whether a core-dumping signal would write a core dump now.
    fn leaves_dumps(&self) -> Result<bool, CallError>;
    /// Does nothing.
    fn null(&self) -> Result<(), CallError>;
}

/// The implementation of [`Porter`].
#[derive(Debug, Default)]
pub struct Hall {
    held: AtomicU32,
    open: Mutex<bool>,
    kept: Mutex<Vec<Sealed>>,
}

fn failed(e: std::io::Error) -> CallError {
    CallError::NoResources(Outcome::Unknown, e.to_string())
}

fn null_file() -> Result<OwnedFd, CallError> {
    File::open("/dev/null").map(OwnedFd::from).map_err(failed)
}

impl Porter for Hall {
    fn read(&self, file: OwnedFd) -> Result<String, CallError> {
        self.read_lent(&File::from(file))
    }

    fn read_lent(&self, mut file: &File) -> Result<String, CallError> {
        let mut text = String::new();
        // This may take for ever, if the file's sender wants that.
        thread::blocking(|| file.read_to_string(&mut text)).map_err(failed)?;
        Ok(text)
    }

    fn write(&self, text: &str) -> Result<OwnedFd, CallError> {
        let (reader, mut writer) = std::io::pipe().map_err(failed)?;
        writer.write_all(text.as_bytes()).map_err(failed)?;
        Ok(reader.into())
    }

    fn echo(&self, package: Package) -> Result<Package, CallError> {
        Ok(package)
    }

    fn maybe(&self, file: Option<OwnedFd>) -> Result<Option<OwnedFd>, CallError> {
        Ok(file)
    }

    fn large(&self, bytes: Vec<u8>, file: OwnedFd) -> Result<(OwnedFd, Vec<u8>), CallError> {
        Ok((file, bytes))
    }

    fn several(&self, files: u32) -> Result<Vec<OwnedFd>, CallError> {
        (0..files).map(|_| null_file()).collect()
    }

    fn count(&self, files: Vec<OwnedFd>) -> Result<u32, CallError> {
        Ok(files.len() as u32)
    }

    fn panic(&self, _file: OwnedFd) -> Result<(), CallError> {
        panic!("with a file")
    }

    fn hold(&self, file: OwnedFd) -> Result<OwnedFd, CallError> {
        self.held.fetch_add(1, Ordering::SeqCst);
        while !*self.open.lock().expect("nobody panics with it") {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(file)
    }

    fn held(&self) -> Result<u32, CallError> {
        Ok(self.held.load(Ordering::SeqCst))
    }

    fn let_go(&self) -> Result<(), CallError> {
        *self.open.lock().expect("nobody panics with it") = true;
        Ok(())
    }

    fn fetch(&self, name: &str, files: u32) -> Result<u32, CallError> {
        let other = PorterClient::import(name)
            .map_err(|e| CallError::NoResources(Outcome::Unknown, e.to_string()))?;
        Ok(other.several(files)?.len() as u32)
    }

    fn total(&self, bytes: Sealed) -> Result<(u64, bool), CallError> {
        let file = File::from(bytes.as_fd().try_clone_to_owned().map_err(failed)?);
        let shrunk = !bytes.is_empty() && file.set_len(0).is_ok();
        let changed = file.write_at(&[1], 0).is_ok() || shrunk || file.set_len(1 << 30).is_ok();
        Ok((bytes.iter().map(|&byte| u64::from(byte)).sum(), changed))
    }

    fn total_shared(&self, bytes: Shared<'_>) -> Result<u64, CallError> {
        Ok(bytes.iter().map(u64::from).sum())
    }

    fn seal(&self, len: u32) -> Result<(Vec<u8>, Vec<Sealed>), CallError> {
        let sealed = Sealed::new(&vec![7; len as usize]).map_err(failed)?;
        Ok((vec![1; 50_000], vec![sealed.clone(), sealed]))
    }

    fn keep(&self, bytes: Sealed) -> Result<(), CallError> {
        self.kept.lock().expect("nobody panics with it").push(bytes);
        Ok(())
    }

    fn die(&self, _file: OwnedFd) -> Result<(), CallError> {
        std::process::abort()
    }

    fn perish(&self, how: &str) -> Result<(), CallError> {
        match how {
            "exit" => std::process::exit(0),
            "abort" => {
                until("no core dump", || (!leaves_dumps()).then_some(()));
                std::process::abort()
            }
            _ => {
                underpass::hang_up();
                Err(failed(Command::new("true").exec()))
            }
        }
    }

    fn leaves_dumps(&self) -> Result<bool, CallError> {
        Ok(leaves_dumps())
    }

    fn null(&self) -> Result<(), CallError> {
        Ok(())
    }
}
