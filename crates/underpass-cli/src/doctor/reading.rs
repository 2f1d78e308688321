//! What this system allows, as it is found. Nothing is judged here.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use underpass_os::{Directory, Memory, barrier, cpu, futex, landlock, peer, process, quota};

/// What was found. An error is a sentence for people.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// The release of the kernel.
    pub(super) kernel: String,
    /// How many CPUs this process may use.
    pub(super) cpus: usize,
    /// How many of them its control group pays for, if that limits them.
    pub(super) quota: Option<usize>,
    /// A sleep can watch several words (`futex_waitv`).
    pub(super) several_words: bool,
    /// A barrier reaches the processors of other processes (`membarrier`).
    pub(super) barrier: bool,
    /// Memory in files without a name, with seals.
    pub(super) memory: Result<(), String>,
    /// A process can be told from later ones of the same number (pidfd).
    pub(super) process_handles: Result<(), String>,
    /// A socket can refuse messages with files (`SO_PASSRIGHTS`).
    pub(super) refuses_files: bool,
    /// This user may create namespaces.
    pub(super) namespaces: Result<(), String>,
    /// The version of Landlock.
    pub(super) landlock: Result<u32, String>,
    /// How many files a process may have open.
    pub(super) files: u64,
    pub(super) names: NameDirectory,
}

/// The directory of names.
#[derive(Clone, Debug)]
pub(super) struct NameDirectory {
    pub(super) path: PathBuf,
    pub(super) why: &'static str,
    /// `None` if there is none yet.
    pub(super) sound: Option<Result<(), String>>,
    /// How many names there are.
    pub(super) count: usize,
}

impl Reading {
    /// Looks at this system.
    pub(super) fn take() -> Self {
        let text = |e: std::io::Error| e.to_string();
        Self {
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|e| format!("unknown: {e}"), |release| release.trim().to_owned()),
            cpus: cpu::allowed().map_or(1, |cpus| cpus.len()),
            quota: quota::processors(),
            several_words: futex::can_watch_several(),
            barrier: barrier::register(),
            memory: Memory::create("underpass-doctor", 4096).map(drop).map_err(text),
            process_handles: process::own_pidfd().map(drop).map_err(text),
            refuses_files: peer::can_refuse_files(),
            namespaces: namespaces(),
            landlock: landlock::version().map_err(text),
            files: process::files(),
            names: NameDirectory::take(&Directory::from_environment()),
        }
    }
}

impl NameDirectory {
    fn take(directory: &Directory) -> Self {
        let sound = match directory.check() {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            sound => Some(sound.map_err(|e| e.to_string())),
        };
        let count = fs::read_dir(directory.path()).map_or(0, |entries| {
            let is_socket = |entry: &fs::DirEntry| {
                use std::os::unix::fs::FileTypeExt;
                entry.file_type().is_ok_and(|of| of.is_socket())
            };
            entries.filter_map(Result::ok).filter(is_socket).count()
        });
        Self { path: directory.path().to_owned(), why: directory.why(), sound, count }
    }
}

/// Whether a process of this user may have namespaces of its own. A process that tries it has them,
/// so another one tries.
fn namespaces() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| format!("this program can't find itself: {e}"))?;
    let tried = Command::new(program).arg(crate::TRY_NAMESPACES).stdin(Stdio::null()).output();
    let tried = tried.map_err(|e| format!("this program can't start itself: {e}"))?;
    match tried.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_and_other_files_are_not() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("names");
        let missing = NameDirectory::take(&Directory::at(&path));
        assert!(missing.sound.is_none() && missing.count == 0);
        Directory::at(&path).ensure().unwrap();
        fs::write(path.join("file"), "").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path.join("name")).unwrap();
        let there = NameDirectory::take(&Directory::at(&path));
        assert_eq!((there.sound, there.count), (Some(Ok(())), 1));
    }
}
