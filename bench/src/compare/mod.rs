//! Compares the results of two builds: paired ratios, with a test of their significance.
//!
//! Both builds are run by turns, several times each, and each appends its rows to a file of its
//! own. The n-th row of a case in one file and the n-th in the other are a pair, because they were
//! measured soon after each other. What is compared is each row's `ratio` to its limit, which was
//! measured in the same run. So neither the drift of the machine from run to run nor that from pair
//! to pair counts. Whether the pairs differ is decided by the signed ranks of their logarithms
//! ([`signed_ranks`]), and the level is divided among all cases (Holm).

pub(crate) mod signed_ranks;

use crate::BenchError;
use serde::Serialize;
use serde_json::Value;
use signed_ranks::SignedRanks;

/// The probability that any case is said to differ though none does.
pub const LEVEL: f64 = 0.05;

/// What can be said of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaseChange {
    /// The second takes less time.
    Faster,
    /// The second takes more time.
    Slower,
    /// The pairs don't show a difference.
    NotShown,
    /// So few pairs can't show a difference, however large it is.
    TooFewRuns,
}

/// A case of both files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The benchmark and the case, with the numbers that tell rows of one case apart.
    pub case: String,
    /// The pairs.
    pub pairs: usize,
    /// The second's time to the first's: the Hodges-Lehmann estimate.
    pub ratio: f64,
    /// The 95 % confidence interval of that. Infinite where there are too few pairs.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The probability of pairs that differ so clearly, if the two do not differ, after the
    /// correction for the number of cases.
    pub p: f64,
    /// What that says.
    pub change: CaseChange,
}

/// The comparisons of two files, and what a reader should know of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compared {
    /// In the order of the first file.
    pub cases: Vec<Comparison>,
    /// What is odd about the files.
    pub notes: Vec<String>,
}

/// Compares two files of rows, each a JSON object a line.
///
/// # Errors
/// If a line isn't a row, or if no case is in both files.
///
/// # Examples
/// ```
/// let row = |ratio: f64| format!(r#"{{"bench":"urpc","case":"null/pinned","ratio":{ratio}}}"#);
/// let file = |factor: f64| (0..6).map(|run| row((1.0 + f64::from(run)) * factor) + "\n").collect::<String>();
/// let compared = underpass_bench::compare(&file(1.0), &file(1.1)).unwrap();
/// assert_eq!(compared.cases[0].change, underpass_bench::CaseChange::Slower);
/// ```
pub fn compare(first: &str, second: &str) -> Result<Compared, BenchError> {
    let (first, second) = (read(first, "first")?, read(second, "second")?);
    let mut notes = Vec::new();
    let mut cases = Vec::new();
    for case in &first {
        let Some(other) = second.iter().find(|other| other.name == case.name) else {
            notes.push(format!("{} is in the first file only", case.name));
            continue;
        };
        if case.machine != other.machine {
            notes.push(format!(
                "{} comes from two machines: {} and {}",
                case.name, case.machine, other.machine
            ));
        }
        let (here, there) = (case.ratios.len(), other.ratios.len());
        if here != there {
            notes.push(format!("{} has {here} runs in the first file and {there} in the second", case.name));
        }
        let pairs = case.ratios.iter().zip(&other.ratios).filter(|(a, b)| **a > 0.0 && **b > 0.0);
        let ranks = SignedRanks::of(pairs.map(|(a, b)| (b / a).ln()));
        cases.push((case.name.clone(), ranks));
    }
    let missing = second.iter().filter(|other| first.iter().all(|case| case.name != other.name));
    notes.extend(missing.map(|case| format!("{} is in the second file only", case.name)));
    if cases.is_empty() {
        return Err("no case is in both files; each is what `underpass-bench NAME --json` prints".into());
    }
    Ok(Compared { cases: judge(cases), notes })
}

/// The rows of one case, in their order.
struct CaseRuns {
    name: String,
    machine: String,
    ratios: Vec<f64>,
}

/// Names that tell rows of one case apart.
const NUMBERS: [&str; 4] = ["T", "C", "S", "bytes"];

fn read(text: &str, which: &str) -> Result<Vec<CaseRuns>, BenchError> {
    let mut cases: Vec<CaseRuns> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |what: &str| format!("line {} of the {which} file is no row: {what}", number + 1);
        let row: Value = serde_json::from_str(line).map_err(|e| bad(&e.to_string()))?;
        let word = |name: &str| row[name].as_str();
        let (Some(bench), Some(case)) = (word("bench"), word("case")) else {
            return Err(bad("it has no `bench` or no `case`").into());
        };
        // A skipped case has no ratio.
        let Some(ratio) = row["ratio"].as_f64() else { continue };
        let numbers = NUMBERS.iter().filter(|name| row[**name].is_number());
        let numbers = numbers.map(|name| format!(" {name}={}", row[*name]));
        let name = format!("{bench} {case}{}", numbers.collect::<String>());
        let machine = [word("cpu"), word("kernel")].map(Option::unwrap_or_default).join(", ");
        match cases.iter_mut().find(|known| known.name == name) {
            Some(known) => known.ratios.push(ratio),
            None => cases.push(CaseRuns { name, machine, ratios: vec![ratio] }),
        }
    }
    Ok(cases)
}

/// Judges all cases together: the k-th smallest of `n` probabilities counts `n - k + 1` times
/// (Holm).
fn judge(cases: Vec<(String, SignedRanks)>) -> Vec<Comparison> {
    let mut order: Vec<usize> = (0..cases.len()).collect();
    let p: Vec<f64> = cases.iter().map(|(_, ranks)| ranks.p()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![1.0; cases.len()];
    let mut most: f64 = 0.0;
    for (place, &case) in order.iter().enumerate() {
        most = most.max(p[case] * (cases.len() - place) as f64).min(1.0);
        adjusted[case] = most;
    }
    let family = cases.len() as f64;
    let judged = cases.into_iter().zip(adjusted).map(|((case, ranks), p)| {
        let (low, high) = ranks.interval(LEVEL);
        let (ratio, low, high) = (ranks.estimate().exp(), low.exp(), high.exp());
        let change = match () {
            () if p < LEVEL && ratio < 1.0 => CaseChange::Faster,
            () if p < LEVEL => CaseChange::Slower,
            () if ranks.least_p() * family >= LEVEL => CaseChange::TooFewRuns,
            () => CaseChange::NotShown,
        };
        Comparison { case, pairs: ranks.pairs(), ratio, low, high, p, change }
    });
    judged.collect()
}

#[cfg(test)]
mod tests;
