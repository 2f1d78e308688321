//! Observable instruments, which read metrics when they are collected.

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use underpass::metrics::{InterfaceMetrics, LatencyHistogram, MeasuredSide, MethodMetrics, snapshot};

/// The quantiles that are reported.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// Reports what the measured exports and imports of this process have done
/// ([`underpass::metrics`]), whenever `meter`'s reader collects.
///
/// | instrument | attributes | what it is |
/// |---|---|---|
/// | `underpass.calls` | `outcome`: `returned`, `error`, or the kind of a failure | a counter of calls that have ended |
/// | `underpass.bytes` | `direction`: `in`, `out` | a counter of bytes of arguments and results |
/// | `underpass.call.duration` | `quantile` | a gauge in seconds, of the one call in 64 that is timed |
/// | `underpass.call.queueing` | `quantile` | the same, for the wait before the handler |
/// | `underpass.call.timed`, `underpass.call.time` | | counters of the calls that were timed, and of their times in seconds |
///
/// All of them have the attributes `side`, `name`, `interface` and `method`. The quantiles are of
/// the time since the process began. OpenTelemetry has no observable histograms.
///
/// # Examples
/// ```
/// let meter = opentelemetry::global::meter("my-service");
/// underpass_opentelemetry::observe(&meter);
/// ```
pub fn observe(meter: &Meter) {
    let calls = meter.u64_observable_counter("underpass.calls").with_unit("{call}");
    calls
        .with_callback(|observer| {
            each_method(|attributes, method| {
                let failures = method.failures.iter().map(|failure| (&*failure.kind, failure.calls));
                let outcomes = [("returned", method.returned), ("error", method.returned_errors)];
                for (outcome, calls) in outcomes.into_iter().chain(failures) {
                    observer.observe(calls, &with(attributes, KeyValue::new("outcome", outcome.to_owned())));
                }
            });
        })
        .build();
    let bytes = meter.u64_observable_counter("underpass.bytes").with_unit("By");
    bytes
        .with_callback(|observer| {
            each_method(|attributes, method| {
                for (direction, bytes) in [("in", method.bytes_in), ("out", method.bytes_out)] {
                    observer.observe(bytes, &with(attributes, KeyValue::new("direction", direction)));
                }
            });
        })
        .build();
    quantiles(meter, "underpass.call.duration", |method| &method.latency);
    quantiles(meter, "underpass.call.queueing", |method| &method.queueing);
    meter
        .u64_observable_counter("underpass.call.timed")
        .with_unit("{call}")
        .with_callback(|observer| {
            each_method(|attributes, method| observer.observe(method.latency.count(), attributes));
        })
        .build();
    meter
        .f64_observable_counter("underpass.call.time")
        .with_unit("s")
        .with_callback(|observer| {
            each_method(|attributes, method| {
                observer.observe(method.latency.sum_ns as f64 / 1e9, attributes)
            });
        })
        .build();
}

/// A gauge of the quantiles of these times.
fn quantiles(meter: &Meter, name: &'static str, times: fn(&MethodMetrics) -> &LatencyHistogram) {
    meter
        .f64_observable_gauge(name)
        .with_unit("s")
        .with_callback(move |observer| {
            each_method(|attributes, method| {
                for quantile in QUANTILES {
                    if let Some(time) = times(method).quantile(quantile) {
                        let attributes = with(attributes, KeyValue::new("quantile", quantile.to_string()));
                        observer.observe(time.as_secs_f64(), &attributes);
                    }
                }
            });
        })
        .build();
}

/// Calls `report` for each method, with its attributes.
fn each_method(report: impl Fn(&[KeyValue], &MethodMetrics)) {
    for of in snapshot() {
        of.methods.iter().for_each(|method| report(&attributes(&of, method), method));
    }
}

fn attributes(of: &InterfaceMetrics, method: &MethodMetrics) -> [KeyValue; 4] {
    let side = match of.side {
        MeasuredSide::Export => "export",
        MeasuredSide::Import => "import",
    };
    [
        KeyValue::new("side", side),
        KeyValue::new("name", of.name.clone()),
        KeyValue::new("interface", of.interface.clone()),
        KeyValue::new("method", method.method.clone()),
    ]
}

fn with(attributes: &[KeyValue], one: KeyValue) -> Vec<KeyValue> {
    attributes.iter().cloned().chain([one]).collect()
}
