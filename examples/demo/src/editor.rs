//! The editor: two threads, two passes over the text.

use super::event::EditorThread;
use super::job::Worker;
use super::plan::{EditPlan, Imports, Pulse, Threads};
use anyhow::Result;
use std::sync::Arc;
use underpass_os::clock;

/// The result of the editor's work.
#[derive(Debug)]
pub struct Done {
    /// When the first call was made, in ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// When the last call had returned.
    pub to: u64,
    /// The number of changed places.
    pub places: u64,
    /// Bytes of the edited text.
    pub bytes: u64,
    /// The checksum of all cells of the screen.
    pub checksum: u64,
    /// The screen, row by row.
    pub screen: Vec<String>,
}

/// Searches and edits the text with threads T1 and T2.
///
/// # Errors
/// If a call or an import fails.
pub fn edit<I: Imports>(
    imports: &Arc<I>,
    threads: &impl Threads,
    plan: &Arc<EditPlan>,
    pulse: &Arc<Pulse>,
) -> Result<Done> {
    let mut t1 = Worker::new(EditorThread::T1, imports, plan, pulse)?;
    let mut t2 = Worker::new(EditorThread::T2, imports, plan, pulse)?;
    let from = clock::now_ns();
    let search1 = move || t1.search().map(|half| (t1, half));
    let search2 = move || t2.search().map(|half| (t2, half));
    let ((mut t1, half1), (mut t2, half2)) = threads.both(search1, search2)?;

    // Everything behind a changed place moves.
    let (find, replace) = (plan.change.find.len() as u64, plan.change.replace.len() as u64);
    let output = half2.bytes.start + half1.places * replace - half1.places * find;
    let blocks = half2.bytes.end.div_ceil(u64::from(plan.block));
    let middle = blocks + blocks.div_ceil(3);
    let edit1 = move || t1.edit(&half1, 0, middle).map(|mark| (t1, mark));
    let edit2 = move || t2.edit(&half2, output, middle).map(|mark| (t2, mark));
    let ((t1, mark1), (_, mark2)) = threads.both(edit1, edit2)?;
    let (checksum, screen) = t1.screen()?;
    let to = clock::now_ns();
    Ok(Done { from, to, places: mark1.places + mark2.places, bytes: mark2.output, checksum, screen })
}

#[cfg(test)]
mod tests {
    use super::super::files::{FileCacheManager, Managed};
    use super::super::imports::KernelThreads;
    use super::super::interfaces::{
        FileCache, FileId, Frame, FsError, Stat, WindowManager, WindowPlace, WmError,
    };
    use super::super::plan::{COPY, EditorProgress, SCREEN, TEXT};
    use super::super::text::{Change, make};
    use super::super::windows::Windows;
    use super::*;
    use std::fs;
    use std::ops::Deref;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::sync::{Mutex, RwLock, RwLockReadGuard};
    use underpass::CallError;

    /// A file cache manager that dies after that many writes, and loses everything that it had not
    /// flushed.
    #[derive(Clone)]
    struct Mortal {
        manager: Arc<FileCacheManager>,
        writes: Arc<AtomicI64>,
        /// Calls in progress hold this for reading.
        calls: Arc<RwLock<()>>,
    }

    /// A manager that lives until this call is over.
    struct Alive<'a>(&'a FileCacheManager, #[allow(dead_code)] RwLockReadGuard<'a, ()>);

