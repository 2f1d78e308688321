//! What measured interfaces tell of their methods.

use super::table::TextTable;
use super::{rate, short};
use serde_json::{Value, json};
use std::time::Duration;
use underpass::metrics::{InterfaceMetrics, LatencyHistogram, MeasuredSide, MethodMetrics};

/// The quantiles that are shown.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// What a method of one side of an interface has done, since the process began or for a while.
pub(super) struct MethodRow<'a> {
    pub(super) of: &'a InterfaceMetrics,
    pub(super) method: MethodMetrics,
}

/// The methods of `after`, and what each of them has done since `before`.
pub(super) fn between<'a>(before: &[InterfaceMetrics], after: &'a [InterfaceMetrics]) -> Vec<MethodRow<'a>> {
    let earlier = |of: &InterfaceMetrics, method: &str| {
        let is_same = |one: &&InterfaceMetrics| {
            (&one.name, &one.interface, one.side) == (&of.name, &of.interface, of.side)
        };
        let methods = before.iter().filter(is_same).flat_map(|one| &one.methods);
        methods.clone().find(|one| one.method == method).cloned().unwrap_or_default()
    };
    let rows = after.iter().flat_map(|of| of.methods.iter().map(move |method| (of, method)));
    rows.map(|(of, now)| MethodRow { of, method: since(now, &earlier(of, &now.method)) }).collect()
}

/// What a method has done since `before`. A process may tell any numbers.
fn since(now: &MethodMetrics, before: &MethodMetrics) -> MethodMetrics {
    let mut method = now.clone();
    method.returned = now.returned.saturating_sub(before.returned);
    method.returned_errors = now.returned_errors.saturating_sub(before.returned_errors);
    for failure in &mut method.failures {
        failure.calls = failure.calls.saturating_sub(before.failed(&failure.kind));
    }
    method.bytes_in = now.bytes_in.saturating_sub(before.bytes_in);
    method.bytes_out = now.bytes_out.saturating_sub(before.bytes_out);
    method.latency = now.latency.since(&before.latency);
    method.queueing = now.queueing.since(&before.queueing);
    method
}

/// The methods that have done something, within `time`.
pub(super) fn as_table<'a>(
    rows: impl Iterator<Item = (u32, &'a MethodRow<'a>)>,
    time: Duration,
) -> TextTable {
    let mut heads: Vec<_> = [">pid", "side", "method", ">calls/s", ">errors/s", ">in/s", ">out/s"].into();
    heads.extend([">p50 us", ">p99 us", ">p99.9 us", ">queued p99 us"]);
    let mut table = TextTable::new(&heads);
    for (pid, MethodRow { of, method }) in rows.filter(|(_, row)| row.method.calls() > 0) {
        let calls = method.calls();
        let each_second = |count: u64| short(rate(count, time));
        let name = if method.method.is_empty() { "?" } else { &method.method };
        let mut row = vec![
            pid.to_string(),
            side_name(of.side).to_owned(),
            format!("{}.{name}", of.name),
            each_second(calls),
            each_second(calls.saturating_sub(method.returned)),
            each_second(method.bytes_in),
            each_second(method.bytes_out),
        ];
        row.extend(QUANTILES.map(|(_, quantile)| microseconds(&method.latency, quantile)));
        row.push(microseconds(&method.queueing, 0.99));
        table.row(row);
    }
    table
}

fn side_name(side: MeasuredSide) -> &'static str {
    match side {
        MeasuredSide::Export => "export",
        MeasuredSide::Import => "import",
    }
}

fn microseconds(times: &LatencyHistogram, quantile: f64) -> String {
    times
        .quantile(quantile)
        .map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_nanos() as f64 / 1e3))
}

/// A method for machines: counts, and quantiles in ns.
pub(super) fn as_json(MethodRow { of, method }: &MethodRow<'_>) -> Value {
    let failures = method.failures.iter().map(|failure| (failure.kind.clone(), json!(failure.calls)));
    json!({
        "name": of.name,
        "interface": of.interface,
        "side": side_name(of.side),
        "method": method.method,
        "calls": method.calls(),
        "returned": method.returned,
        "returned_errors": method.returned_errors,
        "failures": failures.collect::<serde_json::Map<_, _>>(),
        "bytes_in": method.bytes_in,
        "bytes_out": method.bytes_out,
        "latency_ns": quantiles(&method.latency),
        "queueing_ns": quantiles(&method.queueing),
    })
}

fn quantiles(times: &LatencyHistogram) -> Value {
    let mut told = serde_json::Map::from_iter([("timed".to_owned(), json!(times.count()))]);
    for (name, quantile) in QUANTILES {
        let ns = times.quantile(quantile).map(|time| time.as_nanos() as u64);
        told.insert(name.to_owned(), json!(ns));
    }
    Value::Object(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass::metrics::FailureCount;

    fn told(returned: u64, failed: u64, times: &[u64]) -> InterfaceMetrics {
        let mut method = MethodMetrics { method: "open".to_owned(), returned, ..MethodMetrics::default() };
        method.failures.push(FailureCount { kind: "deadline".to_owned(), calls: failed });
        method.latency.counts = times.to_vec();
        InterfaceMetrics {
            name: "files".to_owned(),
            interface: "Files".to_owned(),
            side: MeasuredSide::Export,
            methods: vec![method],
        }
    }

    #[test]
    fn methods_are_shown_since_the_last_picture() {
        let (before, after) = ([told(10, 1, &[0, 5])], [told(30, 4, &[0, 5, 2])]);
        let rows = between(&before, &after);
        assert_eq!((rows[0].method.calls(), rows[0].method.failed("deadline")), (23, 3));
        let json = as_json(&rows[0]);
        assert_eq!((&json["calls"], &json["failures"]["deadline"]), (&json!(23), &json!(3)));
        assert_eq!(json["latency_ns"], json!({ "timed": 2, "p50": 3, "p99": 3, "p99.9": 3 }));
        assert_eq!(json["queueing_ns"]["p50"], Value::Null);
        // A restarted process counts anew.
        assert_eq!(between(&after, &before)[0].method.calls(), 0);
        assert_eq!(between(&[], &after)[0].method.calls(), 34);
    }
}
