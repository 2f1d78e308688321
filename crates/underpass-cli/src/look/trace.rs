//! `underpass trace`: the calls of exports that let themselves be traced, as they end.

use super::terminal_text::printable_name;
use super::{ask, json_line, names, parse_time};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use underpass::CallError;
use underpass::inspect::{Inspect, InspectClient, InspectError, InterfaceView, TracedCall};
use underpass_figures::{Anchor, Sheet, tick};

/// What `underpass trace` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct TraceOptions {
    /// A name, or the process whose names are traced
    #[arg(value_name = "NAME|PID")]
    of: String,
    /// How long to trace; without it, until Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
    /// End after so many calls
    #[arg(long, value_name = "N")]
    calls: Option<usize>,
    /// Print one JSON object a call
    #[arg(long)]
    json: bool,
    /// Draw the calls into this file, one line for each client
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the calls into this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
}

/// How often the servers are asked. They keep some thousand calls in between.
const EACH: Duration = Duration::from_millis(100);

/// The most calls that are kept for a drawing.
const MOST: usize = 100_000;

/// The most characters that names and methods are filled up to.
const WIDEST: usize = 48;

/// An export that is traced.
struct Traced {
    name: String,
    client: InspectClient,
    interfaces: Vec<InterfaceView>,
    /// The process that serves it.
    pid: u32,
    next: u64,
}

/// A call, and where it was served.
struct Seen {
    name: String,
    method: String,
    server: u32,
    call: TracedCall,
}

/// Shows calls until the time is over, there are enough, or the process is interrupted.
///
/// # Errors
/// Nothing there lets itself be traced, or a file can't be written.
pub fn run(options: &TraceOptions) -> Result<()> {
    let mut traced = find(&options.of)?;
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).context("Ctrl-C can't be handled")?;
    // As wide as the widest method, so that the columns of later calls stand below these.
    let width = traced.iter().map(Traced::width).max().unwrap_or(0);
    let (begun, mut kept, mut shown) = (Instant::now(), Vec::new(), 0);
    let most = options.calls.unwrap_or(usize::MAX);
    while shown < most {
        // This is looked at before the last request, so that no call is lost that came before.
        let is_over = options.time.is_some_and(|time| begun.elapsed() >= time);
        let last = is_over || INTERRUPTED.load(Ordering::Relaxed);
        let mut seen = Vec::new();
        for of in &mut traced {
            seen.append(&mut of.next()?);
        }
        seen.sort_by_key(|seen| seen.call.began);
        seen.truncate(most - shown);
        shown += seen.len();
        show(options, &seen, width)?;
        if options.svg.is_some() || options.perfetto.is_some() {
            seen.truncate(MOST - kept.len());
            kept.append(&mut seen);
        }
        if last {
            break;
        }
        std::thread::sleep(EACH);
    }
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).with_context(|| format!("{} can't be written", path.display()))
    };
    if let Some(path) = &options.svg {
        write(path, drawing(&kept))?;
    }
    if let Some(path) = &options.perfetto {
        write(path, perfetto(&kept).to_string())?;
    }
    Ok(())
}

/// The exports of a name, or of a process, that let themselves be traced.
fn find(of: &str) -> Result<Vec<Traced>> {
    let known = names()?;
    let pid: Option<u32> = of.parse().ok().filter(|_| !known.iter().any(|name| name == of));
    let mut traced = Vec::new();
    for name in if pid.is_some() { known } else { vec![of.to_owned()] } {
        let client = match ask(&name) {
            Ok(client) => client,
            Err(_) if pid.is_some() => continue,
            Err(why) => bail!("{name} can't be asked: {why}"),
        };
        let export = client.export().with_context(|| format!("{name} does not say who serves it"))?;
        if pid.is_some_and(|pid| pid != export.pid) {
            continue;
        }
        // The first request begins the recording, and what was recorded for others is left to them.
        let next = match client.trace(u64::MAX) {
            Err(InspectError::NotTraceable) if pid.is_some() => continue,
            told => told.with_context(|| format!("{name} can't be traced"))?.next,
        };
        let interfaces = client.interfaces().with_context(|| format!("{name} does not say what it is"))?;
        traced.push(Traced { name, client, interfaces, pid: export.pid, next });
    }
    if traced.is_empty() {
        bail!("no export of process {of} lets itself be traced; its server has to say `Service::traceable`");
    }
    Ok(traced)
}

