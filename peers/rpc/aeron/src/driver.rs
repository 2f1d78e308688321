//! The media driver, and the directory by which processes share memory with it.

use rusteron_media_driver::bindings::aeron_threading_mode_enum::AERON_THREADING_MODE_SHARED as SHARED;
use rusteron_media_driver::{AeronDriver, AeronDriverContext, IntoCString};
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use underpass_rpc_peer::Outcome;

/// Where Aeron has its directory by default on Linux, as it is memory.
const BASE: &str = "/dev/shm";
const PREFIX: &str = "underpass-peer-aeron-";

/// What leads from the directory of the run to the one in memory.
const LINK: &str = "aeron";

/// A directory in memory that only this user can read. While its process runs, it is locked.
struct Shared {
    path: PathBuf,
    _lock: File,
}

impl Shared {
    fn make(run: &Path) -> Outcome<Self> {
        let path = Path::new(BASE).join(format!("{PREFIX}{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::open(&path)?;
        lock.lock()?;
        let link = run.join(LINK);
        // There is one if the server was started again in the same directory.
        let _ = fs::remove_file(&link);
        symlink(path.join("driver"), link)?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // If it cannot be removed now, `sweep` removes it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A running media driver. It ends with this value.
pub(crate) struct Driver {
    shared: Option<Shared>,
    _driver: AeronDriver,
}

impl Driver {
    /// Starts a driver for the processes that are given `run`.
    pub(crate) fn start(run: &Path) -> Outcome<Self> {
        sweep();
        let shared = Shared::make(run)?;
        let context = AeronDriverContext::new()?;
        context.set_dir(&directory(run)?.into_c_string())?;
        // One thread does all the driver's work. It waits by backoff, as is the default.
        context.set_threading_mode(SHARED)?;
        // Its memory is there from the beginning, and not only when it is written.
        context.set_term_buffer_sparse_file(false)?;
        let driver = AeronDriver::new(&context).map_err(|e| e.capture_errmsg())?;
        driver.start(false).map_err(|e| e.capture_errmsg())?;
        Ok(Self { shared: Some(shared), _driver: driver })
    }

    /// Removes the directory. This does not disturb the processes that have joined the driver.
    pub(crate) fn remove_directory(&mut self) {
        self.shared = None;
    }
}

/// The driver's directory of a run.
pub(crate) fn directory(run: &Path) -> Outcome<String> {
    let path = fs::read_link(run.join(LINK))?;
    Ok(path.to_str().ok_or("the directory has a name that is no text")?.to_owned())
}

/// Removes what killed servers have left behind.
pub(crate) fn sweep() {
    let Ok(entries) = fs::read_dir(BASE) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Another user's directory cannot be opened, and need not be.
        if File::open(entry.path()).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
