//! Open files among results, which are copied into a folder.

use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The most bytes that the files of a call have, unless the user allows more.
pub const MOST_SAVED: u64 = 1 << 30;

/// Where open files are saved, and how much of them.
#[derive(Debug)]
pub struct SavedFiles {
    folder: PathBuf,
    most: u64,
    /// How many bytes may still be saved.
    left: u64,
}

impl SavedFiles {
    /// Files are copied into `folder`, all together at most `most` bytes.
    pub fn new(folder: PathBuf, most: u64) -> Self {
        Self { folder, most, left: most }
    }

    /// Copies the file, under its number. The error leaves no copy.
    pub(super) fn save(&mut self, mut file: File, size: u64, number: usize) -> Result<Value, String> {
        // Its server may say any size: a file with holes takes no space there.
        if size > self.left {
            return Err(self.too_large());
        }
        let path = self.folder.join(number.to_string());
        let failed = |e: io::Error| format!("a file can't be saved as {}: {e}", path.display());
        file.rewind().map_err(failed)?;
        let mut copy = File::create(&path).map_err(failed)?;
        // Its server may make the file longer meanwhile.
        let copied = io::copy(&mut file.take(self.left.saturating_add(1)), &mut copy);
        let copied = copied.map_err(failed).and_then(|bytes| match bytes > self.left {
            true => Err(self.too_large()),
            false => Ok(bytes),
        });
        if copied.is_err() {
            let _ = fs::remove_file(&path);
        }
        let copied = copied?;
        self.left -= copied;
        Ok(json!({ "path": path, "size": copied }))
    }

    fn too_large(&self) -> String {
        format!("its files have more than {} bytes together; allow more with --max-bytes", self.most)
    }
}

/// The open file as JSON: its copy, if it is to be saved. A file of another type than a regular one
/// could keep the reader for ever, so it is not read.
pub(super) fn to_json(file: OwnedFd, number: usize, save: Option<&mut SavedFiles>) -> Result<Value, String> {
    let file = File::from(file);
    let facts = file.metadata().map_err(|e| format!("a file can't be looked at: {e}"))?;
    match save.filter(|_| facts.is_file()) {
        Some(save) => save.save(file, facts.len(), number),
        None => Ok(json!({ "file": number, "size": facts.len() })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of `size` bytes that takes no space.
    fn sparse(size: u64) -> OwnedFd {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        file.into()
    }

    #[test]
    fn no_more_bytes_are_saved_than_the_user_allows() {
        let home = tempfile::tempdir().unwrap();
        let mut saved = SavedFiles::new(home.path().to_owned(), 100);
        let refused = to_json(sparse(1 << 20), 0, Some(&mut saved)).unwrap_err();
        assert!(refused.contains("more than 100 bytes") && refused.contains("--max-bytes"), "{refused}");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "nothing is left behind");
        let first = to_json(sparse(60), 1, Some(&mut saved)).unwrap();
        assert_eq!((&first["size"], fs::read(home.path().join("1")).unwrap().len()), (&json!(60), 60));
        assert!(to_json(sparse(41), 2, Some(&mut saved)).is_err(), "the limit is for all of them");
        assert!(to_json(sparse(40), 3, Some(&mut saved)).is_ok());
        assert_eq!(to_json(sparse(1 << 40), 4, None).unwrap(), json!({ "file": 4, "size": 1_u64 << 40 }));
    }

    #[test]
    fn a_file_that_grows_while_it_is_saved_is_cut_off() {
        let home = tempfile::tempdir().unwrap();
        let mut saved = SavedFiles::new(home.path().to_owned(), 100);
        let refused = saved.save(sparse(1 << 20).into(), 10, 0).unwrap_err();
        assert!(refused.contains("--max-bytes"), "{refused}");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
