//! A named pipe of single bytes, which any process of this user may take and put back: that of a
//! GNU make jobserver.

use rustix::fs::{FileType, Mode, OFlags, inotify};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A named pipe, open for both directions, so that neither a reader nor a writer ever finds it
/// without the other end.
#[derive(Debug)]
pub struct Fifo {
    file: OwnedFd,
    path: PathBuf,
}

impl Fifo {
    /// Opens the named pipe of this user at `path`, or makes it with the mode 0600. What lay in it
    /// is taken out.
    ///
    /// # Errors
    /// `AlreadyExists` if another file stands there, or another user's. The errors of `mkfifo` and
    /// `open`.
    pub fn own(path: &Path) -> io::Result<Self> {
        match rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RUSR | Mode::WUSR) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let is_fifo = fs::symlink_metadata(path)?.file_type().is_fifo();
        let file =
            if is_fifo { rustix::fs::open(path, flags, Mode::empty())? } else { return Err(taken(path)) };
        let found = rustix::fs::fstat(&file)?;
        let is_own = found.st_uid == rustix::process::geteuid().as_raw();
        if !is_own || FileType::from_raw_mode(found.st_mode) != FileType::Fifo {
            return Err(taken(path));
        }
        let fifo = Self { file, path: fs::canonicalize(path)? };
        while fifo.take(usize::MAX) > 0 {}
        Ok(fifo)
    }

    /// How many bytes lie in it.
    pub fn len(&self) -> usize {
        rustix::io::ioctl_fionread(&self.file).unwrap_or(0) as usize
    }

    /// Whether no byte lies in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts `count` bytes in, and returns how many fitted.
    pub fn put(&self, count: usize) -> usize {
        let bytes = [b'+'; 256];
        let mut put = 0;
        while put < count {
            match rustix::io::write(&self.file, &bytes[..bytes.len().min(count - put)]) {
                Ok(written @ 1..) => put += written,
                _ => return put,
            }
        }
        put
    }

    /// Takes at most `count` bytes out, and returns how many there were. It does not wait.
    pub fn take(&self, count: usize) -> usize {
        let mut bytes = [0; 256];
        let mut taken = 0;
        while taken < count {
            let most = bytes.len().min(count - taken);
            match rustix::io::read(&self.file, &mut bytes[..most]) {
                Ok(read @ 1..) => taken += read,
                _ => return taken,
            }
        }
        taken
    }

    /// Whether a process has it open. `false` if this domain may not see that.
    pub fn is_held_by(&self, pid: u32) -> bool {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        // The name of the link is compared first: it asks no file system.
        let is_this = |entry: fs::DirEntry| {
            let path = entry.path();
            fs::read_link(&path).is_ok_and(|target| target == self.path)
                && fs::metadata(&path).is_ok_and(|found| self.is_same(&found))
        };
        files.flatten().any(is_this)
    }

    fn is_same(&self, found: &fs::Metadata) -> bool {
        let own = rustix::fs::fstat(&self.file);
        own.is_ok_and(|own| own.st_dev == found.dev() && own.st_ino == found.ino())
    }

    /// A file that has something to read when a process opens this pipe or takes from it.
    ///
    /// # Errors
    /// Too many watches (`fs.inotify.max_user_watches`), or too many open files.
    pub fn watch(&self) -> io::Result<FifoWatch> {
        let file = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        inotify::add_watch(&file, &self.path, inotify::WatchFlags::OPEN | inotify::WatchFlags::ACCESS)?;
        Ok(FifoWatch { file })
    }

    /// Removes the name. The pipe stays for the processes that have it open.
    pub fn remove(&self) {
        // Somebody else may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

fn taken(path: &Path) -> io::Error {
    let said = format!("{} is no named pipe of this user; remove it", path.display());
    io::Error::new(io::ErrorKind::AlreadyExists, said)
}

/// What [`Fifo::watch`] returns.
#[derive(Debug)]
pub struct FifoWatch {
    file: OwnedFd,
}

impl FifoWatch {
    /// Forgets what has come. Returns whether anything had.
    pub fn clear(&self) -> bool {
        let mut bytes = [0; 4096];
        let mut came = false;
        while rustix::io::read(&self.file, &mut bytes).is_ok_and(|read| read > 0) {
            came = true;
        }
        came
    }
}

impl AsFd for FifoWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::{Read, Write};

    fn path(of: &str) -> PathBuf {
        std::env::temp_dir().join(format!("underpass-fifo-{}-{of}", std::process::id()))
    }

    #[test]
    fn bytes_are_taken_and_put_back_and_the_holder_is_known() {
        let path = path("bytes");
        let fifo = Fifo::own(&path).unwrap();
        let watch = fifo.watch().unwrap();
        assert!(!watch.clear() && fifo.is_empty());
        assert_eq!((fifo.put(300), fifo.len(), fifo.take(299)), (300, 300, 299));
        watch.clear();
        let mut other = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert!(watch.clear(), "it was opened");
        other.read_exact(&mut [0]).unwrap();
        assert!(watch.clear(), "a byte was taken");
        assert_eq!((fifo.len(), fifo.take(1)), (0, 0));
        other.write_all(b"+").unwrap();
        assert_eq!(fifo.len(), 1);
        assert!(fifo.is_held_by(std::process::id()));
        assert!(!fifo.is_held_by(1) || std::process::id() == 1);
        // The next owner finds it empty.
        let next = Fifo::own(&path).unwrap();
        assert_eq!((next.len(), fifo.len()), (0, 0));
        fifo.remove();
        assert!(!path.exists());
    }

    #[test]
    fn another_file_is_refused() {
        let path = path("file");
        fs::write(&path, "x").unwrap();
        assert_eq!(Fifo::own(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"x");
        fs::remove_file(&path).unwrap();
    }
}
