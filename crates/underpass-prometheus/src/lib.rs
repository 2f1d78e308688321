//! Metrics of Underpass in the text format of Prometheus (version 0.0.4).
//!
//! *Decides:* the names of metrics and labels, and the buckets of histograms. *Must not know:* how
//! metrics are counted. [`text`] is all that this process tells. A program that has a web server
//! returns it there, with [`CONTENT_TYPE`]. Any other starts `http::listen` (feature
//! `http`).
//!
//! | metric | labels | what it counts |
//! |---|---|---|
//! | `underpass_calls_total` | `outcome`: `returned`, `error`, or the kind of a failure | calls that have ended |
//! | `underpass_bytes_total` | `direction`: `in`, `out` | bytes of arguments and results |
//! | `underpass_call_duration_seconds` | | how long one call in 64 took |
//! | `underpass_call_queueing_seconds` | | how long calls waited for their handlers, where it is known |
//!
//! All of them have the labels `side` (`export` or `import`), `name`, `interface` and `method`.
//! Exports and imports are listed once they are measured
//! ([`underpass::metrics`]). The counts of histograms are those of the calls that were timed, so
//! rates of calls come from `underpass_calls_total`.
#![forbid(unsafe_code)]

#[cfg(feature = "http")]
pub mod http;

use std::fmt::Write;
use underpass::metrics::{InterfaceMetrics, LatencyHistogram, MeasuredSide, MethodMetrics, snapshot};

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The powers of two, in ns, at which buckets of histograms end: 128 ns to 69 s.
const BUCKETS: std::ops::RangeInclusive<u32> = 7..=36;

/// What the measured exports and imports of this process have done so far.
///
/// # Examples
/// ```
/// assert!(underpass_prometheus::text().starts_with("# HELP underpass_calls_total"));
/// ```
pub fn text() -> String {
    render(&snapshot())
}

/// The text for these metrics.
pub fn render(interfaces: &[InterfaceMetrics]) -> String {
    let mut text = String::new();
    let rows = || interfaces.iter().flat_map(|of| of.methods.iter().map(move |method| (of, method)));
    head(&mut text, "underpass_calls_total", "counter", "Calls that have ended.");
    rows().for_each(|(of, method)| calls(&mut text, &labels(of, method), method));
    head(&mut text, "underpass_bytes_total", "counter", "Bytes of arguments and results.");
    for (of, method) in rows() {
        for (direction, bytes) in [("in", method.bytes_in), ("out", method.bytes_out)] {
            let labels = labels(of, method);
            line(&mut text, &format!("underpass_bytes_total{{{labels},direction=\"{direction}\"}}"), bytes);
        }
    }
    let (name, help) = ("underpass_call_duration_seconds", "How long one call in 64 took.");
    histograms(&mut text, interfaces, (name, help), |method| &method.latency);
    let (name, help) = ("underpass_call_queueing_seconds", "How long calls waited for their handlers.");
    histograms(&mut text, interfaces, (name, help), |method| &method.queueing);
    text
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail, here and below.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn line(text: &mut String, series: &str, value: u64) {
    let _ = writeln!(text, "{series} {value}");
}

/// The labels that all series of a method have.
fn labels(of: &InterfaceMetrics, method: &MethodMetrics) -> String {
    let side = match of.side {
        MeasuredSide::Export => "export",
        MeasuredSide::Import => "import",
    };
    let [name, interface, method] = [&of.name, &of.interface, &method.method].map(|text| escaped(text));
    format!("side=\"{side}\",name=\"{name}\",interface=\"{interface}\",method=\"{method}\"")
}

/// A label's value, as it stands between quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn calls(text: &mut String, labels: &str, method: &MethodMetrics) {
    let failures = method.failures.iter().map(|failure| (&*failure.kind, failure.calls));
    let outcomes = [("returned", method.returned), ("error", method.returned_errors)];
    for (outcome, calls) in outcomes.into_iter().chain(failures) {
        let outcome = escaped(outcome);
        line(text, &format!("underpass_calls_total{{{labels},outcome=\"{outcome}\"}}"), calls);
    }
}

/// The histograms of all methods, of these times.
fn histograms(
    text: &mut String,
    interfaces: &[InterfaceMetrics],
    (name, help): (&str, &str),
    times: impl Fn(&MethodMetrics) -> &LatencyHistogram,
) {
    head(text, name, "histogram", help);
    for of in interfaces {
        of.methods.iter().for_each(|method| histogram(text, name, &labels(of, method), times(method)));
    }
}

/// A histogram, by powers of two. One without times is left out.
fn histogram(text: &mut String, name: &str, labels: &str, times: &LatencyHistogram) {
    let all = times.count();
    if all == 0 {
        return;
    }
    for power in BUCKETS {
        let end = 1u64 << power;
        let below = times.ranges().take_while(|(range_end, _)| *range_end <= end);
        let count = below.fold(0u64, |sum, (_, count)| sum.saturating_add(count));
        let le = end as f64 / 1e9;
        line(text, &format!("{name}_bucket{{{labels},le=\"{le}\"}}"), count);
    }
    line(text, &format!("{name}_bucket{{{labels},le=\"+Inf\"}}"), all);
    let _ = writeln!(text, "{name}_sum{{{labels}}} {}", times.sum_ns as f64 / 1e9);
    line(text, &format!("{name}_count{{{labels}}}"), all);
}
