//! The caption of the drawn timeline: the colours and the measurements.

use super::figure::{EDITOR_COLOUR, FILES_COLOUR, INK, T1_COLOUR, T2_COLOUR, WINDOWS_COLOUR, style};
use super::numbers::{grouped, three, time};
use super::outcome::DemoOutcome;
use underpass_figures::{Anchor, Sheet};

/// The columns of the figures: their position, and the alignment of their cells.
const COLUMNS: [(f64, Anchor); 7] = [
    (40.0, Anchor::Start),
    (200.0, Anchor::Start),
    (400.0, Anchor::End),
    (500.0, Anchor::End),
    (600.0, Anchor::End),
    (700.0, Anchor::End),
    (880.0, Anchor::End),
];

/// Draws the legend and the figures from `top` on. Returns the height of the drawing.
pub fn draw(sheet: &mut Sheet, outcome: &DemoOutcome, top: f64) -> f64 {
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
    y += 40.0;
    let row = |sheet: &mut Sheet, y: f64, more: &str, cells: [String; 7]| {
        for (cell, (x, anchor)) in cells.iter().zip(COLUMNS) {
            sheet.text((x, y), anchor, &style(12, INK, more), cell);
        }
    };
    let head = ["interface", "over", "calls", "p50", "p99", "p99.9", "kernel entries a call"];
    row(sheet, y, "font-weight=\"600\"", head.map(str::to_owned));
    for line in &outcome.interfaces {
        y += 20.0;
        let entries = format!("{:.4}", line.kernel_entries_per_call);
        let [p50, p99, p999] = [line.p50_ns, line.p99_ns, line.p999_ns].map(time);
        let (server, over) = (line.server.to_string(), line.transport.to_string());
        row(sheet, y, "", [server, over, grouped(line.calls), p50, p99, p999, entries]);
    }
    y += 32.0;
    let jobs: Vec<String> =
        outcome.jobs.iter().map(|job| format!("{} over {}", time(job.ns), job.transport)).collect();
    let ratio = three(outcome.ratios.job);
    let words =
        format!("The whole job: {}. Sockets take {ratio} times as long as Underpass.", jobs.join(", "));
    let words = words.replace("over one process", "in one process");
    sheet.text((40.0, y), Anchor::Start, &style(12, INK, "font-weight=\"600\""), &words);
    y + 40.0
}
