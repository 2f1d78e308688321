//! Draws Figures 3 and 4 of the URPC paper from the rows of `underpass-bench urpc`, with the points
//! that the paper's text gives.
//!
//! Both axes are logarithmic. Everything is a ratio to the same system with T = C = S = 1, because
//! the paper's machine and this one are not comparable otherwise.

use underpass_bench::{BenchError, Row};
use underpass_figures::{Anchor, Sheet};

/// A point: T, and the ratio.
type Point = (f64, f64);

/// A line of both figures.
struct Curve {
    name: String,
    donated: bool,
    latency: Vec<Point>,
    throughput: Vec<Point>,
    /// The paper's points.
    paper_latency: Vec<Point>,
    paper_throughput: Vec<Point>,
}

/// The basis of the ratios: ns per call, calls per second.
#[derive(Clone, Copy)]
struct Unit {
    latency: f64,
    throughput: f64,
}

/// The paper's T = C = S = 1.
const PAPER: Unit = Unit { latency: 93e3, throughput: 10_300.0 };

const COLOURS: [&str; 8] =
    ["#1f5fa8", "#c4561f", "#2d8a4e", "#8a4fb0", "#b0892d", "#c23b6b", "#4a9aa8", "#6b6b6b"];

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 56.0;
/// From the left edge of one figure to that of the next.
const PITCH: f64 = WIDTH + 80.0;

/// Draws the figures from those `rows` that belong to them.
///
/// # Errors
/// If the row is missing that all others are compared with.
pub fn draw(rows: &[Row]) -> Result<String, BenchError> {
    let number = |row: &Row, name: &str| row.result.as_ref().ok()?.more.get(name)?.as_f64();
    let points: Vec<_> =
        rows.iter().filter(|row| row.case.starts_with("figures/") && row.result.is_ok()).collect();
    let one = points.iter().find(|row| row.case == "figures/C1S1" && number(row, "T") == Some(1.0));
    let unit = one.and_then(|row| {
        Some(Unit { latency: number(row, "latency_ns")?, throughput: number(row, "calls_per_s")? })
    });
    let unit = unit
        .ok_or("there is nothing to draw without T = C = S = 1; see `underpass-bench urpc --case figures`")?;
    let mut curves: Vec<Curve> = Vec::new();
    for row in points {
        let name = row.case.trim_start_matches("figures/").to_owned();
        if curves.last().is_none_or(|curve| curve.name != name) {
            curves.push(Curve {
                donated: name.ends_with("S0"),
                name,
                latency: Vec::new(),
                throughput: Vec::new(),
                paper_latency: Vec::new(),
                paper_throughput: Vec::new(),
            });
        }
        let (Some(curve), Some(t)) = (curves.last_mut(), number(row, "T")) else { continue };
        let ratio = |name: &str, to: f64| number(row, name).map(|value| (t, value / to));
        curve.latency.extend(ratio("latency_ns", unit.latency));
        curve.throughput.extend(ratio("calls_per_s", unit.throughput));
        curve.paper_latency.extend(ratio("paper_latency_ns", PAPER.latency));
        curve.paper_throughput.extend(ratio("paper_calls_per_s", PAPER.throughput));
    }
    Ok(sheet(&curves))
}

