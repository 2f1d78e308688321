//! A directory for the sockets of one run.

use crate::BenchError;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "underpass-bench-";

/// A directory that only this user can read. It is removed with this value.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a directory, after removing those of killed runs.
    pub(crate) fn new() -> Result<Self, BenchError> {
        static SWEPT: Once = Once::new();
        /// Relaxed: only the numbers differ.
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let base = std::env::temp_dir();
        // Before the first one of this process is there.
        SWEPT.call_once(|| sweep(&base));
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
        make(&path)?;
        let scratch = Self { path };
        make(&scratch.path.join("names"))?;
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If it cannot be removed now, the next run removes it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn make(path: &Path) -> Result<(), BenchError> {
    DirBuilder::new().mode(0o700).create(path).map_err(|e| {
        format!("{} can't be made: {e}; set TMPDIR to a directory that you can write", path.display()).into()
    })
}

fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let pid = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another user's directory cannot be removed, and need not be.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nothing_is_left_behind_and_others_see_nothing() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(path.join("names").is_dir());
        drop(scratch);
        assert!(!path.exists());
    }
}