    impl Deref for Alive<'_> {
        type Target = FileCacheManager;
        fn deref(&self) -> &FileCacheManager {
            self.0
        }
    }

    impl Mortal {
        fn alive(&self) -> Result<Alive<'_>, FsError> {
            let call = self.calls.read().unwrap();
            let dead = self.writes.load(Ordering::SeqCst) < 0;
            if dead {
                Err(FsError::Call(CallError::Deadline(underpass::Outcome::NotStarted)))
            } else {
                Ok(Alive(&self.manager, call))
            }
        }

        /// Waits until no call of it writes to the file any more, as after the death of a process.
        fn gone(&self) {
            drop(self.calls.write().unwrap());
        }
    }

    impl FileCache for Mortal {
        fn open(&self, name: &str) -> Result<FileId, FsError> {
            self.alive()?.open(name)
        }
        fn stat(&self, file: FileId) -> Result<Stat, FsError> {
            self.alive()?.stat(file)
        }
        fn read(&self, file: FileId, offset: u64, len: u32) -> Result<Vec<u8>, FsError> {
            self.alive()?.read(file, offset, len)
        }
        fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FsError> {
            self.writes.fetch_sub(1, Ordering::SeqCst);
            self.alive()?.write(file, offset, bytes)
        }
        fn flush(&self, file: FileId) -> Result<u64, FsError> {
            self.alive()?.flush(file)
        }
    }

    #[derive(Clone)]
    struct Shared(Arc<Windows>);

    impl WindowManager for Shared {
        fn open(&self, title: &str, place: WindowPlace) -> Result<u32, WmError> {
            self.0.open(title, place)
        }
        fn draw(&self, window: u32, row: u16, text: &str) -> Result<(), WmError> {
            self.0.draw(window, row, text)
        }
        fn compose(&self) -> Result<Frame, WmError> {
            self.0.compose()
        }
        fn screen(&self) -> Result<Vec<String>, WmError> {
            self.0.screen()
        }
    }

    struct Here {
        dir: PathBuf,
        files: Mutex<Vec<Mortal>>,
        windows: Shared,
    }

    impl Here {
        fn new(dir: &Path, writes: i64) -> Self {
            let windows = Shared(Arc::new(Windows::new(SCREEN.0, SCREEN.1)));
            let here = Self { dir: dir.to_owned(), files: Mutex::default(), windows };
            here.files.lock().unwrap().push(here.manager(0, writes));
            here
        }

        fn manager(&self, life: u32, writes: i64) -> Mortal {
            let managed = |name, writable| Managed { name, path: self.dir.join(name), writable };
            let managed = vec![managed(TEXT, false), managed(COPY, true)];
            let manager = FileCacheManager::new(life, managed, 64, 20);
            Mortal {
                manager: Arc::new(manager),
                writes: Arc::new(AtomicI64::new(writes)),
                calls: Arc::default(),
            }
        }
    }

    impl Imports for Here {
        type Files = Mortal;
        type Windows = Shared;

        fn files(&self, _: EditorThread) -> Result<Mortal> {
            Ok(self.files.lock().unwrap()[0].clone())
        }
        /// Both threads get the same manager. Two managers, each with a cache, would overwrite each
        /// other's version of the block in which the halves meet.
        fn files_again(&self, _: EditorThread) -> Result<Mortal> {
            let mut lives = self.files.lock().unwrap();
            if lives.len() == 1 {
                lives[0].gone();
                lives.push(self.manager(1, i64::MAX));
            }
            Ok(lives[1].clone())
        }
        fn windows(&self, _: EditorThread) -> Result<Shared> {
            Ok(self.windows.clone())
        }
    }

    /// Edits `text` and checks the result. Returns the screen's checksum and the editor's reports.
    fn edited(text: &[u8], writes: Option<i64>) -> (u64, Vec<EditorProgress>) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(TEXT), text).unwrap();
        let change = Change::of(text);
        let (expected, places) = change.applied(text);
        let disaster = writes.is_some();
        let plan = Arc::new(EditPlan { change, block: 64, compose_every: 4, flush_every: 8, disaster });
        let told = Arc::new(Mutex::new(Vec::new()));
        let hear = told.clone();
        let pulse = Arc::new(Pulse::new(0, move |news| hear.lock().unwrap().push(news)));
        let imports = Arc::new(Here::new(dir.path(), writes.unwrap_or(i64::MAX)));
        let done = edit(&imports, &KernelThreads::default(), &plan, &pulse).unwrap();
        assert!(fs::read(dir.path().join(COPY)).unwrap() == expected, "{} bytes of text", text.len());
        assert_eq!((done.bytes, done.places), (expected.len() as u64, places));
        assert_eq!(done.screen.len(), usize::from(SCREEN.0));
        (done.checksum, told.lock().unwrap().clone())
    }

    #[test]
    fn texts_of_all_sizes_are_edited() {
        let text = make(20_000, 5);
        for len in [1, 5, 63, 64, 65, 127, 128, 129, 200, 1_000, 19_999, 20_000] {
            edited(&text[..len], None);
        }
    }

    #[test]
    fn a_place_on_the_cut_is_changed_once() {
        for shift in 0..8 {
            edited(&[&vec![b'.'; 60 + shift], &b"kernel"[..], &vec![b'.'; 62 - shift]].concat(), None);
        }
    }

    #[test]
    fn the_editor_survives_the_file_cache_manager() {
        let text = make(20_000, 6);
        let (calm, _) = edited(&text, None);
        for writes in [0, 1, 30, 100, 200, 300] {
            let (checksum, news) = edited(&text, Some(writes));
            assert_eq!(checksum, calm, "{writes} writes");
            let lost = |thread| {
                news.iter()
                    .any(|news| matches!(news, EditorProgress::Lost { thread: of, .. } if *of == thread))
            };
            assert!(lost(EditorThread::T1) && lost(EditorThread::T2), "{writes} writes: {news:?}");
        }
    }
}