fn sheet(curves: &[Curve]) -> String {
    let mut sheet = Sheet::new(LEFT + 2.0 * PITCH + 40.0);
    for (column, title) in ["Figure 3: latency of a call", "Figure 4: calls a second"].into_iter().enumerate()
    {
        let lines = curves.iter().map(|curve| match column {
            0 => (curve, &curve.latency, &curve.paper_latency),
            _ => (curve, &curve.throughput, &curve.paper_throughput),
        });
        let lines: Vec<_> = lines.collect();
        let all = lines.iter().flat_map(|(_, ours, paper)| ours.iter().chain(paper.iter()));
        let axes = Axes::around(LEFT + column as f64 * PITCH, all);
        sheet.text((axes.left, TOP - 30.0), Anchor::Start, r##"font-size="14" fill="#222222""##, title);
        let note = "against T, as a ratio to T = C = S = 1; squares: the paper";
        sheet.text((axes.left, TOP - 12.0), Anchor::Start, r##"font-size="11" fill="#666666""##, note);
        axes.draw(&mut sheet);
        for (number, (curve, ours, paper)) in lines.into_iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let dashes = if curve.donated {
                r#"stroke-width="1.8" stroke-dasharray="6 4""#
            } else {
                r#"stroke-width="1.8""#
            };
            for pair in ours.windows(2) {
                sheet.line(axes.at(pair[0]), axes.at(pair[1]), colour, dashes);
            }
            for &(t, ratio) in ours {
                let (x, y) = axes.at((t, ratio));
                let tip = format!("{}, T = {t}: {ratio:.2}", curve.name);
                sheet.rectangle((x - 1.5, y - 1.5), (3.0, 3.0), colour, &tip);
            }
            for &(t, ratio) in paper {
                let (x, y) = axes.at((t, ratio));
                let tip = format!("the paper's {}, T = {t}: {ratio:.2}", curve.name);
                sheet.rectangle((x - 5.0, y - 5.0), (10.0, 10.0), colour, &tip);
            }
            if column == 1 {
                let y = TOP + 14.0 * (number as f64 + 0.5);
                let x = axes.left + WIDTH + 8.0;
                sheet.line((x, y - 4.0), (x + 22.0, y - 4.0), colour, dashes);
                sheet.text((x + 28.0, y), Anchor::Start, r##"font-size="11" fill="#222222""##, &curve.name);
            }
        }
    }
    sheet.finish(TOP + HEIGHT + 50.0, &[])
}

/// The position of a figure, and the ranges of its axes.
struct Axes {
    left: f64,
    most_threads: f64,
    low: f64,
    high: f64,
}

impl Axes {
    fn around<'a>(left: f64, points: impl Iterator<Item = &'a Point>) -> Self {
        let start = Self { left, most_threads: 2.0, low: 0.5, high: 2.0 };
        points.fold(start, |axes, &(t, ratio)| Self {
            left,
            most_threads: axes.most_threads.max(t),
            low: axes.low.min(ratio / 1.1),
            high: axes.high.max(ratio * 1.1),
        })
    }

    fn at(&self, (t, ratio): Point) -> (f64, f64) {
        let across = t.ln() / self.most_threads.ln();
        let up = (ratio / self.low).ln() / (self.high / self.low).ln();
        (self.left + WIDTH * across, TOP + HEIGHT * (1.0 - up))
    }

    fn draw(&self, sheet: &mut Sheet) {
        const GRID: &str = "#e2e2e2";
        const SMALL: &str = r##"font-size="11" fill="#666666""##;
        let mut threads = 1.0;
        while threads <= self.most_threads {
            let (x, _) = self.at((threads, self.low));
            sheet.line((x, TOP), (x, TOP + HEIGHT), GRID, "");
            sheet.text((x, TOP + HEIGHT + 16.0), Anchor::Middle, SMALL, &threads.to_string());
            threads *= 2.0;
        }
        for power in -4..5 {
            for step in [1.0, 2.0, 5.0] {
                let ratio = step * 10f64.powi(power);
                if (self.low..=self.high).contains(&ratio) {
                    let (x, y) = self.at((1.0, ratio));
                    sheet.line((x, y), (x + WIDTH, y), GRID, "");
                    sheet.text((x - 6.0, y + 4.0), Anchor::End, SMALL, &ratio.to_string());
                }
            }
        }
        sheet.text(
            (self.left + WIDTH / 2.0, TOP + HEIGHT + 34.0),
            Anchor::Middle,
            SMALL,
            "T: threads that call",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass_bench::Figures;

    fn row(case: &str, t: u64, latency: f64, rate: f64) -> Row {
        let figures = Figures::one(1e9 / rate, "two-line", 100.0).with("T", t);
        let figures = figures.with("latency_ns", latency).with("calls_per_s", rate);
        Row { bench: "urpc".into(), case: case.into(), pinning: String::new(), result: Ok(figures) }
    }

    #[test]
    fn ours_and_the_papers_are_compared_with_the_same_point() {
        let mut donated = row("figures/C1S0", 1, 1_600.0, 0.25e6);
        donated.result = donated.result.map(|figures| figures.with("paper_latency_ns", 375e3));
        let rows = [donated, row("figures/C1S1", 1, 400.0, 2.5e6), row("figures/C1S1", 2, 480.0, 4e6)];
        let drawn = draw(&rows).unwrap();
        let document = roxmltree::Document::parse(&drawn).unwrap();
        let tips: Vec<_> = document.descendants().filter(|node| node.has_tag_name("title")).collect();
        let tips: Vec<_> = tips.iter().filter_map(|tip| tip.text()).collect();
        for tip in
            ["C1S0, T = 1: 4.00", "the paper's C1S0, T = 1: 4.03", "C1S1, T = 2: 1.20", "C1S1, T = 2: 1.60"]
        {
            assert!(tips.contains(&tip), "{tip}: {tips:?}");
        }
        let error = draw(&rows[..1]).unwrap_err().to_string();
        assert!(error.contains("--case figures"), "{error}");
    }
}
