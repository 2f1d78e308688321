//! Runs the demo for the user: rounds, progress, report.

use super::DemoOptions;
use super::child_processes::{Ear, Interrupted};
use super::event::DemoDomain;
use super::figure;
use super::messages::{ChildTask, Transport};
use super::outcome::{self, DemoOutcome, Disaster, Text};
use super::plan::EditPlan;
use super::round::{self, Round};
use super::text::{self, Change};
use super::timeline::Timeline;
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use underpass_figures::Machine;

/// The size in bytes of the text that the demo makes, and of the text for `--quick`.
const MADE: (usize, usize) = (16 << 20, 2 << 20);
/// The longest FILE that is accepted, in bytes. The demo keeps it and the expected result in
/// memory.
const LONGEST: u64 = 64 << 20;
/// Bytes in a block.
const BLOCK: u32 = 4_096;
/// Rounds over each transport.
const ROUNDS: (usize, usize) = (5, 3);
/// Calls in an excerpt of the timeline.
const EXCERPT: usize = 40;

/// A prepared run: the text on disk, and the expected result.
struct Run {
    directory: TempDir,
    text: PathBuf,
    expected: Vec<u8>,
    places: u64,
    bytes: u64,
    change: Change,
}

/// Runs all rounds and shows the results.
///
/// # Errors
/// If anything fails.
pub fn run(options: &DemoOptions) -> Result<()> {
    // Checked first, so that a run of seconds does not fail in the end because a path cannot be
    // written.
    if let Some(path) = &options.svg {
        fs::write(path, "").with_context(|| format!("can't write the drawing to {}", path.display()))?;
    }
    let ear = Ear::new()?;
    let run = Run::prepare(options)?;
    let outcome = run.play(options, &ear)?;
    if let Some(path) = &options.svg {
        let drawn = figure::draw(&outcome);
        fs::write(path, drawn).with_context(|| format!("can't write the drawing to {}", path.display()))?;
    }
    let shown = if options.json { serde_json::to_string(&outcome)? + "\n" } else { outcome.to_string() };
    match io::stdout().lock().write_all(shown.as_bytes()) {
        // The reader has seen enough and closed the pipe, for example `head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("can't write to standard output"),
    }
}

