//! The drawings of the report: bars, and curves where the points lie on an axis.

use super::experiment::PaperExperiment;
use super::points::PaperPoint;
use std::fmt::Write;
use underpass_figures::escaped;

/// Readable on white and on black.
const COLOURS: [&str; 6] = ["#2f74c0", "#c4561f", "#2d8a4e", "#9a5fc0", "#b0892d", "#c23b6b"];

/// Draws `points` as curves if they lie on an axis of threads or processors, else as bars.
pub(super) fn plot(page: &mut String, experiment: &PaperExperiment, points: &[PaperPoint]) {
    match curves(points) {
        curves if curves.iter().any(|curve| curve.ours.len() > 2) => lines(page, experiment, &curves),
        _ => bars(page, experiment, points),
    }
}

/// Three significant digits.
pub(super) fn number(x: f64) -> String {
    match x.abs() {
        a if a < 0.001 => format!("{x:.1e}"),
        a if a < 0.095 => format!("{x:.4}"),
        a if a < 10.0 => format!("{x:.2}"),
        a if a < 100.0 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}

/// A line of a figure, ours and the paper's points.
#[derive(Debug, Default, PartialEq)]
struct Curve {
    name: String,
    ours: Vec<(f64, f64)>,
    paper: Vec<(f64, f64)>,
}

/// The points by the curves that they belong to, in the order of their first points.
fn curves(points: &[PaperPoint]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for point in points {
        let Some(x) = point.x.filter(|x| *x > 0.0) else { continue };
        // `figures/C1S1, T = 4` is a point of `C1S1`, and `20` is one of its line.
        let name = match point.at.split_once(", T = ").or_else(|| point.at.split_once(", lines = ")) {
            Some((case, _)) => case.rsplit('/').next().unwrap_or(case),
            None => &point.line,
        };
        let at = curves.iter().position(|curve| curve.name == name).unwrap_or_else(|| {
            curves.push(Curve { name: name.to_owned(), ..Curve::default() });
            curves.len() - 1
        });
        let curve = &mut curves[at];
        curve.ours.extend(point.ours.filter(|y| *y > 0.0).map(|y| (x, y)));
        curve.paper.extend(point.paper.filter(|y| *y > 0.0).map(|y| (x, y)));
    }
    curves
}

/// The width of drawings in their own units. A page shows them from three quarters to one and a
/// half times as large, so that their text can be read on a phone.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
/// Around the axes.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const BELOW: f64 = 24.0;

/// The ranges of two logarithmic axes.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    fn around(curves: &[Curve]) -> Self {
        let all = || curves.iter().flat_map(|curve| curve.ours.iter().chain(&curve.paper));
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
        };
        let (low, high) = range(&mut all().map(|(_, y)| *y));
        let x = range(&mut all().map(|(x, _)| *x));
        Self { x: (x.0, x.1.max(x.0 * 2.0)), y: (low.min(1.0) / 1.2, high.max(1.0) * 1.2) }
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let part = |value: f64, (low, high): (f64, f64)| (value / low).ln() / (high / low).ln();
        let across = LEFT + (WIDTH - LEFT - RIGHT) * part(x, self.x);
        (across, 8.0 + (HEIGHT - BELOW - 8.0) * (1.0 - part(y, self.y)))
    }

    /// Draws lines at 1, 2 and 5 times the powers of ten, and writes the numbers beside them.
    fn grid(&self, page: &mut String) {
        let steps = |(low, high): (f64, f64)| {
            let all = (-6..7).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)));
            all.filter(|value| (low..=high).contains(value)).collect::<Vec<_>>()
        };
        for y in steps(self.y) {
            let (right, up) = self.at((self.x.1, y));
            let _ = writeln!(
                page,
                "<line x1=\"{LEFT}\" y1=\"{up:.1}\" x2=\"{right:.1}\" y2=\"{up:.1}\" stroke=\"var(--grid)\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{y}</text>",
                LEFT - 6.0,
                up + 4.0
            );
        }
        for x in steps(self.x) {
            let (across, _) = self.at((x, 1.0));
            let bottom = HEIGHT - BELOW;
            let _ = writeln!(
                page,
                "<line x1=\"{across:.1}\" y1=\"8\" x2=\"{across:.1}\" y2=\"{bottom:.1}\" stroke=\"var(--grid)\"/>\
                 <text x=\"{across:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x}</text>",
                bottom + 16.0
            );
        }
    }
}

/// The dashes of a curve whose colour another one has.
fn dashes(number: usize) -> &'static str {
    if number < COLOURS.len() { "" } else { " stroke-dasharray=\"6 4\"" }
}

