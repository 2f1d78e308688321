//! The two interfaces over sockets. This is hand-written code for what `#[underpass::interface]`
//! generates.

use super::interfaces::{FileCache, FileId, Frame, FsError, Stat, WindowManager, WindowPlace, WmError};
use super::sockets::{SocketClient, SocketHandler};
use super::traced::Metered;
use std::io;
use std::sync::Arc;
use underpass::Counters;
use underpass_wire::{Decode, Encode};

/// A file cache manager behind a socket.
#[derive(Debug)]
pub struct SocketFiles(pub SocketClient);

/// A window manager behind a socket.
#[derive(Debug)]
pub struct SocketWindows(pub SocketClient);

impl FileCache for SocketFiles {
    fn open(&self, name: &str) -> Result<FileId, FsError> {
        self.0.call(0, &(name,))?
    }

    fn stat(&self, file: FileId) -> Result<Stat, FsError> {
        self.0.call(1, &(file,))?
    }

    fn read(&self, file: FileId, offset: u64, len: u32) -> Result<Vec<u8>, FsError> {
        self.0.call(2, &(file, offset, len))?
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FsError> {
        self.0.call(3, &(file, offset, bytes))?
    }

    fn flush(&self, file: FileId) -> Result<u64, FsError> {
        self.0.call(4, &(file,))?
    }
}

impl WindowManager for SocketWindows {
    fn open(&self, title: &str, place: WindowPlace) -> Result<u32, WmError> {
        self.0.call(0, &(title, place))?
    }

    fn draw(&self, window: u32, row: u16, text: &str) -> Result<(), WmError> {
        self.0.call(1, &(window, row, text))?
    }

    fn compose(&self) -> Result<Frame, WmError> {
        self.0.call(2, &())?
    }

    fn screen(&self) -> Result<Vec<String>, WmError> {
        self.0.call(3, &())?
    }
}

/// The server's side of [`SocketFiles`].
pub fn handle_files(files: impl FileCache + Send + Sync + 'static) -> Arc<SocketHandler> {
    Arc::new(move |number, from, to| {
        match number {
            0 => files.open(&String::decode(from)?).encode(to),
            1 => files.stat(FileId::decode(from)?).encode(to),
            2 => {
                let (file, offset, len) = Decode::decode(from)?;
                files.read(file, offset, len).encode(to);
            }
            3 => {
                let (file, offset, bytes) = <(FileId, u64, Vec<u8>)>::decode(from)?;
                files.write(file, offset, &bytes).encode(to);
            }
            4 => files.flush(FileId::decode(from)?).encode(to),
            _ => Err::<(), _>(FsError::Socket(format!("there is no procedure {number}"))).encode(to),
        }
        Ok(())
    })
}

/// The server's side of [`SocketWindows`].
pub fn handle_windows(windows: impl WindowManager + Send + Sync + 'static) -> Arc<SocketHandler> {
    Arc::new(move |number, from, to| {
        match number {
            0 => {
                let (title, place) = <(String, WindowPlace)>::decode(from)?;
                windows.open(&title, place).encode(to);
            }
            1 => {
                let (window, row, text) = <(u32, u16, String)>::decode(from)?;
                windows.draw(window, row, &text).encode(to);
            }
            2 => windows.compose().encode(to),
            3 => windows.screen().encode(to),
            _ => Err::<(), _>(WmError::Socket(format!("there is no procedure {number}"))).encode(to),
        }
        Ok(())
    })
}

impl From<io::Error> for FsError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error.to_string())
    }
}

impl From<io::Error> for WmError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error.to_string())
    }
}

impl Metered for SocketFiles {
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

impl Metered for SocketWindows {
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}
