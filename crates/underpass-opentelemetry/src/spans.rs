//! Contexts of spans as those of calls, and the other way round.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use std::str::FromStr;
use underpass::TraceContext;

/// The context of calls that belong to this span. `None` if the span is none.
pub fn trace_context(span: &SpanContext) -> Option<TraceContext> {
    let trace_id = u128::from_be_bytes(span.trace_id().to_bytes());
    let span_id = u64::from_be_bytes(span.span_id().to_bytes());
    let context = TraceContext::new(trace_id, span_id, span.trace_flags().to_u8())?;
    Some(context.with_state(&span.trace_state().header()))
}

/// The span that a context names, which is one of the caller's.
pub fn span_context(context: &TraceContext) -> SpanContext {
    let trace_id = TraceId::from_bytes(context.trace_id().to_be_bytes());
    let span_id = SpanId::from_bytes(context.span_id().to_be_bytes());
    // The standard says that a state that can't be read is left out.
    let state = TraceState::from_str(context.state()).unwrap_or_default();
    SpanContext::new(trace_id, span_id, TraceFlags::new(context.flags()), true, state)
}

/// Runs `work`. Calls that it makes belong to the span of `context`, if it has one.
///
/// # Examples
/// ```
/// use opentelemetry::Context;
/// use underpass_opentelemetry::in_context;
///
/// // `Context::current()` has the span that the program's tracer has made.
/// let result = in_context(&Context::current(), || 42 /* calls */);
/// assert_eq!(result, 42);
/// ```
pub fn in_context<R>(context: &Context, work: impl FnOnce() -> R) -> R {
    match trace_context(context.span().span_context()) {
        Some(context) => context.scope(work),
        None => work(),
    }
}

/// In a handler: the context in which its spans are to be started, so that they belong to its
/// caller's span. Without a caller's context it is [`Context::current`].
///
/// # Examples
/// ```
/// use opentelemetry::trace::{TraceContextExt, Tracer};
/// use underpass_opentelemetry::{in_context, parent};
///
/// fn handler() {
///     let tracer = opentelemetry::global::tracer("my-service");
///     let span = tracer.start_with_context("handler", &parent());
///     let context = parent().with_span(span);
///     // Calls of this handler belong to its own span.
///     in_context(&context, || {});
/// }
/// # handler();
/// ```
pub fn parent() -> Context {
    match TraceContext::current() {
        Some(context) => Context::current().with_remote_span_context(span_context(&context)),
        None => Context::current(),
    }
}
