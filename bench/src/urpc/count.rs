//! Instructions, counted by callgrind.
//!
//! The benchmark runs itself under `valgrind`. For the components of a call, callgrind writes its
//! counts down at each mark ([`super::passes`]), and begins anew. All else is the difference of two
//! counts, in which the cost of starting cancels out; `tools/instructions` takes it, too.

use super::passes::{Crowd, Interval, Intervals, MARKS, Passes, between, lone_calls};
use crate::measure::contest::Subject;
use crate::measure::in_process;
use crate::processes::pair::SUBCOMMAND;
use crate::{BenchError, operations};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use underpass_os::signal;

/// The passes through all marks. The first ones are not used: they find nothing prepared.
const PASSES: u64 = 9;
const UNUSED: usize = 4;
/// How often a child is counted that callgrind can't follow, and for how long.
const ATTEMPTS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(15);
/// The real-time signal that ends a time slice (`preempt::SIGNAL` of `underpass-processor`).
/// Callgrind can't follow a thread that is switched to from its handler, and so it is blocked.
const SLICE_ENDS: i32 = 7;
/// The rounds of a crowd in the two counts.
const ROUNDS: [u64; 2] = [20, 60];

/// What a counted child repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Repeated {
    /// The components of a call, with marks.
    Components,
    /// Calls of a crowd.
    Crowd,
    /// A call that does nothing, both sides in one process.
    Null,
    /// A procedure call.
    Call,
    /// A switch between two threads.
    Yield,
    /// A mutex that nobody else wants is acquired and released.
    Lock,
    /// A thread is started and joined.
    SpawnJoin,
    /// A message is sent to a port and received, both sides in one process.
    PortSend,
    /// A task signal is sent and handled, both sides in one process.
    Signal,
}

/// The work of a counted child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstructionCount {
    counted: Repeated,
    times: u64,
}

impl InstructionCount {
    /// Does the work.
    pub(crate) fn perform(self) -> Result<(), BenchError> {
        // One activation, as where it is timed. Others would be counted too.
        underpass::processors::set(1);
        let thread = underpass::thread::spawn(move || {
            // This is the kernel thread of the only activation.
            signal::block(signal::realtime(SLICE_ENDS))?;
            self.repeat()
        });
        thread.join().map_err(|_| "the counted thread panicked")?
    }

    fn repeat(self) -> Result<(), BenchError> {
        let times = self.times;
        match self.counted {
            Repeated::Components => {
                let mut passes = Passes::new(callgrind_mark)?;
                return (0..times).try_for_each(|_| passes.pass());
            }
            Repeated::Crowd => {
                let crowd = Crowd::new()?;
                (0..times).for_each(|_| crowd.round());
                return crowd.end();
            }
            Repeated::Null => lone_calls(times)?,
            Repeated::Call => in_process::call().batch(times)?,
            Repeated::Yield => operations::yields(times),
            Repeated::Lock => operations::lock(times),
            Repeated::SpawnJoin => operations::fork_join(times),
            Repeated::PortSend => return operations::port_sends(times),
            Repeated::Signal => return operations::signals(times),
        };
        Ok(())
    }
}

/// The mark up to which callgrind counts.
#[inline(never)]
fn callgrind_mark() {
    black_box(());
}

/// The instructions of a message in each interval. `waits` is called while a child runs.
pub(super) fn instructions(waits: &dyn Fn()) -> Result<Intervals, BenchError> {
    let marks = ["--combine-dumps=yes", "--dump-before=*callgrind_mark*"];
    let counts = counted(Repeated::Components, PASSES, &marks, waits)?;
    let mut all = intervals(&counts)
        .ok_or_else(|| format!("callgrind has written {} counts; is this program stripped?", counts.len()))?;
    let [few, many] = ROUNDS;
    let count =
        |rounds| Ok::<_, BenchError>(counted(Repeated::Crowd, rounds, &[], waits)?.iter().sum::<f64>());
    all.set(Interval::Crowd, (count(many)? - count(few)?) / (many - few) as f64);
    Ok(all)
}

