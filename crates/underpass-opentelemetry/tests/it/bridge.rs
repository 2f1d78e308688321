//! What an SDK collects is the snapshot, and spans of caller and handler belong to one trace.

use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use underpass::metrics::{MeasuredSide, snapshot};
use underpass::{CallError, Handler, Server, TraceContext};
use underpass_harness::alone;
use underpass_opentelemetry::{in_context, observe, parent, span_context, trace_context};

#[underpass::interface(asynchronous)]
trait Shop {
    fn order(&self, pieces: u32) -> Result<u32, CallError>;
    fn cancel(&self) -> Result<(), CallError>;
}

static TRACES: OnceLock<(SdkTracerProvider, InMemorySpanExporter)> = OnceLock::new();

fn traces() -> &'static (SdkTracerProvider, InMemorySpanExporter) {
    TRACES.get_or_init(|| {
        let exporter = InMemorySpanExporter::default();
        (SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build(), exporter)
    })
}

struct Counter;

impl ShopAsync for Counter {
    async fn order(&self, pieces: u32) -> Result<u32, CallError> {
        drop(traces().0.tracer("shop").start_with_context("handler", &parent()));
        Ok(pieces)
    }
    async fn cancel(&self) -> Result<(), CallError> {
        Err(CallError::Overloaded)
    }
}

fn spawn(mut handler: Handler) {
    std::thread::spawn(move || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while handler.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
    });
}

/// The collected numbers of the import, by instrument, method and further attribute.
fn collected(exporter: &InMemoryMetricExporter) -> BTreeMap<(String, String, String), u64> {
    let mut found = BTreeMap::new();
    let all = exporter.get_finished_metrics().unwrap();
    let metrics = all.last().unwrap().scope_metrics().flat_map(|scope| scope.metrics());
    for metric in metrics {
        let AggregatedMetrics::U64(MetricData::Sum(sum)) = metric.data() else { continue };
        assert!(sum.is_monotonic(), "{}", metric.name());
        for point in sum.data_points() {
            let of = |key: &str| {
                let mut found = point.attributes().filter(|one| one.key.as_str() == key);
                found.next().map_or_else(String::new, |KeyValue { value, .. }| value.to_string())
            };
            if of("side") == "import" {
                let further = of("outcome") + &of("direction");
                found.insert((metric.name().to_owned(), of("method"), further), point.value());
            }
        }
    }
    found
}

#[test]
fn an_sdk_collects_the_snapshot_and_one_trace() {
    alone!();
    let name = format!("opentelemetry-{}", std::process::id());
    let running = Server::new().export(&name, ShopAsync::serve(Counter, spawn)).start().unwrap();
    let shop = ShopClient::import(&name).unwrap().measured(&name);
    let exporter = InMemoryMetricExporter::default();
    let meters = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    observe(&meters.meter("shop"));

    let (provider, spans) = traces();
    let caller = provider.tracer("shop").start("caller");
    let context = Context::new().with_span(caller);
    in_context(&context, || (0..100).for_each(|pieces| assert_eq!(shop.order(pieces), Ok(pieces))));
    (0..7).for_each(|_| assert!(shop.cancel().is_err()));
    assert_eq!(shop.order(1), Ok(1), "without a trace");

    meters.force_flush().unwrap();
    let found = collected(&exporter);
    let told = snapshot();
    let import = told.iter().find(|of| of.side == MeasuredSide::Import).unwrap();
    for method in &import.methods {
        let of = |instrument: &str, further: &str| {
            found[&(instrument.to_owned(), method.method.clone(), further.to_owned())]
        };
        assert_eq!(of("underpass.calls", "returned"), method.returned);
        assert_eq!(of("underpass.calls", "error"), method.returned_errors);
        assert_eq!(of("underpass.bytes", "in"), method.bytes_in);
        assert_eq!(of("underpass.bytes", "out"), method.bytes_out);
        assert_eq!(of("underpass.call.timed", ""), method.latency.count());
    }
    assert_eq!((import.methods[0].returned, import.methods[1].returned_errors), (101, 7));

    let caller = context.span().span_context().clone();
    let handlers = spans.get_finished_spans().unwrap();
    let (inside, outside): (Vec<_>, Vec<_>) = handlers
        .iter()
        .filter(|span| span.name == "handler")
        .partition(|span| span.span_context.trace_id() == caller.trace_id());
    assert_eq!((inside.len(), outside.len()), (100, 1));
    assert!(inside.iter().all(|span| span.parent_span_id == caller.span_id()));
    drop(shop);
    running.stop();
}

#[test]
fn a_spans_context_comes_back_with_its_state() {
    alone!();
    let state = TraceState::from_key_value([("a", "b"), ("c", "d")]).unwrap();
    let flags = TraceFlags::SAMPLED;
    let there = SpanContext::new(TraceId::from(7u128 << 100), SpanId::from(9u64), flags, false, state);
    let context = trace_context(&there).unwrap();
    assert_eq!(context.to_string(), format!("00-{:032x}-{:016x}-01", 7u128 << 100, 9));
    assert_eq!(context.state(), "a=b,c=d");
    let back = span_context(&context);
    assert_eq!((back.trace_id(), back.span_id()), (there.trace_id(), there.span_id()));
    assert!(back.is_remote() && back.is_sampled() && back.trace_state() == there.trace_state());
    assert_eq!(trace_context(&SpanContext::empty_context()), None);
    let odd = TraceContext::new(1, 2, 0).unwrap().with_state("no state");
    assert_eq!(span_context(&odd).trace_state().header(), "");
}
