//! The file cache manager.

use super::cache::{Block, Cache, Key};
use super::interfaces::{FileCache, FileId, FsError, Stat};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many blocks are read at once, if the next ones are not cached either.
const AHEAD: u64 = 16;

/// A file that the manager may open: its name, its path, and whether it may be changed.
#[derive(Clone, Debug)]
pub struct Managed {
    /// The name that clients use.
    pub name: &'static str,
    /// Its path.
    pub path: PathBuf,
    /// Whether clients may write.
    pub writable: bool,
}

/// Implements [`FileCache`] over the real files that it was given, and over no others.
#[derive(Debug)]
pub struct FileCacheManager {
    life: u32,
    block: u32,
    managed: Vec<Managed>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    open: Vec<Open>,
    cache: Cache,
}

#[derive(Debug)]
struct Open {
    managed: usize,
    file: File,
    size: u64,
}

impl FileCacheManager {
    /// A manager of the files `managed`. It caches at most `limit` blocks of `block` bytes.
    ///
    /// `life` distinguishes this manager's file ids from those of an earlier manager.
    pub fn new(life: u32, managed: Vec<Managed>, block: u32, limit: usize) -> Self {
        let state = Mutex::new(State { open: Vec::new(), cache: Cache::new(limit) });
        Self { life, block: block.max(1), managed, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self, state: &State, file: FileId) -> Result<usize, FsError> {
        let index = file.index as usize;
        if file.life != self.life || index >= state.open.len() { Err(FsError::Stale) } else { Ok(index) }
    }
}

impl State {
    /// Brings a block into the cache, and those behind it that will be read next.
    fn fetch(&mut self, (index, number): Key, block: u32) -> io::Result<()> {
        if self.cache.holds((index, number)) {
            return Ok(());
        }
        let open = &self.open[index as usize];
        let end = open.size.div_ceil(u64::from(block)).clamp(number + 1, number + AHEAD);
        let missing =
            (number + 1..end).take_while(|&next| !self.cache.holds((index, next))).count() as u64 + 1;
        let mut bytes = vec![0; missing as usize * block as usize];
        read_full(&open.file, &mut bytes, number * u64::from(block))?;
        // Backwards, so that the requested block is inserted last, as the most recently used.
        for (next, bytes) in bytes.chunks(block as usize).enumerate().rev() {
            let new = Block { bytes: bytes.to_vec(), changed: false };
            if let Some(((index, number), old)) = self.cache.put((index, number + next as u64), new)
                && old.changed
            {
                self.open[index as usize].write_back(number * u64::from(block), &old.bytes)?;
            }
        }
        Ok(())
    }
}

impl Open {
    /// Writes a block to disk, except what lies behind the end of the file.
    fn write_back(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let len = self.size.saturating_sub(offset).min(bytes.len() as u64);
        self.file.write_all_at(&bytes[..len as usize], offset)
    }
}

impl FileCache for FileCacheManager {
    fn open(&self, name: &str) -> Result<FileId, FsError> {
        let found = self.managed.iter().position(|managed| managed.name == name);
        let wanted = found.ok_or_else(|| FsError::NoFile(name.to_owned()))?;
        let mut state = self.state();
        let known = state.open.iter().position(|open| open.managed == wanted);
        let index = match known {
            Some(index) => index,
            None => {
                let managed = &self.managed[wanted];
                let mut how = File::options();
                how.read(true).write(managed.writable).create(managed.writable);
                let opened = how.open(&managed.path).and_then(|file| Ok((file.metadata()?.len(), file)));
                let (size, file) = opened
                    .map_err(|e| FsError::Disk(format!("can't open {}: {e}", managed.path.display())))?;
                state.open.push(Open { managed: wanted, file, size });
                state.open.len() - 1
            }
        };
        Ok(FileId { life: self.life, index: index as u32 })
    }

    fn stat(&self, file: FileId) -> Result<Stat, FsError> {
        let state = self.state();
        let open = &state.open[self.index(&state, file)?];
        Ok(Stat { size: open.size, block: self.block, writable: self.managed[open.managed].writable })
    }

