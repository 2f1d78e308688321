//! Prints the outcome as text.

use super::chart;
use super::event::DemoDomain;
use super::messages::Transport;
use super::numbers::{bytes, grouped, three, time};
use super::outcome::{DemoOutcome, Disaster, InterfaceResult};
use super::plan::EditorProgress;
use super::round::Happened;
use std::fmt::{self, Display, Formatter};

/// The lines of the timeline that are printed for the beginning and for the middle.
const CHART: (usize, usize) = (28, 14);

impl Display for DemoOutcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        writeln!(f, "\nThe beginning, as in Figure 1, as measured\n")?;
        chart::draw(&self.beginning, CHART.0).iter().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "\nIn the middle of the job\n")?;
        chart::draw(&self.middle, CHART.1).iter().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "\nThe screen that the window manager composed\n")?;
        self.screen.iter().try_for_each(|row| writeln!(f, "  {row}"))?;
        writeln!(f)?;
        self.interfaces(f)?;
        writeln!(f)?;
        self.jobs(f)?;
        writeln!(f)?;
        self.disaster.fmt(f)
    }
}

impl DemoOutcome {
    fn head(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        writeln!(f, "Figure 1 of \"User-Level Interprocess Communication\" (1991), replayed on real work\n")?;
        let file = text.file.as_deref().unwrap_or("made for this run");
        let blocks = text.bytes.div_ceil(u64::from(text.block));
        let (size, block) = (bytes(text.bytes), text.block);
        writeln!(f, "  text       {file}: {size} in {} blocks of {block} B", grouped(blocks))?;
        let (find, replace) = (&text.change.find, &text.change.replace);
        writeln!(f, "  job        \"{find}\" becomes \"{replace}\" in {} places", grouped(text.places))?;
        let pids: Vec<String> =
            self.pids.iter().map(|(domain, pid)| format!("{domain} (pid {pid})")).collect();
        writeln!(f, "  processes  {}", pids.join(", "))?;
        let machine = &self.machine;
        let (cpu, processors) = (&machine.cpu, machine.processors);
        writeln!(f, "  machine    {cpu}, {processors} processors, {}", machine.kernel)
    }

    fn interfaces(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let head = ["calls", "p50", "p99", "p99.9", "kernel entries", "wake-ups", "bytes"];
        write!(f, "{:<20}{:<13}", "INTERFACE", "OVER")?;
        writeln!(
            f,
            "{:>9}{:>11}{:>11}{:>11}{:>16}{:>10}{:>11}",
            head[0], head[1], head[2], head[3], head[4], head[5], head[6]
        )?;
        for server in DemoDomain::SERVERS {
            for line in self.interfaces.iter().filter(|line| line.server == server) {
                self.line(f, line)?;
            }
            let ratio = self.ratios.interfaces.get(&server).copied().unwrap_or(0.0);
            writeln!(f, "{:<20}{:<13}{:>9}{:>9} x", "", "ratio", "", three(ratio))?;
        }
        writeln!(f, "{:<33}kernel entries and wake-ups: for a call, both sides together", "")
    }

    fn line(&self, f: &mut Formatter<'_>, line: &InterfaceResult) -> fmt::Result {
        write!(f, "{:<20}{:<13}{:>9}", line.server, line.transport, grouped(line.calls))?;
        write!(f, "{:>11}{:>11}{:>11}", time(line.p50_ns), time(line.p99_ns), time(line.p999_ns))?;
        let wakeups = line.wakeups_per_call.map_or("kernel's".to_owned(), few);
        writeln!(f, "{:>16}{:>10}{:>11}", few(line.kernel_entries_per_call), wakeups, bytes(line.bytes))
    }

    fn jobs(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:<20}{:<13}", "THE WHOLE JOB", "OVER")?;
        writeln!(
            f,
            "{:>9}{:>11}{:>22}{:>16}{:>21}",
            "rounds", "median", "times Underpass", "sleeps a call", "processor moves"
        )?;
        let underpass =
            self.jobs.iter().find(|job| job.transport == Transport::Underpass).map_or(0, |job| job.ns);
        for job in &self.jobs {
            write!(f, "{:<20}{:<13}{:>9}{:>11}", "", job.transport, job.rounds_ns.len(), time(job.ns))?;
            let times = if underpass == 0 { 0.0 } else { job.ns as f64 / underpass as f64 };
            writeln!(f, "{:>20} x{:>16}{:>21}", three(times), few(job.sleeps_per_call), grouped(job.moves))?;
        }
        writeln!(f, "{:<33}one process: the same code with all three in the editor, nothing kept apart", "")
    }
}

/// Formats small numbers with enough digits.
fn few(value: f64) -> String {
    if value > 0.0 && value < 0.01 { format!("{value:.4}") } else { format!("{value:.2}") }
}

impl Display for Disaster {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "The second round: kill -9 of the file cache manager in the middle\n")?;
        self.line(f, self.from, "the editor begins")?;
        let mut killed = 0;
        for step in &self.steps {
            match step {
                Happened::Killed { pid, at } => {
                    killed = *at;
                    self.line(f, *at, &format!("kill -9 {pid}, the file cache manager"))?;
                }
                Happened::Started { pid, at } => {
                    let said = format!("the demo has started the file cache manager again, pid {pid}");
                    self.line(f, *at, &said)?;
                }
                Happened::Editor(EditorProgress::Lost { thread, error, at }) => {
                    let after = time(at.saturating_sub(killed));
                    self.line(f, *at, &format!("{thread} gets an error, {after} after the kill"))?;
                    let (doing, why) = error.split_once(": ").unwrap_or((error, ""));
                    writeln!(f, "{:<16}{doing}:\n{:<16}{why}", "", "")?;
                }
                Happened::Editor(EditorProgress::Again { thread, repeats, at }) => {
                    self.line(f, *at, &format!("{thread} has imported it again and {}", again(*repeats)))?;
                }
                Happened::Editor(EditorProgress::Blocks(_) | EditorProgress::Middle) => {}
            }
        }
        self.line(f, self.to, "the editor is done; the edited text is right, byte for byte")
    }
}

impl Disaster {
    fn line(&self, f: &mut Formatter<'_>, at: u64, said: &str) -> fmt::Result {
        writeln!(f, "  {:>9.2} ms  {said}", at.saturating_sub(self.from) as f64 / 1e6)
    }
}

fn again(repeats: u64) -> String {
    match repeats {
        0 => "goes on".to_owned(),
        _ => format!("goes on from its last flush: {} a second time", bytes(repeats)),
    }
}
