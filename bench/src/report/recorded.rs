//! Rows that were printed as JSON, read again.

use crate::{BenchError, Figures, Machine, Row, RowOrigin, SourceVersion};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A line as [`Row::json`] writes it.
#[derive(Deserialize)]
struct RecordedLine {
    bench: String,
    case: String,
    pinning: String,
    skipped: Option<String>,
    date: Option<String>,
    #[serde(flatten)]
    version: SourceVersion,
    #[serde(flatten)]
    machine: Machine,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Row {
    /// The row of one line of `underpass-bench NAME --json`, and where it comes from. Figures that
    /// only the JSON shows are among the others then. A row that was printed before rows had a
    /// commit and a date is of unknown ones.
    ///
    /// # Errors
    /// The line is not one of these: print it anew with `underpass-bench NAME --json`.
    pub fn from_json(line: &str) -> Result<(Self, RowOrigin), BenchError> {
        let RecordedLine { bench, case, pinning, skipped, date, version, machine, rest } =
            serde_json::from_str(line)?;
        let result = match skipped {
            Some(why) => Err(why),
            None => Ok(figures(rest).map_err(|missing| format!("{bench} {case} has no `{missing}`"))?),
        };
        Ok((Self { bench, case, pinning, result }, RowOrigin { version, date, machine }))
    }
}

/// The figures among `rest`, or the name of one that is missing.
fn figures(mut rest: Map<String, Value>) -> Result<Figures, &'static str> {
    let mut take = |name| rest.remove(name).ok_or(name);
    // What is no number was none when it was written: JSON has no such numbers.
    let number = |value: Value| value.as_f64().unwrap_or(f64::NAN);
    let count = |value: Value| value.as_u64().unwrap_or(0) as usize;
    Ok(Figures {
        ns: take("ns").map(number)?,
        min_ns: take("min_ns").map(number)?,
        max_ns: take("max_ns").map(number)?,
        p99_ns: take("p99_ns").map(number)?,
        limit: take("limit")?.as_str().unwrap_or_default().to_owned(),
        limit_ns: take("limit_ns").map(number)?,
        ratio: take("ratio").map(number)?,
        ratio_p10: take("ratio_p10").map(number)?,
        ratio_p90: take("ratio_p90").map(number)?,
        rounds: take("rounds").map(count)?,
        samples: take("samples").map(count)?,
        more: rest,
        detail: Map::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::row::tests::{origin, row};

    #[test]
    fn a_printed_row_is_read_again() {
        let (read, from) = Row::from_json(&row("pinned").json(&origin())).unwrap();
        let mut expected = row("pinned");
        let figures = expected.result.as_mut().unwrap();
        figures.more.append(&mut figures.detail);
        assert_eq!((read, from), (expected, origin()));
    }

    #[test]
    fn an_older_row_is_of_an_unknown_commit() {
        let mut line: Value = serde_json::from_str(&row("pinned").json(&origin())).unwrap();
        for name in ["commit", "tree", "date"] {
            line.as_object_mut().unwrap().remove(name).unwrap();
        }
        let (_, from) = Row::from_json(&line.to_string()).unwrap();
        let expected = RowOrigin { version: SourceVersion::default(), date: None, ..origin() };
        assert_eq!(from, expected);
    }

    #[test]
    fn a_skipped_row_is_read_again_and_other_lines_are_refused() {
        let skipped = Row { result: Err("needs two CPUs".into()), ..row("pinned") };
        assert_eq!(Row::from_json(&skipped.json(&origin())).unwrap().0, skipped);
        let told = row("pinned").json(&origin()).replace("\"ratio_p90\"", "\"other\"");
        let error = Row::from_json(&told).unwrap_err().to_string();
        assert!(error.contains("ratio_p90"), "{error}");
        assert!(Row::from_json("{}").is_err());
    }
}
