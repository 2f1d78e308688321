//! The directory that holds the exported names, as sockets.

use crate::clock::{deadline_ns, now_ns};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A directory of names that only its owner can write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The directory that the environment of this domain names: `$UNDERPASS_DIR`, else
    /// `$XDG_RUNTIME_DIR/underpass`, else `/run/underpass` for root and `/tmp/underpass-UID`
    /// otherwise.
    pub fn from_environment() -> Self {
        Self::of_environment().0
    }

    /// That directory, and the reason why it was chosen.
    fn of_environment() -> (Self, &'static str) {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let uid = rustix::process::geteuid();
        if let Some(path) = set("UNDERPASS_DIR") {
            return (Self { path }, "$UNDERPASS_DIR names it");
        }
        if let Some(path) = set("XDG_RUNTIME_DIR") {
            let path = path.join("underpass");
            return (Self { path }, "it is in $XDG_RUNTIME_DIR, as $UNDERPASS_DIR is not set");
        }
        let (path, why) = match uid.is_root() {
            true => (
                "/run/underpass".into(),
                "it is root's, as neither $UNDERPASS_DIR nor $XDG_RUNTIME_DIR is set",
            ),
            false => (
                format!("/tmp/underpass-{}", uid.as_raw()).into(),
                "it is this user's, as neither $UNDERPASS_DIR nor $XDG_RUNTIME_DIR is set",
            ),
        };
        (Self { path }, why)
    }

    /// The part of the environment that makes this the directory of names.
    ///
    /// # Examples
    /// ```
    /// use underpass_os::Directory;
    /// assert_eq!(Directory::at("/srv/names").why(), "the program names it");
    /// assert_ne!(Directory::from_environment().why(), "the program names it");
    /// ```
    pub fn why(&self) -> &'static str {
        match Self::of_environment() {
            (directory, why) if directory == *self => why,
            _ => "the program names it",
        }
    }

    /// Exactly this directory.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Makes the directory and its parents if they are missing. The mode is 0700, or 0755 for
    /// root's `/run/underpass`: other users may look up its names.
    ///
    /// # Errors
    /// The errors of `mkdir` and of [`check`](Self::check).
    pub fn ensure(&self) -> io::Result<()> {
        let mode = if self.path == Path::new("/run/underpass") { 0o755 } else { 0o700 };
        match DirBuilder::new().recursive(true).mode(mode).create(&self.path) {
            Ok(()) => {}
            // A file or a dangling link stands there. `check` reports that more exactly.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
        self.check()
    }

    /// Checks that only the owner can put a name there, and that the owner is this user or root.
    ///
    /// # Errors
    /// `NotFound`. `NotADirectory`, also for a symbolic link. `PermissionDenied`, with the owner
    /// and the mode.
    pub fn check(&self) -> io::Result<()> {
        let found = fs::symlink_metadata(&self.path)?;
        let shown = self.path.display();
        if !found.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{shown} is not a directory")));
        }
        let uid = rustix::process::geteuid().as_raw();
        if found.uid() != uid && found.uid() != 0 {
            let said = format!(
                "{shown} belongs to user {}; that user could put any server there; name a directory of your own with $UNDERPASS_DIR",
                found.uid()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, said));
        }
        if found.mode() & 0o022 != 0 {
            let said = format!(
                "others can write {shown} (mode {:04o}) and could put any server there; try `chmod go-w {shown}`",
                found.mode() & 0o7777
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, said));
        }
        Ok(())
    }

    /// The path of `name`.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps other exporters out until the returned file is dropped. A lock on the directory leaves
    /// no file behind.
    pub(crate) fn lock(&self) -> io::Result<File> {
        let dir = File::open(&self.path)?;
        // Any process that may read the directory may lock it, so the wait has a limit.
        let deadline = deadline_ns(Duration::from_secs(2));
        loop {
            match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(dir),
                Err(Errno::WOULDBLOCK | Errno::INTR) if now_ns() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(Errno::WOULDBLOCK) => {
                    let said = format!("somebody holds a lock on it; see `fuser {}`", self.path.display());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, said));
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
}
