//! How the editor reaches its servers: over Underpass or over sockets.

use super::event::{DemoDomain, EditorThread, Event, Log};
use super::interfaces::{FileCacheClient, WindowManagerClient};
use super::over_sockets::{SocketFiles, SocketWindows};
use super::plan::{Imports, Threads};
use super::sockets::{SharedCounters, SocketClient};
use super::switches;
use super::traced::Traced;
use anyhow::{Context, Result, anyhow, bail};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use underpass::Counters;

/// How long a server may take to appear.
const WITHIN: Duration = Duration::from_secs(10);

/// The logs of the editor's two threads.
#[derive(Debug)]
pub struct Logs([Arc<Log>; 2]);

impl Logs {
    /// Logs with room for `room` calls each.
    pub fn new(room: usize) -> Self {
        Self([Arc::new(Log::new(room)), Arc::new(Log::new(room))])
    }

    /// All the calls, in the order in which they began.
    pub fn take(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.0.iter().flat_map(|log| log.take()).collect();
        events.sort_by_key(|event| event.from);
        events
    }

    fn of(&self, thread: EditorThread) -> Arc<Log> {
        self.0[usize::from(thread == EditorThread::T2)].clone()
    }
}

/// An editor's imports, with the records of its work.
pub trait Accounted: Imports {
    /// The calls made, in the order in which they began.
    fn events(&self) -> Vec<Event>;
    /// The counters of the bindings to a server.
    fn counters(&self, server: DemoDomain) -> Counters;
}

/// The imports over Underpass: one binding to each server, which both threads share.
#[derive(Debug)]
pub struct OverUnderpass {
    files: Mutex<Vec<FileCacheClient>>,
    windows: WindowManagerClient,
    logs: Logs,
}

impl OverUnderpass {
    /// Imports both interfaces.
    ///
    /// # Errors
    /// If an import fails.
    pub fn new(logs: Logs) -> Result<Self> {
        let files = Mutex::new(vec![import_files()?]);
        let windows = WindowManagerClient::import_within(DemoDomain::Windows.export(), WITHIN);
        Ok(Self { files, windows: windows.context("the editor can't import the window manager")?, logs })
    }

    fn traced(&self, files: FileCacheClient, thread: EditorThread) -> Traced<FileCacheClient> {
        Traced::new(files, Some(thread), self.logs.of(thread))
    }
}

fn import_files() -> Result<FileCacheClient> {
    let files = FileCacheClient::import_within(DemoDomain::Files.export(), WITHIN);
    files.context("the editor can't import the file cache manager")
}

impl Imports for OverUnderpass {
    type Files = Traced<FileCacheClient>;
    type Windows = Traced<WindowManagerClient>;

    fn files(&self, thread: EditorThread) -> Result<Self::Files> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.traced(files.first().context("imported at the start")?.clone(), thread))
    }

    fn files_again(&self, thread: EditorThread) -> Result<Self::Files> {
        // Not under the lock, because the import waits, and the other thread may want to import
        // too.
        let again = import_files()?;
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(again.clone());
        Ok(self.traced(again, thread))
    }

    fn windows(&self, thread: EditorThread) -> Result<Self::Windows> {
        Ok(Traced::new(self.windows.clone(), Some(thread), self.logs.of(thread)))
    }
}

impl Accounted for OverUnderpass {
    fn events(&self) -> Vec<Event> {
        self.logs.take()
    }

    fn counters(&self, server: DemoDomain) -> Counters {
        if server == DemoDomain::Windows {
            return self.windows.counters();
        }
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().map(FileCacheClient::counters).reduce(sum).unwrap_or_default()
    }
}

fn sum(a: Counters, b: Counters) -> Counters {
    Counters {
        calls: a.calls + b.calls,
        served: a.served + b.served,
        kernel_entries: a.kernel_entries + b.kernel_entries,
        wakeups_sent: a.wakeups_sent + b.wakeups_sent,
        wakeups_avoided: a.wakeups_avoided + b.wakeups_avoided,
        sleeps: a.sleeps + b.sleeps,
        bytes_out: a.bytes_out + b.bytes_out,
        bytes_in: a.bytes_in + b.bytes_in,
        ..Counters::default()
    }
}

