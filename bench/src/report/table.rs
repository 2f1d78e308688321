//! Prints rows for people.

use crate::{Figures, Machine, Row, RowOrigin};
use serde_json::{Map, Value};
use std::fmt::Write;

/// Formats rows as lines of a table, as they come.
#[derive(Debug, Default)]
pub struct ResultTable {
    bench: Option<(String, String)>,
}

impl ResultTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The heading of all tables: the machine, and the commit that was built.
    pub fn heading(origin: &RowOrigin) -> String {
        let Machine { cpu, kernel, processors, clock_ns } = &origin.machine;
        let code = origin.version.words();
        let cpus = if *processors == 1 { "processor" } else { "processors" };
        let clock = time(*clock_ns);
        format!("{cpu} · {kernel} · {processors} {cpus} · a reading of the clock takes {clock} · {code}\n")
    }

    /// The lines of another row. A heading comes first if its benchmark or its placement differs
    /// from the last row's.
    pub fn row(&mut self, row: &Row) -> String {
        let mut text = String::new();
        let bench = (row.bench.clone(), row.pinning.clone());
        let belongs = |(name, pinning): &(String, String)| {
            // A skipped row has no placement.
            *name == row.bench && (*pinning == row.pinning || row.result.is_err())
        };
        if !self.bench.as_ref().is_some_and(belongs) {
            let _ = writeln!(text, "\n{} · {}", row.bench, row.pinning);
            let _ = writeln!(
                text,
                "  {:<27}{:>11}{:>11}{:>11}{:>11}   {:<16}{:>11}{:>9}",
                "case", "median", "min", "p99", "max", "beside", "median", "ratio"
            );
            self.bench = Some(bench);
        }
        let _ = write!(text, "  {:<27}", row.case);
        match &row.result {
            Ok(figures) => figures_line(&mut text, figures),
            Err(reason) => {
                let _ = write!(text, "   skipped: {reason}");
            }
        }
        text.push('\n');
        text
    }
}

fn figures_line(text: &mut String, figures: &Figures) {
    for ns in [figures.ns, figures.min_ns, figures.p99_ns, figures.max_ns] {
        let _ = write!(text, "{:>11}", time(ns));
    }
    let _ =
        write!(text, "   {:<16}{:>11}{:>9}", figures.limit, time(figures.limit_ns), number(figures.ratio));
    text.push_str(&more(&figures.more));
}

fn more(more: &Map<String, Value>) -> String {
    let words = more.iter().map(|(name, value)| match (value, name.strip_suffix("_ns")) {
        (Value::Number(n), Some(name)) => {
            format!("{} {}", name.replace('_', " "), time(n.as_f64().unwrap_or(f64::NAN)))
        }
        (Value::Number(n), None) if n.is_f64() => {
            format!("{} {}", name.replace('_', " "), number(n.as_f64().unwrap_or(f64::NAN)))
        }
        (Value::String(s), _) => format!("{} {s}", name.replace('_', " ")),
        (value, _) => format!("{} {value}", name.replace('_', " ")),
    });
    let words: Vec<_> = words.collect();
    if words.is_empty() { String::new() } else { format!("   {}", words.join(", ")) }
}

/// Nanoseconds with a unit that fits.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns.is_nan() => "-".into(),
        ns if ns < 1e3 => format!("{} ns", number(ns)),
        ns if ns < 1e6 => format!("{} µs", number(ns / 1e3)),
        ns if ns < 1e9 => format!("{} ms", number(ns / 1e6)),
        ns => format!("{} s", number(ns / 1e9)),
    }
}

/// Three significant digits, with an exponent only where it is needed.
fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        a if a < 1e-4 => format!("{x:.1e}"),
        a if a < 0.095 => format!("{x:.4}"),
        a if a < 10.0 => format!("{x:.2}"),
        a if a < 100.0 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::row::tests::{origin, row};

    #[test]
    fn times_have_the_unit_that_fits() {
        let times = [0.9, 84.3, 104.4, 9_500.0, 48_000.0, 1_234_567.0, 2e9].map(time);
        assert_eq!(times, ["0.90 ns", "84.3 ns", "104 ns", "9.50 µs", "48.0 µs", "1.23 ms", "2.00 s"]);
    }

    #[test]
    fn the_columns_stand_below_each_other() {
        let mut table = ResultTable::new();
        let first = table.row(&row("pinned"));
        let second = table.row(&row("one-cpu"));
        let lines: Vec<_> = first.lines().skip(1).chain(second.lines()).collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        let end =
            |line: &str, word: &str| line.chars().count() - line.rsplit(word).next().unwrap().chars().count();
        assert_eq!(end(lines[1], "ratio"), end(lines[2], " 1.10"));
        assert_eq!(end(lines[2], " 1.10"), end(lines[3], " 1.10"));
        assert!(lines[2].ends_with("socket 9.50 µs, speedup 90.9"), "{}", lines[2]);
    }

    #[test]
    fn a_skipped_case_gives_its_reason() {
        let skipped = Row { result: Err("needs two CPUs".into()), ..row("pinned") };
        assert!(ResultTable::new().row(&skipped).contains("skipped: needs two CPUs"));
    }

    #[test]
    fn the_machine_and_the_commit_are_named() {
        let heading = ResultTable::heading(&origin());
        let expected = "Test · Linux 1 · 2 processors · a reading of the clock takes 20.0 ns · of 1a2b3c4d\n";
        assert_eq!(heading, expected);
    }
}