/// The signals of the two counts of [`signal`].
const SIGNALS: [u64; 2] = [2_000, 6_000];

/// The instructions of a task signal and its handler, both sides in one process. `waits` is called
/// while a child runs.
pub(crate) fn signal(waits: &dyn Fn()) -> Result<f64, BenchError> {
    let [few, many] = SIGNALS;
    let count =
        |times| Ok::<_, BenchError>(counted(Repeated::Signal, times, &[], waits)?.iter().sum::<f64>());
    Ok((count(many)? - count(few)?) / (many - few) as f64)
}

/// Runs a child under callgrind, with further options. Returns its counts, in their order.
///
/// Callgrind can't follow a signal that interrupts a thread between two switches. It fails then, or
/// goes on for ever. The end of a time slice is blocked, and for others this tries again.
fn counted(
    counted: Repeated,
    times: u64,
    options: &[&str],
    waits: &dyn Fn(),
) -> Result<Vec<f64>, BenchError> {
    let mut counts = count_once(counted, times, options, waits);
    for _ in 1..ATTEMPTS {
        if counts.is_ok() {
            break;
        }
        counts = count_once(counted, times, options, waits);
    }
    counts
}

fn count_once(
    counted: Repeated,
    times: u64,
    options: &[&str],
    waits: &dyn Fn(),
) -> Result<Vec<f64>, BenchError> {
    let mut out = std::env::temp_dir();
    out.push(format!("underpass-bench-counts-{}", std::process::id()));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .args(options)
        .arg(format!("/proc/{}/exe", std::process::id()))
        .args([SUBCOMMAND, &serde_json::to_string(&InstructionCount { counted, times })?])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let ended = ends_in_time(valgrind, waits);
    let written = std::fs::read_to_string(&out);
    // Nobody else uses this file, and it may not be there.
    let _ = std::fs::remove_file(&out);
    ended?;
    Ok(totals(&written?))
}

/// Runs valgrind. Fails if it does, or if it doesn't end in time.
fn ends_in_time(mut valgrind: Command, waits: &dyn Fn()) -> Result<(), BenchError> {
    let mut child = valgrind.spawn().map_err(|e| format!("valgrind can't be run ({e}); is it installed?"))?;
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("valgrind can't run it: {status}").into()),
            None => {
                waits();
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    child.kill()?;
    child.wait()?;
    Err(format!("valgrind has not ended after {} s", PATIENCE.as_secs()).into())
}

/// All counts of a file that callgrind has written, in their order.
fn totals(written: &str) -> Vec<f64> {
    let totals = written.lines().filter_map(|line| line.strip_prefix("totals:"));
    totals.filter_map(|count| count.split_whitespace().next()?.parse().ok()).collect()
}

/// The intervals, of the counts up to each mark and up to the end. Nothing if some are missing.
fn intervals(counts: &[f64]) -> Option<Intervals> {
    let (_, counts) = counts.split_last()?;
    let (passes, rest) = counts.as_chunks::<MARKS>();
    let used: Vec<_> = passes.iter().skip(UNUSED).map(between).collect();
    (rest.is_empty() && !used.is_empty()).then(|| Intervals::of_marks(&used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_counts_of_a_file_are_read() {
        let written = "part: 1\ndesc: Trigger: --dump-before=m\nsummary: 7\n1 2\ntotals: 7\n\n\
                       part: 2\ntotals: 9\n";
        assert_eq!(totals(written), [7.0, 9.0]);
    }

    #[test]
    fn a_count_that_is_missing_is_noticed() {
        let mut counts = vec![10.0; MARKS * (UNUSED + 2)];
        counts.push(1e6);
        assert!(intervals(&counts).is_some());
        assert!(intervals(&counts[1..]).is_none() && intervals(&[]).is_none());
        assert!(intervals(&counts[..MARKS]).is_none(), "nothing is left of the passes");
    }
}
