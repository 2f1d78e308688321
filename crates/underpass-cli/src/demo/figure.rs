//! The timeline as a drawing, after Figure 1: time goes down, a column for each thread and each server.

use super::event::{Domain, Thread};
use super::numbers::{bytes, grouped, three, time};
use super::outcome::Outcome;
use super::svg::{Anchor, Sheet, tick};
use super::timeline::{Call, Timeline};

const WIDTH: f64 = 1_120.0;
const AXIS: f64 = 96.0;
const T1: f64 = 180.0;
const T2: f64 = 290.0;
const WINDOWS: f64 = 520.0;
const FILES: f64 = 740.0;
const PROCESSORS: f64 = 920.0;
/// Calls in each of the two parts, at most.
const CALLS: usize = 14;
/// Pixels of a part's time axis.
const HEIGHT: f64 = 620.0;

const EDITOR_COLOUR: &str = "#3b6fd4";
const WINDOWS_COLOUR: &str = "#e09b2d";
const FILES_COLOUR: &str = "#2f9e6e";
const T1_COLOUR: &str = "#1f4fae";
const T2_COLOUR: &str = "#8b3fb0";
const FAINT: &str = "#e7e9ee";
const QUIET: &str = "#6b7280";
const INK: &str = "#1c2430";

/// Draws the outcome's timeline, the beginning and the middle, and its figures.
pub fn draw(outcome: &Outcome) -> String {
    let mut sheet = Sheet::new(WIDTH);
    let title = "Figure 1 of URPC, replayed on real work by three processes";
    sheet.text((40.0, 46.0), Anchor::Start, &style(22, INK, "font-weight=\"600\""), title);
    let text = &outcome.text;
    let job = format!(
        "\u{201c}{}\u{201d} becomes \u{201c}{}\u{201d} in {} places of {}; {}, {} processors",
        text.change.find,
        text.change.replace,
        grouped(text.places),
        bytes(text.bytes),
        outcome.machine.cpu,
        outcome.machine.processors
    );
    sheet.text((40.0, 70.0), Anchor::Start, &style(13, QUIET, ""), &job);
    let mut y = 116.0;
    for (title, timeline) in [("The beginning", &outcome.beginning), ("In the middle", &outcome.middle)] {
        let part = timeline.excerpt(0, CALLS);
        if !part.calls.is_empty() {
            y = Part::new(&part, y).draw(&mut sheet, title);
        }
    }
    let height = figures(&mut sheet, outcome, y + 10.0);
    sheet.finish(height, &[T1_COLOUR, T2_COLOUR])
}

/// One part of the timeline: its calls and its scale.
struct Part<'a> {
    timeline: &'a Timeline,
    top: f64,
    span: f64,
}

impl<'a> Part<'a> {
    fn new(timeline: &'a Timeline, top: f64) -> Self {
        let span = timeline.calls.iter().map(|call| call.to).max().unwrap_or(1).max(1);
        Self { timeline, top: top + 74.0, span: span as f64 }
    }

    fn y(&self, ns: u64) -> f64 {
        self.top + ns as f64 / self.span * HEIGHT
    }

    /// Draws the part and says where the next one may begin.
    fn draw(&self, sheet: &mut Sheet, title: &str) -> f64 {
        sheet.text((40.0, self.top - 66.0), Anchor::Start, &style(15, INK, "font-weight=\"600\""), title);
        self.axis(sheet);
        self.heads(sheet);
        self.processors(sheet);
        for thread in [Thread::T1, Thread::T2] {
            self.thread(sheet, thread);
        }
        let mut labelled = [f64::MIN; 2];
        for call in &self.timeline.calls {
            self.call(sheet, call, &mut labelled);
        }
        self.top + HEIGHT + 60.0
    }

    fn axis(&self, sheet: &mut Sheet) {
        let step = tick(self.span, 12.0);
        let mut at = 0.0;
        while at <= self.span {
            let y = self.top + at / self.span * HEIGHT;
            sheet.line((AXIS, y), (WIDTH - 40.0, y), FAINT, "stroke-width=\"1\"");
            let label = format!("{} µs", (at / 10.0).round() / 100.0);
            sheet.text((AXIS - 8.0, y + 4.0), Anchor::End, &style(11, QUIET, ""), &label);
            at += step;
        }
    }

    fn heads(&self, sheet: &mut Sheet) {
        let y = self.top - 34.0;
        let lanes = [
            ((T1 + T2) / 2.0, "Editor", EDITOR_COLOUR),
            (WINDOWS, "Window manager", WINDOWS_COLOUR),
            (FILES, "File cache manager", FILES_COLOUR),
        ];
        for (x, name, colour) in lanes {
            sheet.text((x, y), Anchor::Middle, &style(13, colour, "font-weight=\"600\""), name);
        }
        for (x, name) in [(T1, "T1"), (T2, "T2")] {
            sheet.text((x, y + 18.0), Anchor::Middle, &style(12, INK, ""), name);
        }
        for x in [T1, T2, WINDOWS, FILES] {
            sheet.line((x, self.top - 8.0), (x, self.top + HEIGHT + 8.0), "#cfd4dc", "stroke-width=\"1\"");
        }
    }