impl Run {
    fn prepare(options: &DemoOptions) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("underpass-demo-").tempdir();
        let directory = directory.context("can't make a temporary directory; is $TMPDIR writable?")?;
        let (text, bytes) = match &options.file {
            Some(file) => (fs::canonicalize(file).with_context(|| shown(file))?, read(file)?),
            None => {
                let bytes = text::make(if options.quick { MADE.1 } else { MADE.0 }, 1991);
                let path = directory.path().join("text");
                fs::write(&path, &bytes).with_context(|| format!("can't write {}", path.display()))?;
                (path, bytes)
            }
        };
        let change = Change::of(&bytes);
        let (expected, places) = change.applied(&bytes);
        Ok(Self { directory, text, expected, places, bytes: bytes.len() as u64, change })
    }

    fn play(&self, options: &DemoOptions, ear: &Ear) -> Result<DemoOutcome> {
        let repetitions = if options.quick { ROUNDS.1 } else { ROUNDS.0 };
        let blocks = self.bytes.div_ceil(u64::from(BLOCK));
        let all = repetitions * Transport::ALL.len() + 1;
        let bar = bar(all as u64 * 2 * blocks);
        let mut rounds: Vec<Round> = Vec::new();
        for number in 0..all {
            let disaster = number == all - 1;
            let transport =
                if disaster { Transport::Underpass } else { Transport::ALL[number % Transport::ALL.len()] };
            let task = self.task(transport, number, disaster, !bar.is_hidden());
            bar.set_message(if disaster {
                "the file cache manager is killed".into()
            } else {
                transport.to_string()
            });
            let before = number as u64 * 2 * blocks;
            let progress = |done: u64| bar.set_position(before + done.min(2 * blocks));
            progress(0);
            let what = if disaster { "the round with the kill" } else { "a round" };
            let round = round::play(ear, &task, &self.expected, &progress).map_err(|error| match error
                .is::<Interrupted>(
            ) {
                true => error,
                false => error.context(format!("{what} over {transport} failed")),
            })?;
            ensure!(
                round.edited.places == self.places || disaster,
                "the editor counts {} changed places, and there are {}",
                round.edited.places,
                self.places
            );
            if let Some(first) = rounds.first() {
                let same = first.edited.checksum == round.edited.checksum;
                ensure!(same, "the screen over {transport} isn't the one over {}", first.transport);
            }
            rounds.push(round);
        }
        bar.finish_and_clear();
        let disaster = rounds.pop().context("the round with the kill was the last")?;
        self.outcome(options, &rounds, disaster)
    }

    fn task(&self, transport: Transport, number: usize, disaster: bool, chatty: bool) -> ChildTask {
        let blocks = self.bytes.div_ceil(u64::from(BLOCK));
        let here = self.directory.path();
        let plan = EditPlan {
            change: self.change.clone(),
            block: BLOCK,
            compose_every: 4,
            flush_every: 64,
            disaster,
        };
        ChildTask {
            transport,
            directory: here.join(format!("round-{number}")),
            text: self.text.clone(),
            plan,
            blocks,
            // Half of the text, so that blocks are evicted and read again.
            cache: (blocks as usize / 2).max(64),
            life: 2 * number as u32,
            step: if chatty { (blocks / 8).max(1) } else { 0 },
        }
    }

    fn outcome(&self, options: &DemoOptions, rounds: &[Round], disaster: Round) -> Result<DemoOutcome> {
        let over = |transport| rounds.iter().filter(|round| round.transport == transport).collect::<Vec<_>>();
        let compared = [Transport::Underpass, Transport::Sockets];
        let interfaces: Vec<_> = (DemoDomain::SERVERS.iter())
            .flat_map(|&server| compared.map(|transport| outcome::line(&over(transport), server, transport)))
            .collect();
        let jobs: Vec<_> = Transport::ALL.map(|transport| outcome::job(&over(transport), transport)).into();
        let shown = over(Transport::Underpass);
        let shown = typical(&shown).context("there is a round over Underpass")?;
        let timeline = Timeline::of(shown);
        Ok(DemoOutcome {
            machine: Machine::this(),
            text: Text {
                file: options.file.as_ref().map(|file| file.display().to_string()),
                bytes: self.bytes,
                block: BLOCK,
                change: self.change.clone(),
                places: self.places,
                edited_bytes: self.expected.len() as u64,
            },
            pids: shown.pids.clone(),
            beginning: timeline.excerpt(0, EXCERPT),
            middle: timeline.excerpt(timeline.calls.len() / 2, EXCERPT),
            ratios: outcome::ratios(&interfaces, &jobs),
            interfaces,
            jobs,
            screen: shown.edited.screen.clone(),
            disaster: Disaster {
                from: disaster.edited.from,
                to: disaster.edited.to,
                steps: disaster.disaster,
                verified: true,
            },
        })
    }
}

/// The round with the median duration.
fn typical<'a>(rounds: &[&'a Round]) -> Option<&'a Round> {
    let mut by_time = rounds.to_vec();
    by_time.sort_by_key(|round| round.ns());
    by_time.get(by_time.len().saturating_sub(1) / 2).copied()
}

/// Reads the user's file.
fn read(file: &Path) -> Result<Vec<u8>> {
    let found = fs::metadata(file).with_context(|| shown(file))?;
    let name = file.display();
    ensure!(found.is_file(), "{name} isn't an ordinary file; give the demo one, or none");
    ensure!(found.len() > 0, "{name} is empty; give the demo a file with text in it, or none");
    let (len, longest) = (found.len() >> 20, LONGEST >> 20);
    ensure!(found.len() <= LONGEST, "{name} has {len} MiB; give the demo at most {longest} MiB");
    fs::read(file).with_context(|| shown(file))
}

fn shown(file: &Path) -> String {
    format!("can't read {}", file.display())
}

/// A progress bar on standard error, if that is a terminal.
fn bar(blocks: u64) -> ProgressBar {
    let bar = ProgressBar::new(blocks);
    if let Ok(style) = ProgressStyle::with_template("{bar:40.cyan/blue} {percent:>3} %  {elapsed:>3}  {msg}")
    {
        bar.set_style(style);
    }
    bar
}
