//! The editor's work: one thread searches and edits its half of the text, block by block.

use super::event::EditorThread;
use super::interfaces::{FileCache, FileId, FsError, WindowManager};
use super::plan::{COPY, EditPlan, EditorProgress, Half, Imports, Mark, Pulse, TEXT};
use super::scan::{Part, Scan, cut, line_around};
use anyhow::{Context, Result, bail, ensure};
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass_os::clock;

/// How long a thread waits for the announced disaster.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of a line that are drawn on the screen.
const WIDTH: usize = 58;

/// One of the editor's threads.
#[derive(Debug)]
pub struct Worker<I: Imports> {
    thread: EditorThread,
    imports: Arc<I>,
    plan: Arc<EditPlan>,
    pulse: Arc<Pulse>,
    files: I::Files,
    windows: I::Windows,
    text: FileId,
    copy: FileId,
    window: u32,
}

impl<I: Imports> Worker<I> {
    /// Imports the servers that the thread needs.
    ///
    /// # Errors
    /// If an import fails.
    pub fn new(
        thread: EditorThread,
        imports: &Arc<I>,
        plan: &Arc<EditPlan>,
        pulse: &Arc<Pulse>,
    ) -> Result<Self> {
        let (files, windows) = (imports.files(thread)?, imports.windows(thread)?);
        let (imports, plan, pulse) = (imports.clone(), plan.clone(), pulse.clone());
        let none = FileId { life: 0, index: 0 };
        Ok(Self { thread, imports, plan, pulse, files, windows, text: none, copy: none, window: 0 })
    }

    /// The first pass: opens everything, in the order of Figure 1, and counts the places to change.
    ///
    /// # Errors
    /// If a call fails.
    pub fn search(&mut self) -> Result<Half> {
        let title = format!("{} edits", self.thread);
        if self.thread == EditorThread::T1 {
            self.window = self.windows.open(&title, self.thread.place())?;
        }
        self.open_files()?;
        if self.thread == EditorThread::T2 {
            self.window = self.windows.open(&title, self.thread.place())?;
        }
        let bytes = self.half()?;
        let mut mark = Mark { input: bytes.start, ..Mark::default() };
        let mut scan = Scan::new(&self.plan.change.find);
        while mark.input < bytes.end {
            let piece = self.read(&mut mark, bytes.end)?;
            let mut first = None;
            scan.push(&piece, |part| {
                if let Part::Word(at) = part {
                    mark.places += 1;
                    first.get_or_insert(at);
                }
            });
            self.show(&mut mark, "found", first.map(|at| line_around(scan.seen(), at, WIDTH)))?;
            self.pulse.block();
        }
        Ok(Half { bytes, places: mark.places })
    }

    /// The second pass: writes the edited half to the copy at `output`. If the file cache manager
    /// dies in this round, it imports the manager again and continues from the last flush. At block
    /// `middle` it reports that the disaster may happen.
    ///
    /// # Errors
    /// If a call fails for another reason.
    pub fn edit(&mut self, half: &Half, output: u64, middle: u64) -> Result<Mark> {
        let mut safe = Mark { input: half.bytes.start, output, ..Mark::default() };
        for death in 0.. {
            let mut now = safe;
            let calm = !self.plan.disaster || death > 0;
            let Err(error) = self.edit_from(half, &mut now, &mut safe, middle, calm) else { return Ok(now) };
            let died = matches!(error.downcast_ref(), Some(FsError::Call(_)));
            if !died || !self.plan.disaster || death > 2 {
                return Err(error);
            }
            let (thread, error) = (self.thread, format!("{error:#}"));
            self.pulse.tell(EditorProgress::Lost { thread, error, at: clock::now_ns() });
            self.files = self.imports.files_again(thread)?;
            self.open_files()?;
            let repeats = now.input - safe.input;
            self.pulse.tell(EditorProgress::Again { thread, repeats, at: clock::now_ns() });
        }
        Ok(safe)
    }