/// The imports over sockets: a connection to each server for each thread.
#[derive(Debug)]
pub struct OverSockets {
    directory: PathBuf,
    files: SharedCounters,
    windows: SharedCounters,
    logs: Logs,
}

impl OverSockets {
    /// Will connect to the sockets in `directory`.
    pub fn new(directory: PathBuf, logs: Logs) -> Self {
        Self { directory, files: SharedCounters::default(), windows: SharedCounters::default(), logs }
    }

    fn connect(&self, server: DemoDomain, totals: &SharedCounters) -> Result<SocketClient> {
        let path = self.directory.join(server.export());
        SocketClient::connect(&path, totals)
            .with_context(|| format!("the editor can't connect to {}", path.display()))
    }
}

impl Imports for OverSockets {
    type Files = Traced<SocketFiles>;
    type Windows = Traced<SocketWindows>;

    fn files(&self, thread: EditorThread) -> Result<Self::Files> {
        let files = SocketFiles(self.connect(DemoDomain::Files, &self.files)?);
        Ok(Traced::new(files, Some(thread), self.logs.of(thread)))
    }

    fn files_again(&self, _: EditorThread) -> Result<Self::Files> {
        bail!("nobody kills the file cache manager in a round over sockets")
    }

    fn windows(&self, thread: EditorThread) -> Result<Self::Windows> {
        let windows = SocketWindows(self.connect(DemoDomain::Windows, &self.windows)?);
        Ok(Traced::new(windows, Some(thread), self.logs.of(thread)))
    }
}

impl Accounted for OverSockets {
    fn events(&self) -> Vec<Event> {
        self.logs.take()
    }

    fn counters(&self, server: DemoDomain) -> Counters {
        let totals = if server == DemoDomain::Windows { &self.windows } else { &self.files };
        *totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// User-level threads of one domain.
#[derive(Clone, Copy, Debug)]
pub struct UserLevel;

/// Kernel threads, which sockets need.
#[derive(Clone, Debug, Default)]
pub struct KernelThreads {
    sleeps: Arc<Mutex<u64>>,
}

impl Threads for UserLevel {
    fn both<T: Send + 'static>(
        &self,
        first: impl FnOnce() -> Result<T> + Send + 'static,
        second: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<(T, T)> {
        use underpass::thread::spawn;
        // A user-level thread spawns both. If this kernel thread did so, it might lose its CPU to
        // the first before it has started the second.
        let both = spawn(move || {
            let (first, second) = (spawn(first), spawn(second));
            (first.join(), second.join())
        });
        let panicked = |_| anyhow!("a thread of the editor panicked");
        let (first, second) = both.join().map_err(panicked)?;
        Ok((first.map_err(panicked)??, second.map_err(panicked)??))
    }
}

impl KernelThreads {
    /// How often these threads fell asleep, by the kernel's count.
    pub fn sleeps(&self) -> u64 {
        *self.sleeps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted<T, F: FnOnce() -> T>(&self, run: F) -> impl FnOnce() -> T + use<T, F> {
        let sleeps = self.sleeps.clone();
        move || {
            let before = switches::of_this_thread();
            let done = run();
            let slept = switches::of_this_thread().saturating_sub(before);
            *sleeps.lock().unwrap_or_else(PoisonError::into_inner) += slept;
            done
        }
    }
}

impl Threads for KernelThreads {
    fn both<T: Send + 'static>(
        &self,
        first: impl FnOnce() -> Result<T> + Send + 'static,
        second: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<(T, T)> {
        let (first, second) =
            (std::thread::spawn(self.counted(first)), std::thread::spawn(self.counted(second)));
        let (first, second) = (first.join(), second.join());
        let panicked = |_| anyhow!("a thread of the editor panicked");
        Ok((first.map_err(panicked)??, second.map_err(panicked)??))
    }
}
