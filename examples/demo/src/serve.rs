//! `underpass-demo --serve`: the two servers of the demo in one process, to be looked at and called
//! from outside.

use super::event::DemoDomain;
use super::files::{FileCacheManager, Managed};
use super::interfaces::{FileCache, WindowManager};
use super::plan::{COPY, SCREEN, TEXT};
use super::windows::Windows;
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;
use underpass::Server;

/// Bytes of a block of the cache, and how many blocks it has.
const CACHE: (u32, usize) = (4096, 256);

/// How long calls that have begun may take when the process is asked to end.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves both interfaces until a signal ends it. `text` is the file that can be read; what is
/// written goes into a temporary one.
///
/// # Errors
/// The file can't be read, or the names are taken.
pub fn run(text: &Path) -> Result<()> {
    std::fs::File::open(text).with_context(|| format!("{} can't be read", text.display()))?;
    let temporary = tempfile::tempdir().context("there is no place for the copy")?;
    let managed = vec![
        Managed { name: TEXT, path: text.to_owned(), writable: false },
        Managed { name: COPY, path: temporary.path().join(COPY), writable: true },
    ];
    let files = FileCacheManager::new(std::process::id(), managed, CACHE.0, CACHE.1);
    let windows = Windows::new(SCREEN.0, SCREEN.1);
    let [of_files, of_windows] = [DemoDomain::Files, DemoDomain::Windows].map(DemoDomain::export);
    let (tell, told) = mpsc::channel();
    // A second signal finds nobody who hears of it, and changes nothing.
    let hear = move || {
        let _ = tell.send(());
    };
    ctrlc::set_handler(hear).context("signals can't be handled")?;
    let server = Server::new()
        .export(of_files, FileCache::serve(files).revocable().traceable())
        .export(of_windows, WindowManager::serve(windows));
    let running = server.start().with_context(|| format!("{of_files} and {of_windows} can't be served"))?;
    println!("serves {of_files} and {of_windows}; the files are \"{TEXT}\" and \"{COPY}\"; Ctrl-C ends it");
    told.recv().context("signals can't be heard")?;
    running.shutdown(DRAIN);
    Ok(())
}
