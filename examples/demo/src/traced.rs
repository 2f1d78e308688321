//! A decorator that records each call of an interface and changes nothing else.

use super::event::{DemoProcedure, EditorThread, Event, Log};
use super::files::FileCacheManager;
use super::interfaces::{
    FileCache, FileCacheClient, FileId, Frame, FsError, Stat, WindowManager, WindowManagerClient,
    WindowPlace, WmError,
};
use super::windows::Windows;
use std::sync::Arc;
use underpass::Counters;
use underpass_os::{clock, cpu};

/// An interface whose calls are counted. A server's calls are not: its domain counts those.
pub trait Metered {
    /// The counters up to now.
    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// A client or a server of either interface that records its calls in a [`Log`].
#[derive(Debug)]
pub struct Traced<C> {
    inner: C,
    thread: Option<EditorThread>,
    log: Arc<Log>,
}

impl<C: Metered> Traced<C> {
    /// Records the calls of `inner`, under the name of `thread`.
    pub fn new(inner: C, thread: Option<EditorThread>, log: Arc<Log>) -> Self {
        Self { inner, thread, log }
    }

    fn record<T, E>(
        &self,
        procedure: DemoProcedure,
        key: u64,
        call: impl FnOnce(&C) -> Result<T, E>,
    ) -> Result<T, E> {
        let (cpu_from, from) = (cpu::current(), clock::now_ns());
        let result = call(&self.inner);
        let (to, cpu_to) = (clock::now_ns(), cpu::current());
        let Counters { kernel_entries, wakeups_sent: wakeups, .. } = self.inner.counters();
        let (thread, fine) = (self.thread, result.is_ok());
        self.log.add(Event {
            thread,
            procedure,
            key,
            from,
            to,
            cpu_from,
            cpu_to,
            kernel_entries,
            wakeups,
            fine,
        });
        result
    }
}

impl<C: FileCache + Metered> FileCache for Traced<C> {
    fn open(&self, name: &str) -> Result<FileId, FsError> {
        self.record(DemoProcedure::FilesOpen, name.len() as u64, |files| files.open(name))
    }

    fn stat(&self, file: FileId) -> Result<Stat, FsError> {
        self.record(DemoProcedure::Stat, u64::from(file.index), |files| files.stat(file))
    }

    fn read(&self, file: FileId, offset: u64, len: u32) -> Result<Vec<u8>, FsError> {
        self.record(DemoProcedure::Read, offset, |files| files.read(file, offset, len))
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FsError> {
        self.record(DemoProcedure::Write, offset, |files| files.write(file, offset, bytes))
    }

    fn flush(&self, file: FileId) -> Result<u64, FsError> {
        self.record(DemoProcedure::Flush, u64::from(file.index), |files| files.flush(file))
    }
}

impl<C: WindowManager + Metered> WindowManager for Traced<C> {
    fn open(&self, title: &str, place: WindowPlace) -> Result<u32, WmError> {
        self.record(DemoProcedure::WindowsOpen, u64::from(place.layer), |windows| windows.open(title, place))
    }

    fn draw(&self, window: u32, row: u16, text: &str) -> Result<(), WmError> {
        let key = u64::from(window) << 16 | u64::from(row);
        self.record(DemoProcedure::Draw, key, |windows| windows.draw(window, row, text))
    }

    fn compose(&self) -> Result<Frame, WmError> {
        self.record(DemoProcedure::Compose, 0, |windows| windows.compose())
    }

    fn screen(&self) -> Result<Vec<String>, WmError> {
        self.record(DemoProcedure::Screen, 0, |windows| windows.screen())
    }
}

impl Metered for FileCacheClient {
    fn counters(&self) -> Counters {
        FileCacheClient::counters(self)
    }
}

impl Metered for WindowManagerClient {
    fn counters(&self) -> Counters {
        WindowManagerClient::counters(self)
    }
}

impl Metered for FileCacheManager {}
impl Metered for Windows {}
