//! One line of a benchmark's result.

use crate::RowOrigin;
use crate::measure::contest::Contest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The figures of one case, or the reason why it was not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The benchmark.
    pub bench: String,
    /// The case.
    pub case: String,
    /// Where the two sides ran.
    pub pinning: String,
    /// The figures, or the reason why the case was skipped.
    pub result: Result<Figures, String>,
}

/// The figures of a case. Times are nanoseconds per operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The median of the slices.
    pub ns: f64,
    /// The fastest slice.
    pub min_ns: f64,
    /// The slowest slice.
    pub max_ns: f64,
    /// The 99th percentile of operations that were timed one by one, in slices of their own. It
    /// includes one reading of the clock.
    pub p99_ns: f64,
    /// The name of the limit that it is compared with.
    pub limit: String,
    /// The median of the limit.
    pub limit_ns: f64,
    /// The median ratio of each slice to the neighbouring slice of the limit.
    pub ratio: f64,
    /// The 10th percentile of those ratios.
    pub ratio_p10: f64,
    /// Their 90th percentile.
    pub ratio_p90: f64,
    /// Slices of each subject.
    pub rounds: usize,
    /// Operations that were timed one by one.
    pub samples: usize,
    /// Further figures of the case, by name.
    pub more: Map<String, Value>,
    /// Further figures that only the JSON shows.
    pub detail: Map<String, Value>,
}

impl Figures {
    /// The figures of the contest's subject `of`, compared with `limit`.
    ///
    /// # Panics
    /// If the contest has no subject of that number.
    pub fn of(contest: &Contest, of: usize, limit: usize) -> Self {
        let (subject, beside) = (&contest.measured[of], &contest.measured[limit]);
        let slices = subject.slices();
        let ratios = contest.ratios(of, limit);
        let singles = if subject.singles.is_empty() { &slices } else { &subject.singles };
        Self {
            ns: slices.median(),
            min_ns: slices.min(),
            max_ns: slices.max(),
            p99_ns: singles.p99(),
            limit: beside.name.clone(),
            limit_ns: beside.slices().median(),
            ratio: ratios.median(),
            ratio_p10: ratios.quantile(0.1),
            ratio_p90: ratios.quantile(0.9),
            rounds: slices.len(),
            samples: subject.singles.len(),
            more: Map::new(),
            detail: Map::new(),
        }
    }

    /// The figures of a single measurement, compared with a constant.
    pub fn one(ns: f64, limit: &str, limit_ns: f64) -> Self {
        let ratio = ns / limit_ns;
        Self {
            ns,
            min_ns: ns,
            max_ns: ns,
            p99_ns: ns,
            limit: limit.into(),
            limit_ns,
            ratio,
            ratio_p10: ratio,
            ratio_p90: ratio,
            rounds: 1,
            samples: 0,
            more: Map::new(),
            detail: Map::new(),
        }
    }

    /// Adds a figure.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }

    /// Adds a figure that only the JSON shows.
    #[must_use]
    pub fn with_detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.detail.insert(name.into(), value.into());
        self
    }

    /// Adds a bar called `name`: its value, and whether it is met.
    #[must_use]
    pub fn judged(self, name: &str, bar: f64, met: bool) -> Self {
        self.with(name, bar).with(&format!("{name}_is"), if met { "met" } else { "missed" })
    }
}

/// The JSON form. The keys that readers rely on are always present.
#[derive(Serialize)]
struct Line<'a> {
    bench: &'a str,
    case: &'a str,
    ns: Option<f64>,
    p99_ns: Option<f64>,
    limit: Option<&'a str>,
    limit_ns: Option<f64>,
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<&'a str>,
    #[serde(flatten)]
    spread: Option<Spread>,
    #[serde(flatten)]
    more: Option<&'a Map<String, Value>>,
    #[serde(flatten)]
    detail: Option<&'a Map<String, Value>>,
    pinning: &'a str,
    #[serde(flatten)]
    origin: &'a RowOrigin,
}

