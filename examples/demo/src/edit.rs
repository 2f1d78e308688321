//! `underpass-demo --edit`: an editor that keeps a demo of `--serve` busy, so that there is
//! something to look at.

use super::event::DemoDomain;
use super::interfaces::{FileCache, FileCacheClient, WindowManager, WindowManagerClient, WindowPlace};
use super::plan::TEXT;
use anyhow::{Context, Result, anyhow, bail};
use std::time::Duration;

/// How long the servers may take to appear.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of one reading.
const LENGTH: u32 = 256;

/// The window in which the editor shows where it is.
const PLACE: WindowPlace = WindowPlace { row: 0, column: 0, rows: 3, columns: 40, layer: 1 };

/// How many readings there are between two pictures.
const READINGS: u64 = 16;

/// Reads the text again and again, and shows in a window how far it is, until the process or a
/// server is ended.
///
/// # Errors
/// A server is not there, refuses a call, or has ended.
pub fn run() -> Result<()> {
    let [of_files, of_windows] = [DemoDomain::Files, DemoDomain::Windows].map(DemoDomain::export);
    let start = "start `underpass-demo --serve FILE` first";
    let files = FileCacheClient::import_within(of_files, PATIENCE).context(start)?;
    let windows = WindowManagerClient::import_within(of_windows, PATIENCE).context(start)?;
    let file = files.open(TEXT)?;
    let mut size = files.stat(file)?.size;
    if size == 0 {
        bail!("the file of the demo is empty; serve another one");
    }
    let window = windows.open("editor", PLACE)?;
    println!("edits what {of_files} and {of_windows} serve; Ctrl-C ends it");
    let mut offset = 0;
    for reading in 0_u64.. {
        let bytes = files.read(file, offset, LENGTH).with_context(|| format!("{of_files} has ended"))?;
        let read = u64::try_from(bytes.len()).map_err(|e| anyhow!("{e}"))?;
        offset = if offset + read < size { offset + read } else { 0 };
        if reading % READINGS == 0 {
            size = files.stat(file)?.size;
            windows.draw(window, 0, &format!("{offset} of {size} bytes"))?;
            windows.compose()?;
        }
    }
    Ok(())
}
