//! The calls of an export that lets itself be traced.
//!
//! The server stub of such an export is wrapped. A call costs one more indirect call and one load
//! while nobody traces. An export that does not allow it has no wrapper, and costs nothing.
//!
//! Calls are recorded while somebody asks for them: each request prolongs the recording by a few
//! seconds. So a tool that was killed leaves nothing behind. The memory is bounded: the oldest
//! records give way, and the tool is told how many it has missed. Arguments and results are not
//! recorded.

use super::views::{TraceView, TracedCall};
use crate::dispatch::detached_call::DetachedCall;
use crate::dispatch::incoming::{Dispatch, IncomingCall, Refused};
use crate::metrics::meter::Meter;
use crate::payload::interfaces::WITH_INTERFACES;
use crate::payload::prefix::WITH_PREFIX;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use underpass_os::{clock, cpu};
use underpass_threads::critical;

/// The most calls that are kept.
const MOST: usize = 4096;

/// How long calls are recorded after somebody has asked for them, in ns.
const LASTS: u64 = 3_000_000_000;

/// The recorded calls of one name.
#[derive(Debug, Default)]
pub(super) struct CallTrace {
    /// Calls are recorded until this time of the clock. 0: nobody has asked yet.
    until: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the next call that is recorded.
    next: u64,
    calls: VecDeque<TracedCall>,
}

impl CallTrace {
    /// The calls from number `since` on. Recording begins or goes on.
    pub(super) fn since(&self, since: u64) -> TraceView {
        // Relaxed: a call that does not see it yet is one that began before.
        self.until.store(clock::now_ns() + LASTS, Ordering::Relaxed);
        let _held = critical();
        let kept = self.kept();
        let first = kept.next - kept.calls.len() as u64;
        // A number of the future is one of an earlier server.
        let since = if since > kept.next { 0 } else { since };
        let skipped = since.saturating_sub(first) as usize;
        TraceView {
            next: kept.next,
            missed: first.saturating_sub(since),
            calls: kept.calls.iter().skip(skipped).cloned().collect(),
        }
    }

    /// The holder of the lock must be critical, so that it keeps its processor.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, call: TracedCall) {
        let _held = critical();
        let mut kept = self.kept();
        if kept.calls.len() == MOST {
            kept.calls.pop_front();
        }
        kept.next += 1;
        kept.calls.push_back(call);
    }

    /// Whether calls are recorded.
    #[inline]
    fn is_on(&self) -> bool {
        // Relaxed: a switch.
        self.until.load(Ordering::Relaxed) != 0 && self.is_on_now()
    }

    #[cold]
    fn is_on_now(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        let on = clock::now_ns() < until;
        if !on {
            // From now on a call reads no clock. Somebody may have asked meanwhile: then this
            // changes nothing.
            let _ = self.until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        on
    }
}

/// A server stub whose calls are recorded while somebody asks for them.
pub(super) struct TracedDispatch {
    inner: Arc<dyn Dispatch>,
    trace: Arc<CallTrace>,
    interface: &'static str,
}

impl TracedDispatch {
    /// The stub `inner` of an interface of this name.
    pub(super) fn new(inner: Arc<dyn Dispatch>, trace: Arc<CallTrace>, interface: &'static str) -> Self {
        Self { inner, trace, interface }
    }
}

impl Dispatch for TracedDispatch {
    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
        // A call with interfaces or a prefix is dispatched again once they are taken, and is
        // recorded then.
        if !self.trace.is_on() || call.procedure() & (WITH_INTERFACES | WITH_PREFIX) != 0 {
            return self.inner.dispatch(call);
        }
        let recording = Recording::begin(self, call);
        let done = self.inner.dispatch(call);
        recording.end(done.is_ok());
        done
    }

    /// Calls from other machines are not recorded: they have no binding and no process here.
    fn dispatch_detached(&self, call: &mut DetachedCall) -> Result<(), Refused> {
        self.inner.dispatch_detached(call)
    }

    fn local(self: Arc<Self>) -> Option<Box<dyn Any>> {
        self.inner.clone().local()
    }

    fn meter(&self) -> Option<&Arc<Meter>> {
        self.inner.meter()
    }
}

/// A call that runs. If its handler panics, it is recorded as one that failed.
struct Recording<'a> {
    of: &'a TracedDispatch,
    call: TracedCall,
}

impl<'a> Recording<'a> {
    fn begin(of: &'a TracedDispatch, call: &IncomingCall<'_>) -> Self {
        let peer = call.row.binding.binding().peer();
        let call = TracedCall {
            interface: of.interface.to_owned(),
            method: call.procedure(),
            binding: peer.binding_id(),
            pid: peer.pid(),
            began: clock::now_ns(),
            took: 0,
            cpu: cpu::current() as u32,
            bytes: call.length as u64,
            fine: false,
        };
        Self { of, call }
    }

    fn end(mut self, fine: bool) {
        self.call.fine = fine;
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        let mut call = self.call.clone();
        call.took = clock::now_ns().saturating_sub(call.began);
        self.of.trace.record(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::detached_call::ProcedureCall;
    use crate::dispatch::local_handlers::LocalMessage;
    use std::sync::atomic::AtomicBool;

    fn call(method: u16) -> TracedCall {
        TracedCall {
            interface: "Cache".to_owned(),
            method,
            binding: 1,
            pid: 1,
            began: 0,
            took: 1,
            cpu: 0,
            bytes: 0,
            fine: true,
        }
    }

    /// A stub that says whether a call has come over no channel.
    #[derive(Default)]
    struct Detached(AtomicBool);

    impl Dispatch for Detached {
        fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
            call.unknown()
        }

        fn dispatch_detached(&self, call: &mut DetachedCall) -> Result<(), Refused> {
            self.0.store(true, Ordering::Relaxed);
            call.end()
        }
    }

    #[test]
    fn calls_over_no_channel_are_passed_on() {
        let stub = Arc::<Detached>::default();
        let traced = TracedDispatch::new(stub.clone(), Arc::default(), "Cache");
        let _ = DetachedCall::new(0, LocalMessage::default()).run(&traced);
        assert!(stub.0.load(Ordering::Relaxed), "the stub itself has the call");
        assert_eq!(traced.trace.since(0).calls, []);
    }

    #[test]
    fn the_oldest_calls_give_way_and_are_counted() {
        let trace = CallTrace::default();
        assert!(!trace.is_on());
        assert_eq!(trace.since(0).calls, []);
        assert!(trace.is_on());
        (0..3).for_each(|method| trace.record(call(method)));
        let told = trace.since(1);
        assert_eq!((told.next, told.missed), (3, 0));
        assert_eq!(told.calls, [call(1), call(2)]);
        (0..MOST).for_each(|_| trace.record(call(9)));
        let told = trace.since(1);
        assert_eq!((told.next, told.missed, told.calls.len()), (MOST as u64 + 3, 2, MOST));
        assert_eq!(trace.since(told.next).calls, []);
        assert_eq!(trace.since(u64::MAX).calls.len(), MOST, "a number of another server");
    }

    #[test]
    fn recording_ends_when_nobody_asks() {
        let trace = CallTrace::default();
        trace.until.store(1, Ordering::Relaxed);
        assert!(!trace.is_on());
        assert_eq!(trace.until.load(Ordering::Relaxed), 0);
    }
}