/// Draws curves. Squares without a line are the paper's points.
fn lines(page: &mut String, experiment: &PaperExperiment, curves: &[Curve]) {
    let axes = Axes::around(curves);
    let title = escaped(experiment.title);
    let _ = writeln!(
        page,
        "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"curves: {title}\">"
    );
    axes.grid(page);
    for (number, curve) in curves.iter().enumerate() {
        let (colour, dashes) = (COLOURS[number % COLOURS.len()], dashes(number));
        let path: Vec<_> = curve.ours.iter().map(|point| axes.at(*point)).collect();
        let path: Vec<_> = path.into_iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            page,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>",
            path.join(" ")
        );
        for point in &curve.paper {
            let (x, y) = axes.at(*point);
            let (x, y) = (x - 4.0, y - 4.0);
            let _ = writeln!(
                page,
                "<rect class=\"square\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"8\" height=\"8\" stroke=\"{colour}\"/>"
            );
        }
    }
    let squares = match curves.iter().all(|curve| curve.paper.is_empty()) {
        true => "The paper's figures are not known point by point.",
        false => "Squares are the paper's figures.",
    };
    let to = escaped(experiment.to);
    let _ = writeln!(
        page,
        "</svg>\n<figcaption>Up: the ratio to {to}. Across: threads, processors or cache lines. Both axes are logarithmic. \
         Lines are today's figures. {squares}<br>"
    );
    for (number, curve) in curves.iter().enumerate() {
        let (colour, dashes, name) = (COLOURS[number % COLOURS.len()], dashes(number), escaped(&curve.name));
        let _ = writeln!(
            page,
            "<span class=\"key\"><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><line x1=\"0\" y1=\"5\" x2=\"26\" \
             y2=\"5\" stroke=\"{colour}\" stroke-width=\"3\"{dashes}/></svg>{name}</span>"
        );
    }
    page.push_str("</figcaption></figure>\n");
}

/// A bar's height, the height of the name above it, and the gap below.
const BAR: f64 = 12.0;
const NAME: f64 = 17.0;
const GAP: f64 = 8.0;

/// Draws each point as a bar, and the paper's below it, on a logarithmic scale. Their name is above
/// them: beside them it would have no room on a phone.
fn bars(page: &mut String, experiment: &PaperExperiment, points: &[PaperPoint]) {
    let of = |point: &PaperPoint| {
        let both = [("ours", point.ours), ("paper", point.paper)];
        both.into_iter().filter_map(|(class, x)| Some((class, x.filter(|x| *x > 0.0)?))).collect::<Vec<_>>()
    };
    let all = || points.iter().flat_map(of).map(|(_, x)| x);
    let (low, high) = all().fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
    if high <= 0.0 {
        return;
    }
    let (low, high) = (low.min(1.0) * 0.8, high.max(1.0) * 1.25);
    let at = |x: f64| (WIDTH - 60.0) * (x / low).ln() / (high / low).ln();
    let height: f64 = points.iter().map(|point| NAME + BAR * of(point).len() as f64 + GAP).sum();
    let title = escaped(experiment.title);
    let _ = writeln!(
        page,
        "<figure><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"ratios: {title}\">"
    );
    let (one, mut y) = (at(1.0), 0.0);
    let _ = writeln!(
        page,
        "<line x1=\"{one:.1}\" y1=\"0\" x2=\"{one:.1}\" y2=\"{height}\" stroke=\"var(--grid)\"/>"
    );
    for point in points {
        let name = escaped(&format!("{}: {}", point.at, point.line));
        let _ = writeln!(page, "<text x=\"0\" y=\"{:.1}\">{name}</text>", y + NAME - 4.0);
        y += NAME;
        for (class, x) in of(point) {
            let (left, right) = (at(x).min(one), at(x).max(one));
            let (width, height) = ((right - left).max(1.5), BAR - 1.0);
            let _ = writeln!(
                page,
                "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                right + 4.0,
                y + BAR - 2.0,
                number(x)
            );
            y += BAR;
        }
        y += GAP;
    }
    let to = escaped(experiment.to);
    let _ = writeln!(
        page,
        "</svg>\n<figcaption>Ratios to {to}, on a logarithmic scale. The thin line is 1.</figcaption></figure>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::papers::points::tests::experiment;

    fn point(at: &str, line: &str, x: f64, ours: f64, paper: Option<f64>) -> PaperPoint {
        let (at, line) = (at.into(), line.into());
        PaperPoint { at, line, x: Some(x), ours: Some(ours), paper, spread: None, rounds: 1 }
    }

    #[test]
    fn points_are_of_the_curve_of_their_processors_or_their_line() {
        let points = [
            point("figures/C1S1, T = 1", "latency", 1.0, 1.0, Some(1.0)),
            point("figures/C1S1, T = 2", "latency", 2.0, 1.3, Some(1.2)),
            point("figures/C1S0, T = 1", "latency", 1.0, 9.0, None),
        ];
        let found = curves(&points);
        assert_eq!(found.iter().map(|curve| curve.name.as_str()).collect::<Vec<_>>(), ["C1S1", "C1S0"]);
        assert_eq!((found[0].ours.len(), found[0].paper.len()), (2, 2));
        let found = curves(&[point("20", "kernel threads", 20.0, 3.0, None)]);
        assert_eq!((found[0].name.as_str(), &found[0].ours[..]), ("kernel threads", &[(20.0, 3.0)][..]));
    }

    #[test]
    fn few_points_are_bars_and_many_a_curve() {
        let drawn = |count: u32| {
            let mut page = String::new();
            let points: Vec<_> =
                (1..=count).map(|x| point("n", "user", f64::from(x), 1.0, Some(2.0))).collect();
            plot(&mut page, experiment("urpc.table1"), &points);
            (page.matches("<polyline").count(), page.matches("class=\"ours\"").count())
        };
        assert_eq!((drawn(2), drawn(5)), ((0, 2), (1, 0)));
    }
}