impl Traced {
    /// The calls since the last request.
    fn next(&mut self) -> Result<Vec<Seen>> {
        let name = &self.name;
        let told = match self.client.trace(self.next) {
            // A binding lasts no longer than the name's clients may have one, so ask for another.
            Err(InspectError::Call(CallError::Revoked(_))) => {
                self.client = ask(name).map_err(|why| anyhow!("{name} can't be asked any more: {why}"))?;
                self.client.trace(self.next)
            }
            told => told,
        };
        let told = told.with_context(|| format!("{name} tells no more"))?;
        if told.missed > 0 {
            eprintln!("underpass: {} calls of {name} came too fast to be shown", told.missed);
        }
        self.next = told.next;
        Ok(told.calls.into_iter().map(|call| self.seen(call)).collect())
    }

    /// How many characters the longest of its methods takes.
    fn width(&self) -> usize {
        let methods = self.interfaces.iter().flat_map(|of| &of.methods);
        let longest = methods.map(|of| of.name.chars().count()).max().unwrap_or(0);
        // What a server says of itself can be anything.
        (self.name.chars().count() + 1 + longest).min(WIDEST)
    }

    fn seen(&self, call: TracedCall) -> Seen {
        let interface = self.interfaces.iter().find(|of| of.name == call.interface);
        let method = interface.and_then(|of| of.methods.get(usize::from(call.method)));
        let method = method.map_or_else(|| format!("method {}", call.method), |of| of.name.clone());
        Seen { name: self.name.clone(), method, server: self.pid, call }
    }
}

fn show(options: &TraceOptions, seen: &[Seen], width: usize) -> Result<()> {
    let mut out = anstream::stdout().lock();
    for Seen { name, method, server, call } in seen {
        if options.json {
            writeln!(out, "{}", json_line(&as_json(name, method, *server, call)))?;
            continue;
        }
        let failed = if call.fine { "" } else { "  failed" };
        let what = printable_name(&format!("{name}.{method}"));
        writeln!(
            out,
            "{:>15.6}  {what:width$}  {:>9.1} us  from {:<7}  on CPU {:<3}  {:>7} bytes{failed}",
            call.began as f64 / 1e9,
            call.took as f64 / 1e3,
            call.pid,
            call.cpu,
            call.bytes,
        )?;
    }
    Ok(out.flush()?)
}

fn as_json(name: &str, method: &str, server: u32, call: &TracedCall) -> Value {
    json!({
        "name": name,
        "interface": call.interface,
        "method": method,
        "server": server,
        "client": call.pid,
        "binding": call.binding,
        "began_ns": call.began,
        "took_ns": call.took,
        "cpu": call.cpu,
        "bytes": call.bytes,
        "fine": call.fine,
    })
}

