//! Prints the timeline as text: three columns, time going down, as in Figure 1.

use super::event::DemoDomain;
use super::numbers::time;
use super::timeline::{Timeline, TimelineCall};

/// The positions of the columns.
const EDITOR: usize = 11;
const WINDOWS: usize = 36;
const FILES: usize = 58;
const NOTES: usize = 80;

/// One line of the chart before it is drawn.
enum Step<'a> {
    Calls(&'a TimelineCall),
    Begins(&'a TimelineCall),
    Replies(&'a TimelineCall),
    GoesOn(&'a TimelineCall),
}

/// Draws at most `lines` lines of the timeline.
pub fn draw(timeline: &Timeline, lines: usize) -> Vec<String> {
    let mut steps: Vec<(u64, usize, Step<'_>)> = Vec::new();
    for call in &timeline.calls {
        steps.push((call.from, call.cpu_from, Step::Calls(call)));
        if let Some(handler) = &call.handler {
            steps.push((handler.from, handler.cpu, Step::Begins(call)));
            steps.push((handler.to, handler.cpu, Step::Replies(call)));
        }
        steps.push((call.to, call.cpu_to, Step::GoesOn(call)));
    }
    steps.sort_by_key(|step| step.0);
    steps.truncate(lines);
    let mut out = vec![header()];
    let mut moves = timeline.moves.iter().peekable();
    for (at, cpu, step) in &steps {
        let mut row = Row::at(*at);
        match step {
            Step::Calls(call) => row.calls(call),
            Step::Begins(call) => row.begins(call),
            Step::Replies(call) => row.replies(call),
            Step::GoesOn(call) => row.goes_on(call),
        }
        let mut note = format!("cpu {cpu}");
        while let Some(moved) = moves.next_if(|moved| moved.at <= *at) {
            if moved.cpu == *cpu {
                note = format!("cpu {cpu}, from the {}", moved.from);
            }
        }
        row.put(NOTES, &note);
        out.push(row.finish());
    }
    out
}

fn header() -> String {
    let mut row = Row(Vec::new());
    row.put(7, "µs");
    row.put(EDITOR, "EDITOR");
    row.put(WINDOWS, "WINDOW MANAGER");
    row.put(FILES, "FILE CACHE MANAGER");
    row.put(NOTES, "PROCESSOR");
    row.finish()
}

/// A line of cells.
struct Row(Vec<char>);

impl Row {
    fn at(ns: u64) -> Self {
        let mut row = Self(Vec::new());
        row.put(0, &format!("{:>9.1}", ns as f64 / 1e3));
        for column in [EDITOR, WINDOWS, FILES] {
            row.put(column, "·");
        }
        row
    }

    fn put(&mut self, column: usize, text: &str) {
        for (at, glyph) in text.chars().enumerate() {
            if self.0.len() <= column + at {
                self.0.resize(column + at + 1, ' ');
            }
            self.0[column + at] = glyph;
        }
    }

    fn line(&mut self, from: usize, to: usize) {
        self.put(from, &"─".repeat(to.saturating_sub(from)));
    }

    fn calls(&mut self, call: &TimelineCall) {
        let label = format!("{} {} ", call.thread, call.procedure);
        let to = column(call.server);
        self.put(EDITOR, &label);
        self.line(EDITOR + label.chars().count(), to - 2);
        self.put(to - 2, "▶");
        if call.wakeups > 0 {
            self.put(to, "wakes");
        }
    }

    fn begins(&mut self, call: &TimelineCall) {
        self.put(column(call.server), &format!("┌ {} for {}", call.procedure, call.thread));
    }

    fn replies(&mut self, call: &TimelineCall) {
        let at = column(call.server);
        let took = call.handler.as_ref().map_or(0, |handler| handler.to - handler.from);
        self.put(at, &format!("└ {}", time(took)));
        self.put(EDITOR + 4, "◀");
        self.line(EDITOR + 5, at - 1);
    }

    fn goes_on(&mut self, call: &TimelineCall) {
        self.put(EDITOR, &format!("{} goes on: {}", call.thread, time(call.to - call.from)));
    }

    fn finish(self) -> String {
        self.0.into_iter().collect::<String>().trim_end().to_owned()
    }
}

fn column(domain: DemoDomain) -> usize {
    match domain {
        DemoDomain::Editor => EDITOR,
        DemoDomain::Windows => WINDOWS,
        DemoDomain::Files => FILES,
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{DemoProcedure, EditorThread};
    use super::super::timeline::{Handled, Move};
    use super::*;

    #[test]
    fn a_call_is_four_lines() {
        let call = TimelineCall {
            thread: EditorThread::T2,
            server: DemoDomain::Files,
            procedure: DemoProcedure::Read,
            from: 0,
            to: 9_000,
            cpu_from: 0,
            cpu_to: 0,
            wakeups: 1,
            handler: Some(Handled { from: 4_000, to: 6_500, cpu: 0 }),
        };
        let moves = vec![
            Move { at: 4_000, cpu: 0, from: DemoDomain::Editor, to: DemoDomain::Files },
            Move { at: 9_000, cpu: 0, from: DemoDomain::Files, to: DemoDomain::Editor },
        ];
        let lines = draw(&Timeline { calls: vec![call], moves }, 99);
        assert_eq!(lines.len(), 5);
        assert!(lines[1].contains("T2 read ─") && lines[1].contains("─▶ wakes"), "{}", lines[1]);
        assert!(lines[2].ends_with("cpu 0, from the editor"), "{}", lines[2]);
        assert!(lines[3].contains("◀─") && lines[3].contains("└ 2.50 µs"), "{}", lines[3]);
        assert!(lines[4].contains("T2 goes on: 9.00 µs"), "{}", lines[4]);
        assert_eq!(draw(&Timeline::default(), 9).len(), 1);
    }
}
