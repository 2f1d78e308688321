//! `underpass top`: what each process does at this moment.

use super::ls::calls_between;
use super::methods::{self, MethodRow};
use super::table::TextTable;
use super::{ask, json_line, names, parse_time, rate, short};
use crate::node::{DomainStatus, status_if_any};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use underpass::inspect::{BindingView, DomainView, Inspect, InspectClient};
use underpass::metrics::InterfaceMetrics;

/// What `underpass top` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct TopOptions {
    /// How long events are counted for each picture
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    interval: Duration,
    /// Print one picture, and end
    #[arg(long)]
    once: bool,
    /// Print one JSON object a process and picture
    #[arg(long)]
    json: bool,
}

/// A process, as one of its names leads to it.
struct Process {
    pid: u32,
    names: Vec<String>,
    /// One client for each name. The first also tells of the process.
    clients: Vec<InspectClient>,
}

/// What a process told at one moment.
struct Sample {
    at: Instant,
    domain: DomainView,
    names: Vec<String>,
    /// The bindings of each of these names.
    bindings: Vec<Vec<BindingView>>,
    /// What its measured interfaces did. Nothing if it is older than this command.
    metrics: Vec<InterfaceMetrics>,
}

/// Shows the processes until it is interrupted, or once.
///
/// # Errors
/// The directory can't be read, or the standard output can't be written.
pub fn run(options: &TopOptions) -> Result<()> {
    let interval = options.interval.max(Duration::from_millis(10));
    let mut before: BTreeMap<u32, Sample> = BTreeMap::new();
    let (mut processes, mut first) = (processes()?, true);
    loop {
        let samples: BTreeMap<u32, Sample> =
            processes.iter().filter_map(|process| Some((process.pid, process.sample()?))).collect();
        if !first {
            show(options, &processes, &before, &samples)?;
            if options.once {
                return Ok(());
            }
        }
        (before, first) = (samples, false);
        std::thread::sleep(interval);
        // New names are asked once; those that are known keep their bindings.
        processes = renew(processes)?;
    }
}

/// The processes behind all names that tell.
fn processes() -> Result<Vec<Process>> {
    renew(Vec::new())
}

/// `known`, without names that are gone, and with those that have come.
fn renew(known: Vec<Process>) -> Result<Vec<Process>> {
    let names = names()?;
    let mut processes: Vec<Process> = Vec::new();
    let mut clients: BTreeMap<String, (u32, InspectClient)> = BTreeMap::new();
    for process in known {
        for (name, client) in process.names.into_iter().zip(process.clients) {
            clients.insert(name, (process.pid, client));
        }
    }
    for name in names {
        let kept = clients.remove(&name).filter(|(_, client)| client.export().is_ok());
        let found = kept.or_else(|| {
            let client = ask(&name).ok()?;
            let pid = client.export().ok()?.pid;
            Some((pid, client))
        });
        let Some((pid, client)) = found else { continue };
        match processes.iter_mut().find(|process| process.pid == pid) {
            Some(process) => {
                process.names.push(name);
                process.clients.push(client);
            }
            None => processes.push(Process { pid, names: vec![name], clients: vec![client] }),
        }
    }
    Ok(processes)
}

impl Process {
    /// What the process tells now. `None` if it does not tell this user, or has ended.
    fn sample(&self) -> Option<Sample> {
        let bindings = self.clients.iter().map(|client| client.bindings().ok()).collect::<Option<_>>()?;
        let client = self.clients.first()?;
        let (domain, metrics) = (client.domain().ok()?, client.metrics().unwrap_or_default());
        Some(Sample { at: Instant::now(), domain, names: self.names.clone(), bindings, metrics })
    }
}

/// What a process did between two samples, for each second.
struct Activity<'a> {
    time: Duration,
    /// What the methods of its measured interfaces did in that time.
    methods: Vec<MethodRow<'a>>,
    calls: f64,
    served: f64,
    kernel_entries: f64,
    sleeps: f64,
    donations_given: f64,
    donations_taken: f64,
    /// Processors in use.
    processors: f64,
    /// Calls over each name's connections.
    by_name: Vec<f64>,
}

