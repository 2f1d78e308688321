//! Latency, processor time and crashes of all peers in one table.

use crate::report::table::time;
use crate::rpc_peers::Tally;
use crate::rpc_peers::crash::CallerFate;
use crate::rpc_peers::find::PeerWay;
use crate::rpc_peers::plan::Times;
use crate::{Figures, Row, Summary};
use std::fmt::Write;

/// The figures of some crashes: the worst fate counts.
pub(super) fn fates(fates: &[CallerFate], times: &Times) -> Option<Figures> {
    let bound = times.bound.as_nanos() as f64;
    let waits = |outcome: &str| Figures::one(bound, "bound", bound).with("outcome", outcome);
    if fates.contains(&CallerFate::Waits) {
        return Some(waits("waits"));
    }
    if fates.contains(&CallerFate::WaitsAndGoesOn) {
        return Some(waits("waits, and goes on with the server"));
    }
    let errors: Vec<_> = fates
        .iter()
        .filter_map(|fate| match fate {
            CallerFate::Error { after_ns, error } => Some((*after_ns, error)),
            _ => None,
        })
        .collect();
    let (_, text) = errors.first()?;
    let after = Summary::of(errors.iter().map(|(after, _)| *after));
    let figures = Figures {
        max_ns: after.max(),
        min_ns: after.min(),
        rounds: after.len(),
        ..Figures::one(after.median(), "bound", bound)
    };
    Some(figures.with("outcome", "error").with("error", text.as_str()))
}

/// The columns, and how wide each is.
const COLUMNS: [(&str, usize); 12] = [
    ("peer", 18),
    ("Null p50", 10),
    ("p99", 10),
    ("p99.9", 10),
    ("ratio", 8),
    ("1000/s p50", 11),
    ("T=32 calls/s", 13),
    ("CPU s/M", 9),
    ("idle CPU", 10),
    ("connect", 10),
    ("KiB/conn.", 10),
    ("server killed | stopped", 0),
];

/// The table, with each peer's figures where both sides have a CPU of their own, or where they
/// share one.
pub(super) fn table(ways: &[PeerWay], tallies: &[Tally], rows: &[Row], times: &Times) -> String {
    let mut text = String::new();
    let place = ["apart", "floating", "together"].into_iter().find(|place| {
        let case = format!("{place}/null/{}", ways[0].name);
        rows.iter().any(|row| row.case == case && row.result.is_ok())
    });
    let place = place.unwrap_or("together");
    let _ = writeln!(
        text,
        "\nNull and T = 32: {place}. 1000/s, idle and connections: floating. Ratio: to ours, median of the rounds."
    );
    line(&mut text, COLUMNS.map(|(name, _)| name.to_owned()));
    for (way, tally) in ways.iter().zip(tallies) {
        let figures = |case: String, callers: u64| {
            let mut found = rows.iter().filter(|row| row.case == case);
            found.find_map(|row| row.result.as_ref().ok().filter(|figures| figures.more["T"] == callers))
        };
        let more =
            |figures: Option<&Figures>, name: &str| figures.and_then(|figures| figures.more[name].as_f64());
        let null = figures(format!("{place}/null/{}", way.name), 1);
        let many = figures(format!("{place}/null/{}", way.name), 32);
        let trickle = figures(format!("floating/null-1000/{}", way.name), 1);
        let ns = |ns: Option<f64>| ns.map_or("-".into(), time);
        let ratio = if way.ours { Some(1.0) } else { null.map(|figures| figures.ratio) };
        let idle = tally.standing.idle_ns().iter().sum::<f64>() / 1e7;
        let kib = tally.standing.bytes_per_connection() / 1024.0;
        line(
            &mut text,
            [
                way.name.clone(),
                ns(more(null, "p50_ns")),
                ns(null.map(|figures| figures.p99_ns)),
                ns(more(null, "p999_ns")),
                plain(ratio, 2, ""),
                ns(more(trickle, "p50_ns")),
                plain(more(many, "calls_per_s"), 0, ""),
                plain(more(null, "cpu_s_per_million"), 2, ""),
                plain(Some(idle), 2, " %"),
                time(tally.standing.connect_ns()),
                plain(Some(kib), 0, ""),
                format!("{} | {}", fate(&tally.killed, times), fate(&tally.stopped, times)),
            ],
        );
    }
    text
}

fn line(text: &mut String, cells: [String; COLUMNS.len()]) {
    for (at, (cell, (_, width))) in cells.iter().zip(COLUMNS).enumerate() {
        let _ = match (at, width) {
            (0, width) => write!(text, "{cell:<width$}"),
            (_, 0) => write!(text, "   {cell}"),
            (_, width) => write!(text, "{cell:>width$}"),
        };
    }
    text.push('\n');
}

fn plain(number: Option<f64>, digits: usize, unit: &str) -> String {
    match number.filter(|number| !number.is_nan()) {
        Some(number) => format!("{number:.digits$}{unit}"),
        None => "-".into(),
    }
}

/// A fate in a few words.
fn fate(all: &[CallerFate], times: &Times) -> String {
    let Some(figures) = fates(all, times) else { return "-".into() };
    match figures.more["outcome"].as_str() {
        Some("error") => format!("error after {}", time(figures.ns)),
        Some(outcome) => format!("{outcome} (> {})", time(figures.ns)),
        None => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc_peers::PeersPace;
    use crate::rpc_peers::find::tests::way;

    fn error(after_ns: f64) -> CallerFate {
        CallerFate::Error { after_ns, error: "broken pipe".into() }
    }

    #[test]
    fn the_worst_fate_counts() {
        let times = PeersPace::Usual.times();
        let told = |all: &[CallerFate]| fate(all, &times);
        assert_eq!(told(&[]), "-");
        assert_eq!(told(&[error(1e6), error(3e6), error(2e6)]), "error after 2.00 ms");
        assert_eq!(told(&[error(1e6), CallerFate::Waits]), "waits (> 12.0 s)");
        let goes_on = told(&[error(1e6), CallerFate::WaitsAndGoesOn]);
        assert_eq!(goes_on, "waits, and goes on with the server (> 12.0 s)");
        assert_eq!(fates(&[error(1e6)], &times).unwrap().more["error"], "broken pipe");
    }

    #[test]
    fn every_peer_has_a_line_even_if_nothing_is_known_of_it() {
        let ways = [way("underpass"), way("tonic")];
        let mut tallies = [Tally::default(), Tally::default()];
        tallies[1].killed.push(error(5e5));
        let table = table(&ways, &tallies, &[], &PeersPace::Quick.times());
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 5, "{table}");
        assert!(lines[3].starts_with("underpass ") && lines[4].starts_with("tonic "), "{table}");
        assert!(lines[4].ends_with("error after 500 µs | -"), "{table}");
    }
}