#[derive(Serialize)]
struct Spread {
    min_ns: f64,
    max_ns: f64,
    ratio_p10: f64,
    ratio_p90: f64,
    rounds: usize,
    samples: usize,
}

impl Row {
    /// As one line of JSON, with the commit, the date and the machine.
    ///
    /// # Panics
    /// Never: all keys are text.
    pub fn json(&self, origin: &RowOrigin) -> String {
        let figures = self.result.as_ref().ok();
        let line = Line {
            bench: &self.bench,
            case: &self.case,
            ns: figures.map(|f| f.ns),
            p99_ns: figures.map(|f| f.p99_ns),
            limit: figures.map(|f| f.limit.as_str()),
            limit_ns: figures.map(|f| f.limit_ns),
            ratio: figures.map(|f| f.ratio),
            skipped: self.result.as_ref().err().map(String::as_str),
            spread: figures.map(|f| Spread {
                min_ns: f.min_ns,
                max_ns: f.max_ns,
                ratio_p10: f.ratio_p10,
                ratio_p90: f.ratio_p90,
                rounds: f.rounds,
                samples: f.samples,
            }),
            more: figures.map(|f| &f.more),
            detail: figures.map(|f| &f.detail),
            pinning: &self.pinning,
            origin,
        };
        serde_json::to_string(&line).expect("a row is made of text and numbers")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Machine, SourceVersion};

    pub(crate) fn origin() -> RowOrigin {
        let machine = Machine { cpu: "Test".into(), kernel: "Linux 1".into(), processors: 2, clock_ns: 20.0 };
        let version = SourceVersion::recorded("1a2b3c4d5e6f", "clean");
        RowOrigin { version, date: Some("2026-11-28T23:40:05Z".into()), machine }
    }

    pub(crate) fn row(case: &str) -> Row {
        let figures = Figures {
            ns: 104.5,
            min_ns: 90.0,
            max_ns: 230.0,
            p99_ns: 180.0,
            limit: "two-line".into(),
            limit_ns: 95.0,
            ratio: 1.1,
            ratio_p10: 1.0,
            ratio_p90: 1.2,
            rounds: 41,
            samples: 1000,
            more: Map::new(),
            detail: Map::new(),
        };
        let figures = figures.with("socket_ns", 9_500.0).with("speedup", 90.9).with_detail("calls", 7);
        Row { bench: "null".into(), case: case.into(), pinning: "both on CPU 0".into(), result: Ok(figures) }
    }

    #[test]
    fn the_promised_names_are_there_and_flat() {
        let json = row("pinned").json(&origin());
        assert!(!json.contains('\n'));
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&value["bench"], &value["case"]), (&"null".into(), &"pinned".into()));
        assert_eq!((&value["ns"], &value["p99_ns"]), (&104.5.into(), &180.0.into()));
        assert_eq!((&value["limit"], &value["limit_ns"]), (&"two-line".into(), &95.0.into()));
        assert_eq!((&value["ratio"], &value["socket_ns"]), (&1.1.into(), &9_500.0.into()));
        assert_eq!(value["calls"], 7);
        assert_eq!((&value["cpu"], &value["processors"]), (&"Test".into(), &2.into()));
        assert_eq!((&value["commit"], &value["tree"]), (&"1a2b3c4d5e6f".into(), &"clean".into()));
        assert_eq!(value["date"], "2026-11-28T23:40:05Z");
        assert!(value.as_object().unwrap().values().all(|v| !v.is_object()), "{json}");
    }

    #[test]
    fn a_skipped_case_says_why_and_keeps_the_names() {
        let skipped = Row { result: Err("needs two CPUs".into()), ..row("pinned") };
        let value: Value = serde_json::from_str(&skipped.json(&origin())).unwrap();
        assert_eq!(value["skipped"], "needs two CPUs");
        for name in ["ns", "p99_ns", "limit", "limit_ns", "ratio"] {
            assert_eq!(value.get(name), Some(&Value::Null), "{name}");
        }
    }

    #[test]
    fn a_row_survives_the_pipe() {
        let text = serde_json::to_string(&row("pinned")).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row("pinned"));
    }
}
