//! `underpass-bench`: prints rows for people or for machines, as they come.

use super::{comparison, curves, papers, peers};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use underpass_bench::{BenchError, CATALOGUE, Effort, ResultTable, Row, RowOrigin, RunObserver};

/// What `underpass-bench` is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArguments {
    #[command(subcommand)]
    task: Option<BenchTask>,
    /// The benchmark, or `all`
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Only this case, or those below it: `null` is `null/pinned` and all that begin so
    #[arg(long, value_name = "CASE")]
    case: Option<String>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// A look, in a few seconds: fewer rounds, fewer sizes
    #[arg(long)]
    quick: bool,
    /// List the benchmarks
    #[arg(long)]
    list: bool,
    /// Draw Figures 3 and 4 of `urpc` into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Where the peers of `threads` are [default: $UNDERPASS_PEERS, else peers/target/release]
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
}

/// What else than running a benchmark.
#[derive(Clone, Debug, clap::Subcommand)]
enum BenchTask {
    /// Compares the results of two builds, run by turns at least six times each: paired ratios,
    /// with a test of their significance
    Compare {
        /// What one build printed with `--json`, run after run
        #[arg(value_name = "A.json")]
        first: PathBuf,
        /// What the other one printed
        #[arg(value_name = "B.json")]
        second: PathBuf,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Measures the same calls over Underpass and over other packages, each as two processes
    Peers(peers::PeersArguments),
    /// Measures the papers' tables and figures, and writes a report: a page, and files of JSON
    Papers(papers::PapersArguments),
    /// One of the processes of a benchmark, which starts this command itself
    #[command(name = underpass_bench::SUBCOMMAND, hide = true)]
    Role {
        /// The task.
        role: String,
    },
}

/// Does what the command is asked for.
///
/// # Errors
/// If there is no such benchmark, if it fails, or if the results cannot be read or written.
pub fn run(options: &BenchArguments) -> Result<ExitCode, BenchError> {
    let mut out = io::stdout();
    let done = match &options.task {
        Some(BenchTask::Role { role }) => return underpass_bench::play(role),
        Some(BenchTask::Compare { first, second, json }) => comparison::print(&mut out, first, second, *json),
        Some(BenchTask::Peers(arguments)) => peers::run(arguments, &mut out),
        Some(BenchTask::Papers(arguments)) => papers::run(arguments, &mut out),
        None if options.list => list(&mut out, options.json),
        None => measure(options, out),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Runs a benchmark, and prints its rows as they come.
fn measure(options: &BenchArguments, out: impl Write) -> Result<(), BenchError> {
    let name = options.name.as_deref();
    let name = name.ok_or("a benchmark has to be named, or `all`; see `underpass-bench --list`")?;
    let effort = if options.quick { Effort::QUICK } else { Effort::FULL };
    let mut printer = Printer::new(out, options.json);
    let wanted =
        underpass_bench::RunOptions { case: options.case.clone(), effort, peers: options.peers.clone() };
    let ran = underpass_bench::run(name, &wanted, &mut printer);
    printer.bar.finish_and_clear();
    if let (Some(file), Ok(())) = (&options.svg, &ran) {
        let drawn = curves::draw(&printer.rows)?;
        std::fs::write(file, drawn).map_err(|e| format!("{} can't be written: {e}", file.display()))?;
    }
    match printer.written {
        // The reader has seen enough and closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => ran.and(written.map_err(BenchError::from)),
    }
}

fn list(out: &mut impl Write, json: bool) -> Result<(), BenchError> {
    let known = CATALOGUE.iter().map(|benchmark| (benchmark.name, benchmark.about));
    let others = [
        ("all", "all of them, in this order"),
        ("papers", "the papers' tables and figures as a report; see `underpass-bench papers --help`"),
        ("peers", "the same calls over other packages; see `underpass-bench peers --help`"),
    ];
    for (name, about) in known.chain(others) {
        match json {
            true => writeln!(out, "{}", serde_json::json!({ "name": name, "about": about }))?,
            false => writeln!(out, "{name:<16}{about}")?,
        }
    }
    Ok(())
}

/// Writes rows to `out`. Meanwhile it shows progress on standard error, if that is a terminal.
struct Printer<W> {
    out: W,
    origin: RowOrigin,
    /// The table for people. `None` if rows are for machines.
    table: Option<ResultTable>,
    headed: bool,
    bar: ProgressBar,
    /// All rows so far.
    rows: Vec<Row>,
    /// The first error of a write.
    written: io::Result<()>,
}

impl<W: Write> Printer<W> {
    fn new(out: W, json: bool) -> Self {
        let style = ProgressStyle::with_template("{msg:<24} {bar:40} {percent:>3} %").expect("a template");
        let bar = ProgressBar::new(1_000).with_style(style);
        let table = (!json).then(ResultTable::new);
        let origin = RowOrigin::of_this_run(underpass_bench::built_version());
        Self { out, origin, table, headed: json, bar, rows: Vec::new(), written: Ok(()) }
    }
}

impl<W: Write> RunObserver for Printer<W> {
    fn row(&mut self, row: &Row) {
        self.rows.push(row.clone());
        let mut text = match &mut self.table {
            Some(table) => table.row(row),
            None => row.json(&self.origin) + "\n",
        };
        if !std::mem::replace(&mut self.headed, true) {
            text = ResultTable::heading(&self.origin) + &text;
        }
        let out = &mut self.out;
        let written = self.bar.suspend(|| out.write_all(text.as_bytes()).and_then(|()| out.flush()));
        self.written = std::mem::replace(&mut self.written, Ok(())).and(written);
    }

    fn note(&mut self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    fn progress(&mut self, what: &str, share: f64) {
        self.bar.set_message(what.to_owned());
        self.bar.set_position((share * 1_000.0) as u64);
    }
}