    /// Edits from `now` to the end. `safe` advances at each flush: everything before it is on disk.
    fn edit_from(&self, half: &Half, now: &mut Mark, safe: &mut Mark, middle: u64, calm: bool) -> Result<()> {
        let change = &self.plan.change;
        let (mut scan, mut out) = (Scan::new(&change.find), Vec::with_capacity(2 * self.plan.block as usize));
        if now.held > 0 {
            let held = self.files.read(self.text, now.input - now.held, now.held as u32);
            scan.push(&held.context("read again")?, |_| {});
        }
        while now.input < half.bytes.end {
            let piece = self.read(now, half.bytes.end)?;
            let mut first = None;
            out.clear();
            scan.push(&piece, |part| match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Word(_) => {
                    now.places += 1;
                    first.get_or_insert(out.len());
                    out.extend_from_slice(change.replace.as_bytes());
                }
            });
            self.write(now, &out)?;
            self.show(now, "changed", first.map(|at| line_around(&out, at, WIDTH)))?;
            if now.blocks.is_multiple_of(u64::from(self.plan.flush_every)) {
                self.flush()?;
                *safe = Mark { held: scan.held() as u64, ..*now };
            }
            if self.pulse.block() == middle {
                self.pulse.tell(EditorProgress::Middle);
            }
        }
        out.clear();
        scan.finish(|part| {
            if let Part::Text(text) = part {
                out.extend_from_slice(text)
            }
        });
        self.write(now, &out)?;
        self.flush()?;
        if calm {
            return Ok(());
        }
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            self.flush()?;
        }
        bail!("nobody killed the file cache manager within {PATIENCE:?}")
    }

    /// The last calls of a round, which read the final screen.
    ///
    /// # Errors
    /// If a call fails.
    pub fn screen(&self) -> Result<(u64, Vec<String>)> {
        Ok((self.windows.compose()?.checksum, self.windows.screen()?))
    }

    fn open_files(&mut self) -> Result<()> {
        self.text = self.files.open(TEXT)?;
        self.copy = self.files.open(COPY)?;
        Ok(())
    }

    /// This thread's half of the text. The cut does not divide a place to change.
    fn half(&self) -> Result<std::ops::Range<u64>> {
        let (size, block) = (self.files.stat(self.text)?.size, u64::from(self.plan.block));
        let find = &self.plan.change.find;
        let middle = size.div_ceil(2).div_ceil(block) * block;
        if middle >= size {
            return Ok(if self.thread == EditorThread::T1 { 0..size } else { size..size });
        }
        let around = find.len() as u64 - 1;
        let from = middle.saturating_sub(around);
        let bytes = self.files.read(self.text, from, (middle + around - from) as u32)?;
        let middle = from + cut(&bytes, (middle - from) as usize, find) as u64;
        Ok(if self.thread == EditorThread::T1 { 0..middle } else { middle..size })
    }

    /// Reads up to the end of the block, or up to `end`.
    fn read(&self, mark: &mut Mark, end: u64) -> Result<Vec<u8>> {
        let block = u64::from(self.plan.block);
        let len = (block - mark.input % block).min(end - mark.input);
        let doing = || format!("read {len} bytes at {}", mark.input);
        let piece = self.files.read(self.text, mark.input, len as u32).with_context(doing)?;
        ensure!(
            piece.len() as u64 == len,
            "the text has become shorter: {} bytes for {}",
            piece.len(),
            doing()
        );
        mark.input += len;
        mark.blocks += 1;
        Ok(piece)
    }

    fn write(&self, mark: &mut Mark, bytes: &[u8]) -> Result<()> {
        let doing = || format!("write {} bytes at {}", bytes.len(), mark.output);
        if !bytes.is_empty() {
            self.files.write(self.copy, mark.output, bytes).with_context(doing)?;
        }
        mark.output += bytes.len() as u64;
        Ok(())
    }

    fn flush(&self) -> Result<u64> {
        self.files.flush(self.copy).context("flush")
    }

    /// Draws the thread's progress and the line with the first place. Composes the screen at
    /// intervals.
    fn show(&self, mark: &mut Mark, done: &str, line: Option<&[u8]>) -> Result<()> {
        let rows = self.thread.place().rows - 2;
        let status = format!("{:>6} blocks, {:>7} places {done}", mark.blocks, mark.places);
        self.windows.draw(self.window, 0, &status)?;
        if let Some(line) = line {
            let row = 1 + (mark.lines % u64::from(rows - 1)) as u16;
            self.windows.draw(self.window, row, &String::from_utf8_lossy(line))?;
            mark.lines += 1;
        }
        if mark.blocks.is_multiple_of(u64::from(self.plan.compose_every)) {
            self.windows.compose()?;
        }
        Ok(())
    }
}