impl<'a> Activity<'a> {
    fn between(before: &Sample, after: &'a Sample) -> Self {
        let time = after.at.duration_since(before.at);
        let of = |read: fn(&DomainView) -> u64| {
            rate(read(&after.domain).saturating_sub(read(&before.domain)), time)
        };
        let names = before.bindings.iter().zip(&after.bindings);
        Self {
            time,
            methods: methods::between(&before.metrics, &after.metrics),
            calls: of(|domain| domain.calls),
            served: of(|domain| domain.served),
            kernel_entries: of(|domain| domain.kernel_entries),
            sleeps: of(|domain| domain.sleeps),
            donations_given: of(|domain| domain.donations_given),
            donations_taken: of(|domain| domain.donations_taken),
            processors: of(|domain| domain.processor_time) / 1e9,
            by_name: names.map(|(before, after)| rate(calls_between(before, after), time)).collect(),
        }
    }
}

fn show(
    options: &TopOptions,
    processes: &[Process],
    before: &BTreeMap<u32, Sample>,
    now: &BTreeMap<u32, Sample>,
) -> Result<()> {
    let node = status_if_any();
    let mut rows: Vec<(&Process, &Sample, Activity<'_>)> = Vec::new();
    for process in processes {
        if let (Some(before), Some(now)) = (before.get(&process.pid), now.get(&process.pid))
            && before.names == now.names
        {
            rows.push((process, now, Activity::between(before, now)));
        }
    }
    rows.sort_by(|(_, _, one), (_, _, other)| other.processors.total_cmp(&one.processors));
    let of_node = |pid: u32| node.iter().flatten().find(|domain| domain.pid == pid);
    let mut out = anstream::stdout().lock();
    if options.json {
        for (process, sample, activity) in &rows {
            writeln!(out, "{}", json_line(&as_json(process, sample, activity, of_node(process.pid))))?;
        }
        return Ok(out.flush()?);
    }
    let terminal = if options.once { None } else { PictureTerminal::of_output() };
    let room = terminal.as_ref().map_or(usize::MAX, |terminal| terminal.columns);
    let mut picture = Vec::new();
    let hidden = processes.len() - rows.len();
    as_table(&rows, node.is_some(), of_node).write_within(&mut picture, room)?;
    let methods = rows
        .iter()
        .flat_map(|(process, _, activity)| activity.methods.iter().map(|method| (process.pid, method)));
    let is_called = |activity: &Activity<'_>| activity.methods.iter().any(|row| row.method.calls() > 0);
    if let Some((_, _, activity)) = rows.iter().find(|(_, _, activity)| is_called(activity)) {
        writeln!(picture)?;
        methods::as_table(methods, activity.time).write_within(&mut picture, room)?;
    }
    if hidden > 0 {
        writeln!(picture, "{hidden} processes do not tell this user, or have just come")?;
    }
    let picture = String::from_utf8(picture).context("the picture is no text")?;
    match terminal {
        Some(terminal) => terminal.show(&mut out, &picture)?,
        None => write!(out, "{picture}")?,
    }
    Ok(out.flush()?)
}

/// The terminal on which pictures follow each other.
struct PictureTerminal {
    rows: usize,
    columns: usize,
}

impl PictureTerminal {
    /// The standard output, if that is a terminal. One that does not tell its size has room for
    /// everything.
    fn of_output() -> Option<Self> {
        let size = || console::Term::stdout().size_checked();
        std::io::stdout().is_terminal().then(|| match size() {
            Some((rows, columns)) => Self { rows: rows.into(), columns: columns.into() },
            None => Self { rows: usize::MAX, columns: usize::MAX },
        })
    }

    /// Shows the picture in the place of the one before. The lines for which there is no room are
    /// counted in the last line.
    fn show(&self, out: &mut impl Write, picture: &str) -> std::io::Result<()> {
        // To the upper left corner, and everything below it away.
        write!(out, "\x1b[H\x1b[J")?;
        // The cursor stands in the line below the last one.
        let (lines, room) = (picture.lines().count(), self.rows.saturating_sub(1));
        if lines <= room {
            return write!(out, "{picture}");
        }
        let shown = room.saturating_sub(1);
        picture.lines().take(shown).try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out, "… lines left out: {}", lines - shown)
    }
}

