//! `underpass-bench peers`: the same calls over Underpass and over other packages.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use underpass_bench::{
    BenchError, PeersOptions, PeersPace, PeersReport, PeersScope, ResultTable, Row, RunObserver, peers,
};

/// What `underpass-bench peers` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct PeersArguments {
    /// Only these beside ours, by name: `kernel` is `kernel-stream` and all that begin so
    #[arg(long, value_name = "PEER,…", value_delimiter = ',')]
    only: Vec<String>,
    /// A look, within two minutes [default: half an hour]
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// For figures that are to be quoted: as long as it takes, some hours
    #[arg(long)]
    full: bool,
    /// Print one JSON object a line, the method first
    #[arg(long)]
    json: bool,
    /// Where the peers are [default: $UNDERPASS_PEERS, else peers/target/release]
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
}

/// Measures the peers, and prints the results.
///
/// # Errors
/// If the peers were not built, if none is called as asked for, or if nothing can be written.
pub fn run(arguments: &PeersArguments, out: &mut impl Write) -> Result<(), BenchError> {
    let pace = match (arguments.quick, arguments.full) {
        (true, _) => PeersPace::Quick,
        (_, true) => PeersPace::Full,
        _ => PeersPace::Usual,
    };
    let options = PeersOptions {
        only: arguments.only.clone(),
        pace,
        scope: PeersScope::Whole,
        peers: arguments.peers.clone(),
    };
    let mut bar = TimedBar::new();
    let report = peers(&options, &mut bar);
    bar.bar.finish_and_clear();
    let report = report?;
    if arguments.json { print_lines(out, &report) } else { print_tables(out, &report) }
}

fn print_lines(out: &mut impl Write, report: &PeersReport) -> Result<(), BenchError> {
    writeln!(out, "{}", report.method)?;
    for row in &report.rows {
        writeln!(out, "{}", row.json(&report.origin))?;
    }
    Ok(())
}

fn print_tables(out: &mut impl Write, report: &PeersReport) -> Result<(), BenchError> {
    write!(out, "{}", ResultTable::heading(&report.origin))?;
    let mut table = ResultTable::new();
    for row in &report.rows {
        write!(out, "{}", table.row(row))?;
    }
    Ok(write!(out, "{}", report.side_by_side)?)
}

/// Shows how far the run is, and how much longer it takes. It does so on standard error, if that is
/// a terminal.
struct TimedBar {
    bar: ProgressBar,
    begun: Instant,
}

impl TimedBar {
    fn new() -> Self {
        let style = ProgressStyle::with_template("{msg:<56} {bar:30} {percent:>3} %").expect("a template");
        Self { bar: ProgressBar::new(1_000).with_style(style), begun: Instant::now() }
    }
}

impl RunObserver for TimedBar {
    fn row(&mut self, _: &Row) {}

    fn note(&mut self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    fn progress(&mut self, what: &str, share: f64) {
        self.bar.set_message(match left(self.begun.elapsed(), share) {
            Some(left) => format!("{what}, {left} left"),
            None => what.to_owned(),
        });
        self.bar.set_position((share * 1_000.0) as u64);
    }
}

/// How much longer it takes, once that can be told.
fn left(passed: Duration, share: f64) -> Option<String> {
    let seconds = (share > 0.02).then(|| passed.as_secs_f64() * (1.0 - share) / share)?;
    Some(if seconds < 90.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_told_as_soon_as_something_is_done() {
        let after = |seconds, share| left(Duration::from_secs(seconds), share);
        assert_eq!(after(1, 0.0), None);
        assert_eq!(after(20, 0.25).as_deref(), Some("60 s"));
        assert_eq!(after(600, 0.5).as_deref(), Some("10 min"));
    }
}