/// The calls in the format of Chrome's trace viewer, which Perfetto reads: a process for each
/// server, and in it a line for each binding.
fn perfetto(calls: &[Seen]) -> Value {
    let mut events: Vec<Value> = Vec::new();
    let mut known = BTreeMap::new();
    for Seen { name, server, call, .. } in calls {
        known.entry((*server, call.binding)).or_insert((name, call.pid));
    }
    for ((server, binding), (name, client)) in known {
        events.push(json!({
            "ph": "M", "name": "thread_name", "pid": server, "tid": binding,
            "args": { "name": format!("{name} for process {client}") },
        }));
    }
    for Seen { name, method, server, call } in calls {
        events.push(json!({
            "ph": "X", "name": method, "cat": name, "pid": server, "tid": call.binding,
            "ts": call.began as f64 / 1e3, "dur": call.took as f64 / 1e3,
            "args": { "client": call.pid, "cpu": call.cpu, "bytes": call.bytes, "fine": call.fine },
        }));
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ns" })
}

/// Colours of methods.
const COLOURS: [&str; 6] = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"];
/// The left edge of the calls, the right one, and the height of a client's line.
const LEFT: f64 = 190.0;
/// See `LEFT`.
const RIGHT: f64 = 1090.0;
/// See `LEFT`.
const LINE: f64 = 26.0;

/// When the call ended. A server may say any times.
fn ended(call: &TracedCall) -> u64 {
    call.began.saturating_add(call.took)
}

/// The calls as a drawing: a line for each client, a colour for each method.
fn drawing(calls: &[Seen]) -> String {
    let mut sheet = Sheet::new(RIGHT + 10.0);
    let start = calls.iter().map(|seen| seen.call.began).min().unwrap_or(0);
    let end = calls.iter().map(|seen| ended(&seen.call)).max().unwrap_or(1);
    let span = end.saturating_sub(start).max(1) as f64;
    let x = |at: u64| LEFT + (RIGHT - LEFT) * at.saturating_sub(start) as f64 / span;
    let mut lines: BTreeMap<(&str, u32), usize> = BTreeMap::new();
    let mut methods: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for seen in calls {
        let next = lines.len();
        lines.entry((&seen.name, seen.call.pid)).or_insert(next);
        let next = methods.len();
        methods.entry((&seen.name, &seen.method)).or_insert(next);
    }
    let y = |line: usize| 40.0 + LINE * line as f64;
    for ((name, client), line) in &lines {
        let text = format!("{name} from {client}");
        sheet.text((LEFT - 8.0, y(*line) + 13.0), Anchor::End, r#"font-size="11""#, &text);
    }
    for Seen { name, method, call, .. } in calls {
        let line = lines[&(name.as_str(), call.pid)];
        let colour = COLOURS[methods[&(name.as_str(), method.as_str())] % COLOURS.len()];
        let width = (x(ended(call)) - x(call.began)).max(0.5);
        let tip = format!("{method}: {:.1} us on CPU {}", call.took as f64 / 1e3, call.cpu);
        sheet.rectangle((x(call.began), y(line)), (width, LINE - 8.0), colour, &tip);
    }
    let bottom = y(lines.len()) + 8.0;
    let step = tick(span, 8.0);
    for number in 0..=(span / step) as u32 {
        let at = f64::from(number) * step;
        let place = LEFT + (RIGHT - LEFT) * at / span;
        sheet.line((place, 34.0), (place, bottom), "#dddddd", "");
        let text = format!("{:.1} us", at / 1e3);
        sheet.text((place, bottom + 14.0), Anchor::Middle, r#"font-size="10""#, &text);
    }
    for ((_, method), number) in &methods {
        let place = LEFT + 130.0 * (*number % 7) as f64;
        sheet.rectangle((place, 12.0), (10.0, 10.0), COLOURS[number % COLOURS.len()], "");
        sheet.text((place + 14.0, 21.0), Anchor::Start, r#"font-size="11""#, method);
    }
    sheet.finish(bottom + 24.0, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(method: &str, pid: u32, began: u64) -> Seen {
        let call = TracedCall {
            interface: "Cache".to_owned(),
            method: 0,
            binding: u64::from(pid),
            pid,
            began,
            took: 500,
            cpu: 1,
            bytes: 8,
            fine: true,
        };
        Seen { name: "cache<1>".to_owned(), method: method.to_owned(), server: 9, call }
    }

    #[test]
    fn a_drawing_has_each_call() {
        let calls = [seen("read", 1, 1_000), seen("write", 2, 1_200), seen("read", 1, 5_000)];
        let drawn = drawing(&calls);
        let document = roxmltree::Document::parse(&drawn).unwrap();
        let tips = document.descendants().filter(|node| node.has_tag_name("title"));
        assert_eq!(tips.count(), 3);
        let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
        assert!(texts.contains(&"cache<1> from 2"), "{texts:?}");
        assert!(roxmltree::Document::parse(&drawing(&[])).is_ok(), "also without calls");
    }

    #[test]
    fn times_that_no_server_has_are_drawn_nevertheless() {
        let mut call = seen("read", 1, u64::MAX - 1);
        call.call.took = u64::MAX;
        let drawn = drawing(&[call, seen("read", 1, 0)]);
        assert!(roxmltree::Document::parse(&drawn).is_ok(), "{drawn}");
    }

    #[test]
    fn perfetto_gets_a_line_for_each_binding() {
        let told = perfetto(&[seen("read", 1, 1_000), seen("read", 1, 3_000), seen("read", 2, 2_000)]);
        let events = told["traceEvents"].as_array().unwrap();
        let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
        assert_eq!((of("M"), of("X")), (2, 3));
        assert_eq!(events[2]["ts"], 1.0);
        assert_eq!(events[2]["dur"], 0.5);
    }
}