fn as_table<'a>(
    rows: &[(&Process, &Sample, Activity<'_>)],
    with_node: bool,
    of_node: impl Fn(u32) -> Option<&'a DomainStatus>,
) -> TextTable {
    let mut heads = vec![
        ">pid",
        ">calls/s",
        ">served/s",
        ">kernel/s",
        ">sleeps/s",
        ">given/s",
        ">taken/s",
        ">CPU %",
        ">MiB",
        ">threads",
    ];
    if with_node {
        heads.extend([">owned", ">lent", ">wanted", ">running", ">parked", ">delay us"]);
    }
    heads.push("names");
    let mut table = TextTable::new(&heads);
    for (process, sample, activity) in rows {
        let mut row = vec![
            process.pid.to_string(),
            short(activity.calls),
            short(activity.served),
            short(activity.kernel_entries),
            short(activity.sleeps),
            short(activity.donations_given),
            short(activity.donations_taken),
            format!("{:.0}", 100.0 * activity.processors),
            short(sample.domain.memory as f64 / f64::from(1 << 20)),
            sample.domain.kernel_threads.to_string(),
        ];
        if with_node {
            row.extend(match of_node(process.pid) {
                Some(domain) => [
                    u64::from(domain.processors),
                    u64::from(domain.temporary),
                    domain.wanted,
                    domain.running,
                    domain.parked,
                    domain.queueing_delay_us,
                ]
                .map(|number| number.to_string()),
                None => ["-"; 6].map(str::to_owned),
            });
        }
        row.push(process.names.join(" "));
        table.row(row);
    }
    table
}

fn as_json(
    process: &Process,
    sample: &Sample,
    activity: &Activity<'_>,
    node: Option<&DomainStatus>,
) -> Value {
    let names = process.names.iter().zip(&activity.by_name).zip(&sample.bindings).map(|((name, calls), bindings)| {
        json!({ "name": name, "calls_a_second": calls, "bindings": bindings.len() })
    });
    json!({
        "pid": process.pid,
        "names": names.collect::<Vec<_>>(),
        "methods": activity.methods.iter().map(methods::as_json).collect::<Vec<_>>(),
        "calls_a_second": activity.calls,
        "served_a_second": activity.served,
        "kernel_entries_a_second": activity.kernel_entries,
        "sleeps_a_second": activity.sleeps,
        "donations_given_a_second": activity.donations_given,
        "donations_taken_a_second": activity.donations_taken,
        "processors": activity.processors,
        "memory": sample.domain.memory,
        "kernel_threads": sample.domain.kernel_threads,
        "active_bindings": sample.domain.active_bindings,
        "totals": {
            "calls": sample.domain.calls,
            "served": sample.domain.served,
            "wakeups_sent": sample.domain.wakeups_sent,
            "wakeups_avoided": sample.domain.wakeups_avoided,
            "spins_paid": sample.domain.spins_paid,
            "spins_in_vain": sample.domain.spins_in_vain,
            "donations_returned": sample.domain.donations_returned,
            "bytes_out": sample.domain.bytes_out,
            "bytes_in": sample.domain.bytes_in,
        },
        "node": node.map(|domain| json!({
            "owned": domain.processors,
            "lent": domain.temporary,
            "wanted": domain.wanted,
            "running": domain.running,
            "parked": domain.parked,
            "queueing_delay_us": domain.queueing_delay_us,
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_fits_the_terminal() {
        let shown = |rows: usize, picture: &str| {
            let mut out = Vec::new();
            PictureTerminal { rows, columns: 80 }.show(&mut out, picture).unwrap();
            String::from_utf8(out).unwrap().strip_prefix("\x1b[H\x1b[J").unwrap().to_owned()
        };
        assert_eq!(shown(4, "a\nb\nc\n"), "a\nb\nc\n");
        assert_eq!(shown(4, "a\nb\nc\nd\n"), "a\nb\n… lines left out: 2\n");
        assert_eq!(shown(0, "a\n"), "… lines left out: 1\n");
    }

    #[test]
    fn an_activity_is_counted_for_each_second() {
        let at = Instant::now();
        let sample = |after: u64| Sample {
            at: at + Duration::from_secs(2 * after),
            domain: DomainView {
                served: 100 + 50 * after,
                processor_time: 1_000_000_000 * after,
                ..DomainView::default()
            },
            names: Vec::new(),
            bindings: Vec::new(),
            metrics: Vec::new(),
        };
        let (before, after) = (sample(0), sample(1));
        let activity = Activity::between(&before, &after);
        assert!((activity.served - 25.0).abs() < 1e-6, "{}", activity.served);
        assert!((activity.processors - 0.5).abs() < 1e-6, "{}", activity.processors);
        assert!(activity.calls.abs() < 1e-6);
    }
}