    /// A strip for each processor, in the colour of the domain that it was last seen with.
    fn processors(&self, sheet: &mut Sheet) {
        let sightings = self.timeline.sightings();
        let mut cpus: Vec<usize> = sightings.iter().map(|seen| seen.1).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let y = self.top - 34.0;
        sheet.text(
            (PROCESSORS - 12.0, y),
            Anchor::Start,
            &style(13, INK, "font-weight=\"600\""),
            "Processors",
        );
        for (lane, cpu) in cpus.into_iter().take(5).enumerate() {
            let x = PROCESSORS + 34.0 * lane as f64;
            sheet.text((x, y + 18.0), Anchor::Middle, &style(12, INK, ""), &cpu.to_string());
            let seen: Vec<_> = sightings.iter().filter(|seen| seen.1 == cpu).collect();
            for (at, &&(from, _, domain)) in seen.iter().enumerate() {
                let to = seen.get(at + 1).map_or(from, |next| next.0);
                let size = (16.0, (self.y(to) - self.y(from)).max(1.0));
                sheet.rectangle((x - 8.0, self.y(from)), size, colour(domain), "");
            }
        }
    }

    /// A thread's own time: from the end of each of its calls to the beginning of the next.
    fn thread(&self, sheet: &mut Sheet, thread: Thread) {
        let mut last = None;
        for call in self.timeline.calls.iter().filter(|call| call.thread == thread) {
            let (x, from) = (lane(thread), last.unwrap_or(call.from));
            let size = (12.0, (self.y(call.from) - self.y(from)).max(2.0));
            let tip = format!("{thread} runs for {}", time(call.from.saturating_sub(from)));
            sheet.rectangle((x - 6.0, self.y(from)), size, thread_colour(thread), &tip);
            last = Some(call.to);
        }
    }

    fn call(&self, sheet: &mut Sheet, call: &Call, labelled: &mut [f64; 2]) {
        let (from, colour_of) = (lane(call.thread), thread_colour(call.thread));
        let (server, below) = match call.server {
            Domain::Files => (FILES, 1),
            _ => (WINDOWS, 0),
        };
        let Some(handler) = &call.handler else { return };
        let (y, end) = (self.y(handler.from), self.y(handler.to));
        let took = format!("{} for {}: {}", call.procedure, call.thread, time(handler.to - handler.from));
        let arrow = "stroke-width=\"1.3\" stroke-opacity=\"0.75\"";
        sheet.arrow((from + 7.0, self.y(call.from)), (server - 9.0, y), colour_of, arrow);
        let back = "stroke-width=\"1.3\" stroke-opacity=\"0.75\" stroke-dasharray=\"4 3\"";
        sheet.arrow((server - 9.0, end), (from + 7.0, self.y(call.to)), colour_of, back);
        sheet.rectangle((server - 8.0, y), (16.0, (end - y).max(2.5)), colour(call.server), &took);
        if y - labelled[below] >= 12.0 {
            labelled[below] = y;
            let label = format!("{} ({})", call.procedure, call.thread);
            sheet.text((server + 14.0, y + 5.0), Anchor::Start, &style(11, INK, ""), &label);
        }
        if call.wakeups > 0 {
            let label = "wakes";
            sheet.text(
                (from + 9.0, self.y(call.from) - 3.0),
                Anchor::Start,
                &style(10, colour_of, ""),
                label,
            );
        }
    }
}

/// What was measured, below the timeline; says how high the drawing is.
fn figures(sheet: &mut Sheet, outcome: &Outcome, top: f64) -> f64 {
    let mut y = top;
    let legend = [
        (EDITOR_COLOUR, "editor"),
        (WINDOWS_COLOUR, "window manager"),
        (FILES_COLOUR, "file cache manager"),
        (T1_COLOUR, "thread T1, its calls and (dashed) replies"),
        (T2_COLOUR, "thread T2"),
    ];
    let mut x = 40.0;
    for (colour, name) in legend {
        sheet.rectangle((x, y - 9.0), (12.0, 12.0), colour, "");
        sheet.text((x + 18.0, y + 1.0), Anchor::Start, &style(12, INK, ""), name);
        x += 46.0 + 6.6 * name.chars().count() as f64;
    }
    y += 36.0;
    for line in &outcome.interfaces {
        let words = format!(
            "{} over {}: {} calls, p50 {}, p99 {}, p99.9 {}, {:.4} kernel entries a call",
            line.server,
            line.transport,
            grouped(line.calls),
            time(line.p50_ns),
            time(line.p99_ns),
            time(line.p999_ns),
            line.kernel_entries_per_call
        );
        sheet.text((40.0, y), Anchor::Start, &style(12, INK, ""), &words);
        y += 20.0;
    }
    let jobs: Vec<String> =
        outcome.jobs.iter().map(|job| format!("{} {}", job.transport, time(job.ns))).collect();
    let words = format!(
        "the whole job: {}; sockets take {} times as long",
        jobs.join(", "),
        three(outcome.ratios.job)
    );
    sheet.text((40.0, y), Anchor::Start, &style(12, INK, "font-weight=\"600\""), &words);
    y + 40.0
}

fn style(size: u32, fill: &str, more: &str) -> String {
    format!("font-size=\"{size}\" fill=\"{fill}\" {more}")
}

fn lane(thread: Thread) -> f64 {
    match thread {
        Thread::T1 => T1,
        Thread::T2 => T2,
    }
}

fn thread_colour(thread: Thread) -> &'static str {
    match thread {
        Thread::T1 => T1_COLOUR,
        Thread::T2 => T2_COLOUR,
    }
}

fn colour(domain: Domain) -> &'static str {
    match domain {
        Domain::Editor => EDITOR_COLOUR,
        Domain::Windows => WINDOWS_COLOUR,
        Domain::Files => FILES_COLOUR,
    }
}
