//! A store of words, kept in a file: what the service serves.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use underpass::sync::Mutex;
use underpass::{CallError, Health};

/// The name under which the store is exported.
pub const NAME: &str = "example.words";

/// Words under keys.
#[underpass::interface]
pub trait Words {
    /// The word under `key`.
    ///
    /// # Errors
    /// The call failed.
    fn get(&self, key: &str) -> Result<Option<String>, CallError>;
    /// Puts a word under `key`, and returns whether it is kept beyond the end of the server.
    ///
    /// # Errors
    /// The call failed.
    fn set(&self, key: &str, word: &str) -> Result<bool, CallError>;
}

/// Keeps words in a file. If that fails, the service says that it does not serve.
pub struct Store {
    file: PathBuf,
    words: Mutex<BTreeMap<String, String>>,
    health: Health,
}

impl Store {
    /// The words of `folder`, if there are any.
    ///
    /// # Errors
    /// The file is there and can't be read.
    pub fn open(folder: &Path, health: &Health) -> io::Result<Self> {
        let file = folder.join("words");
        let kept = match std::fs::read_to_string(&file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            kept => kept?,
        };
        let words = kept.lines().filter_map(|line| line.split_once('\t'));
        let words = words.map(|(key, word)| (key.to_owned(), word.to_owned())).collect();
        Ok(Self { file, words: Mutex::new(words), health: health.clone() })
    }

    /// Writes a new file in place of the old one.
    fn keep(&self, words: &BTreeMap<String, String>) -> io::Result<()> {
        let lines = words.iter().map(|(key, word)| format!("{}\t{}\n", one_line(key), one_line(word)));
        let fresh = self.file.with_extension("new");
        std::fs::write(&fresh, lines.collect::<String>())?;
        std::fs::rename(fresh, &self.file)
    }
}

/// The text without what separates keys, words and lines.
fn one_line(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}

impl Words for Store {
    fn get(&self, key: &str) -> Result<Option<String>, CallError> {
        let words = self.words.lock().expect("no handler panics with this lock");
        Ok(words.get(&one_line(key)).cloned())
    }

    fn set(&self, key: &str, word: &str) -> Result<bool, CallError> {
        let mut words = self.words.lock().expect("no handler panics with this lock");
        words.insert(one_line(key), one_line(word));
        // The disk may be slow. Other threads run meanwhile.
        let kept = underpass::thread::blocking(|| self.keep(&words));
        match &kept {
            Ok(()) => self.health.serving(),
            Err(e) => self.health.not_serving(format!("{} can't be written: {e}", self.file.display())),
        }
        Ok(kept.is_ok())
    }
}
