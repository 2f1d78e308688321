//! `underpass-bench compare`: prints how the results of two builds differ.

use std::fs;
use std::io::Write;
use std::path::Path;
use underpass_bench::{BenchError, CaseChange, Comparison, compare};

/// Compares two files of results, and prints a line for each case.
///
/// # Errors
/// If a file cannot be read or has no results, or if the lines cannot be written.
pub fn print(out: &mut impl Write, first: &Path, second: &Path, json: bool) -> Result<(), BenchError> {
    let compared = compare(&read(first)?, &read(second)?)?;
    for note in &compared.notes {
        eprintln!("note: {note}");
    }
    if json {
        for case in &compared.cases {
            writeln!(out, "{}", serde_json::to_string(case)?)?;
        }
        return Ok(());
    }
    writeln!(out, "{:<40}{:>6}{:>9}{:>18}{:>9}", "case", "pairs", "B to A", "95 % interval", "p")?;
    for case in &compared.cases {
        writeln!(out, "{}", line(case))?;
    }
    Ok(())
}

fn read(file: &Path) -> Result<String, BenchError> {
    fs::read_to_string(file).map_err(|e| format!("{} can't be read: {e}", file.display()).into())
}

fn line(case: &Comparison) -> String {
    let interval = match case.low.is_finite() {
        true => format!("{:.3} to {:.3}", case.low, case.high),
        false => "none".into(),
    };
    let change = match case.change {
        CaseChange::Faster => "B is faster",
        CaseChange::Slower => "B is slower",
        CaseChange::NotShown => "no difference shown",
        CaseChange::TooFewRuns => "too few runs to show any",
    };
    format!("{:<40}{:>6}{:>9.3}{interval:>18}{:>9.4}   {change}", case.case, case.pairs, case.ratio, case.p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_changed() {
        let case = Comparison {
            case: "urpc null/pinned".into(),
            pairs: 8,
            ratio: 1.1,
            low: 1.05,
            high: 1.152,
            p: 0.0078,
            change: CaseChange::Slower,
        };
        let text = line(&case);
        assert!(text.contains("1.050 to 1.152") && text.ends_with("B is slower"), "{text}");
        let few = Comparison { low: 0.0, high: f64::INFINITY, change: CaseChange::TooFewRuns, ..case };
        assert!(line(&few).contains("too few"), "{}", line(&few));
    }
}
