//! Draws the timeline, after Figure 1: time goes down, with a column for each thread and each
//! server.

use super::caption;
use super::event::{DemoDomain, EditorThread};
use super::numbers::{bytes, grouped, time};
use super::outcome::DemoOutcome;
use super::timeline::{Timeline, TimelineCall};
use underpass_figures::{Anchor, Sheet, tick};

const WIDTH: f64 = 1_120.0;
const AXIS: f64 = 96.0;
const T1: f64 = 180.0;
const T2: f64 = 290.0;
const WINDOWS: f64 = 520.0;
const FILES: f64 = 740.0;
const PROCESSORS: f64 = 920.0;
/// The most calls in each of the two parts.
const CALLS: usize = 14;
/// The length of a part's time axis in pixels.
const HEIGHT: f64 = 620.0;

/// The colour of the editor. The other domains follow.
pub const EDITOR_COLOUR: &str = "#3b6fd4";
pub const WINDOWS_COLOUR: &str = "#e09b2d";
pub const FILES_COLOUR: &str = "#2f9e6e";
pub const T1_COLOUR: &str = "#1f4fae";
pub const T2_COLOUR: &str = "#8b3fb0";
const FAINT: &str = "#e7e9ee";
const QUIET: &str = "#6b7280";
/// The colour of text.
pub const INK: &str = "#1c2430";
/// The style that keeps a text legible on top of lines.
const HALO: &str = "stroke=\"#ffffff\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"";
/// Draws the outcome's timeline, the beginning and the middle, and its figures.
pub fn draw(outcome: &DemoOutcome) -> String {
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
    let height = caption::draw(&mut sheet, outcome, y + 10.0);
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

    /// Draws the part, and returns where the next one may begin.
    fn draw(&self, sheet: &mut Sheet, title: &str) -> f64 {
        sheet.text((40.0, self.top - 66.0), Anchor::Start, &style(15, INK, "font-weight=\"600\""), title);
        self.axis(sheet);
        self.heads(sheet);
        self.processors(sheet);
        for thread in [EditorThread::T1, EditorThread::T2] {
            self.thread(sheet, thread);
        }
        self.timeline.calls.iter().for_each(|call| self.call(sheet, call));
        let mut labelled = [f64::MIN; 2];
        self.timeline.calls.iter().for_each(|call| self.label(sheet, call, &mut labelled));
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

    /// A strip for each processor, in the colour of the domain that last ran on it.
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

    /// The time that a thread spends outside its calls: from the end of each call to the beginning
    /// of the next.
    fn thread(&self, sheet: &mut Sheet, thread: EditorThread) {
        let mut last = None;
        for call in self.timeline.calls.iter().filter(|call| call.thread == thread) {
            let (x, from) = (lane(thread), last.unwrap_or(call.from));
            let size = (12.0, (self.y(call.from) - self.y(from)).max(2.0));
            let tip = format!("{thread} runs for {}", time(call.from.saturating_sub(from)));
            sheet.rectangle((x - 6.0, self.y(from)), size, thread_colour(thread), &tip);
            last = Some(call.to);
        }
    }

    fn call(&self, sheet: &mut Sheet, call: &TimelineCall) {
        let Some(handler) = &call.handler else { return };
        let (from, server) = (lane(call.thread), server_lane(call.server));
        let (y, end, ink) = (self.y(handler.from), self.y(handler.to), thread_colour(call.thread));
        let arrow = "stroke-width=\"1.3\" stroke-opacity=\"0.75\"";
        sheet.arrow((from + 7.0, self.y(call.from)), (server - 9.0, y), ink, arrow);
        let dashed = format!("{arrow} stroke-dasharray=\"4 3\"");
        sheet.arrow((server - 9.0, end), (from + 7.0, self.y(call.to)), ink, &dashed);
        let took = format!("{} for {}: {}", call.procedure, call.thread, time(handler.to - handler.from));
        sheet.rectangle((server - 8.0, y), (16.0, (end - y).max(2.5)), colour(call.server), &took);
    }

    /// Writes the name of the call beside its handler, unless another name is there already.
    fn label(&self, sheet: &mut Sheet, call: &TimelineCall, labelled: &mut [f64; 2]) {
        let ink = thread_colour(call.thread);
        if call.wakeups > 0 {
            let at = (lane(call.thread) + 9.0, self.y(call.from) - 3.0);
            sheet.text(at, Anchor::Start, &style(10, ink, HALO), "wakes");
        }
        let Some(handler) = &call.handler else { return };
        let (y, last) = (self.y(handler.from), &mut labelled[usize::from(call.server == DemoDomain::Files)]);
        if y - *last >= 12.0 {
            *last = y;
            let at = (server_lane(call.server) + 14.0, y + 5.0);
            sheet.text(
                at,
                Anchor::Start,
                &style(11, INK, HALO),
                &format!("{} ({})", call.procedure, call.thread),
            );
        }
    }
}

/// The attributes of a text.
pub fn style(size: u32, fill: &str, more: &str) -> String {
    format!("font-size=\"{size}\" fill=\"{fill}\" {more}")
}

fn lane(thread: EditorThread) -> f64 {
    match thread {
        EditorThread::T1 => T1,
        EditorThread::T2 => T2,
    }
}

fn server_lane(server: DemoDomain) -> f64 {
    if server == DemoDomain::Files { FILES } else { WINDOWS }
}

fn thread_colour(thread: EditorThread) -> &'static str {
    match thread {
        EditorThread::T1 => T1_COLOUR,
        EditorThread::T2 => T2_COLOUR,
    }
}

fn colour(domain: DemoDomain) -> &'static str {
    match domain {
        DemoDomain::Editor => EDITOR_COLOUR,
        DemoDomain::Windows => WINDOWS_COLOUR,
        DemoDomain::Files => FILES_COLOUR,
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::DemoProcedure;
    use super::super::timeline::{Handled, Move};
    use super::*;

    #[test]
    fn a_part_shows_its_calls_and_processors() {
        let call = |thread, from, handler| TimelineCall {
            thread,
            server: DemoDomain::Files,
            procedure: DemoProcedure::Read,
            from,
            to: from + 9_000,
            cpu_from: 0,
            cpu_to: 1,
            wakeups: 1,
            handler,
        };
        let handled = Some(Handled { from: 4_000, to: 6_500, cpu: 1 });
        let calls = vec![call(EditorThread::T1, 0, handled), call(EditorThread::T2, 500, None)];
        let moves = vec![Move { at: 4_000, cpu: 1, from: DemoDomain::Editor, to: DemoDomain::Files }];
        let mut sheet = Sheet::new(WIDTH);
        let end = Part::new(&Timeline { calls, moves }, 0.0).draw(&mut sheet, "A & B");
        let drawn = sheet.finish(end, &[T1_COLOUR, T2_COLOUR]);
        let document = roxmltree::Document::parse(&drawn).unwrap();
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
        for expected in ["A & B", "read (T1)", "wakes", "0 µs", "9 µs", "File cache manager", "Processors"]
        {
            assert!(texts.contains(&expected), "{expected} is missing in {texts:?}");
        }
    }
}