    fn read(&self, file: FileId, offset: u64, len: u32) -> Result<Vec<u8>, FsError> {
        let mut state = self.state();
        let index = self.index(&state, file)?;
        let end = offset.saturating_add(u64::from(len)).min(state.open[index].size);
        let mut out = Vec::with_capacity(end.saturating_sub(offset) as usize);
        let block = u64::from(self.block);
        let mut at = offset;
        while at < end {
            let key = (index as u32, at / block);
            state.fetch(key, self.block).map_err(|e| disk("read", e))?;
            let within = (at % block) as usize;
            let wanted = (end - at).min(block - at % block) as usize;
            if let Some(cached) = state.cache.get(key) {
                out.extend_from_slice(&cached.bytes[within..within + wanted]);
            }
            at += wanted as u64;
        }
        Ok(out)
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FsError> {
        let mut state = self.state();
        let index = self.index(&state, file)?;
        let managed = &self.managed[state.open[index].managed];
        if !managed.writable {
            return Err(FsError::ReadOnly(managed.name.to_owned()));
        }
        let block = u64::from(self.block);
        let (mut at, mut left) = (offset, bytes);
        while !left.is_empty() {
            let key = (index as u32, at / block);
            state.fetch(key, self.block).map_err(|e| disk("write", e))?;
            let within = (at % block) as usize;
            let (now, later) = left.split_at(left.len().min(block as usize - within));
            if let Some(cached) = state.cache.get(key) {
                cached.bytes[within..within + now.len()].copy_from_slice(now);
                cached.changed = true;
            }
            at += now.len() as u64;
            left = later;
            let open = &mut state.open[index];
            open.size = open.size.max(at);
        }
        Ok(())
    }

    fn flush(&self, file: FileId) -> Result<u64, FsError> {
        let mut state = self.state();
        let index = self.index(&state, file)?;
        let State { open, cache } = &mut *state;
        let changed = cache.changed(file.index);
        for &number in &changed {
            if let Some(block) = cache.peek((file.index, number)) {
                let offset = number * u64::from(self.block);
                open[index].write_back(offset, &block.bytes).map_err(|e| disk("flush", e))?;
                block.changed = false;
            }
        }
        Ok(changed.len() as u64)
    }
}

fn disk(doing: &str, error: io::Error) -> FsError {
    FsError::Disk(format!("the disk, for {doing}: {error}"))
}

/// Reads until `out` is full or the file ends.
fn read_full(file: &File, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !out.is_empty() {
        match file.read_at(out, offset) {
            Ok(0) => break,
            Ok(read) => {
                out = &mut out[read..];
                offset += read as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A manager with at most three blocks of 4 bytes, over "text" (10 bytes) and an empty "copy".
    fn manager(dir: &tempfile::TempDir) -> FileCacheManager {
        fs::write(dir.path().join("text"), b"0123456789").unwrap();
        let managed = |name, writable| Managed { name, path: dir.path().join(name), writable };
        FileCacheManager::new(7, vec![managed("text", false), managed("copy", true)], 4, 3)
    }

    #[test]
    fn reads_across_blocks_and_up_to_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let files = manager(&dir);
        let text = files.open("text").unwrap();
        assert_eq!(files.stat(text).unwrap(), Stat { size: 10, block: 4, writable: false });
        assert_eq!(files.read(text, 3, 4).unwrap(), b"3456");
        assert_eq!(files.read(text, 8, 4).unwrap(), b"89");
        assert_eq!(files.read(text, 0, 100).unwrap(), b"0123456789");
        assert_eq!(files.read(text, 10, 4).unwrap(), b"");
        assert_eq!(files.read(text, u64::MAX, u32::MAX).unwrap(), b"");
    }

    #[test]
    fn writes_reach_the_disk_on_flush_or_eviction() {
        let dir = tempfile::tempdir().unwrap();
        let files = manager(&dir);
        let copy = files.open("copy").unwrap();
        files.write(copy, 6, b"six").unwrap();
        files.write(copy, 0, b"zero").unwrap();
        assert_eq!(fs::read(dir.path().join("copy")).unwrap(), b"");
        assert_eq!(files.read(copy, 0, 99).unwrap(), b"zero\0\0six");
        assert_eq!(files.flush(copy).unwrap(), 3);
        assert_eq!(files.flush(copy).unwrap(), 0);
        assert_eq!(fs::read(dir.path().join("copy")).unwrap(), b"zero\0\0six");
        files.write(copy, 0, b"ZERO").unwrap();
        let text = files.open("text").unwrap();
        files.read(text, 0, 10).unwrap();
        assert_eq!(fs::read(dir.path().join("copy")).unwrap(), b"ZERO\0\0six");
        assert_eq!(files.read(copy, 0, 99).unwrap(), b"ZERO\0\0six");
    }

    #[test]
    fn only_the_files_given_and_only_as_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let files = manager(&dir);
        assert_eq!(files.open("../text"), Err(FsError::NoFile("../text".to_owned())));
        let text = files.open("text").unwrap();
        assert_eq!(files.open("text").unwrap(), text);
        assert_eq!(files.write(text, 0, b"x"), Err(FsError::ReadOnly("text".to_owned())));
        assert_eq!(files.stat(FileId { life: 6, ..text }), Err(FsError::Stale));
        assert_eq!(files.stat(FileId { index: 1, ..text }), Err(FsError::Stale));
        fs::remove_file(dir.path().join("text")).unwrap();
        assert!(matches!(manager_without_text(&dir).open("text"), Err(FsError::Disk(_))));
    }

    fn manager_without_text(dir: &tempfile::TempDir) -> FileCacheManager {
        let path = dir.path().join("text");
        FileCacheManager::new(8, vec![Managed { name: "text", path, writable: false }], 4, 3)
    }
}
