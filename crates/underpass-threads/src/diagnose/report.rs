//! What a home says of its threads when it is asked.
//!
//! Which threads live here is told by `home` alone, and needs nobody to hold them: an activation
//! writes its number there when it takes a thread, and something else before it lets the thread go
//! (at its end, or to another activation). Whoever takes the block afterwards writes there too, but
//! never this number. So an activation that reads its own number there, by coherence its own last
//! write, owns the thread still, and, between two threads, owns what is the home's: `context` and
//! `suspension`.

use crate::block::control::{Control, flag};
use crate::block::registry;
use crate::block::suspension::Awaited;
use crate::diagnose::monitor_findings;
use crate::sched::scheduler::Scheduler;
use crate::sched::self_report::{self, FRAMES};
use std::collections::HashSet;
use std::ops::Range;
use underpass_context::{Context, Resume};

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It has not started; any activation may take it.
    Unstarted,
    /// It could go on, and waits for its turn.
    Ready,
    /// It runs, or would if the kernel let it.
    Running,
    /// It waits for something of ours.
    Blocked,
    /// It is in a blocking call, in brackets.
    InCall,
    /// Its activation does not answer, and runs another.
    HeldUp,
    /// It has ended, and its result waits for somebody to take it.
    Ended,
}

/// What is known of one thread.
#[derive(Clone, Debug)]
pub(crate) struct ThreadRecord {
    pub(crate) id: u64,
    pub(crate) name: Option<Box<str>>,
    pub(crate) state: State,
    pub(crate) serves: bool,
    pub(crate) home: Option<usize>,
    pub(crate) awaited: Option<Awaited>,
    /// When it was suspended, if it is.
    pub(crate) since_ns: Option<u64>,
    pub(crate) findings: monitor_findings::MonitorFindings,
    pub(crate) frames: Box<[usize]>,
}

impl ThreadRecord {
    /// What anybody can tell of a block; nothing if it has come to stand for another thread
    /// meanwhile.
    pub(crate) fn of(control: &Control, state: impl FnOnce() -> State) -> Option<Self> {
        let id = control.id();
        let record = Self {
            id,
            name: control.try_name(),
            state: state(),
            serves: control.has(flag::SERVES),
            home: control.home(),
            awaited: None,
            since_ns: None,
            findings: monitor_findings::MonitorFindings::of(control),
            frames: Box::default(),
        };
        (control.id() == id).then_some(record)
    }
}

/// The addresses of the threads on the ready list of `own`: they are not suspended, though they
/// have not gone on. Between two threads.
pub(crate) fn ready(own: &'static Scheduler) -> HashSet<usize> {
    let mut ready = HashSet::new();
    own.outside().ready.each(|control| {
        ready.insert(std::ptr::from_ref(control).addr());
    });
    ready
}

/// The records of all threads that live on `own`. Between two threads.
pub(crate) fn of_home(own: &'static Scheduler) -> Vec<ThreadRecord> {
    let ready = ready(own);
    let here = registry::all().filter(|control| control.home() == Some(own.number()));
    here.filter_map(|control| of_resident(own, control, ready.contains(&std::ptr::from_ref(control).addr())))
        .collect()
}

fn of_resident(own: &'static Scheduler, control: &'static Control, ready: bool) -> Option<ThreadRecord> {
    // SAFETY: it lives here, and no thread runs.
    let awaited = if ready { None } else { unsafe { control.awaited() } };
    let mut record =
        ThreadRecord::of(control, || if awaited.is_some() { State::Blocked } else { State::Ready })?;
    record.since_ns = awaited.map(|_| control.since());
    record.awaited = awaited;
    // SAFETY: as above.
    if let Some(context) = unsafe { control.context.get() }.as_deref() {
        record.frames = trace(own, context);
    }
    Some(record)
}

fn trace(own: &'static Scheduler, context: &Context) -> Box<[usize]> {
    if Context::TRACES {
        let mut frames = [0; FRAMES];
        // SAFETY: it has a thread that lives here, so it was entered before and is paused.
        let found = unsafe { context.trace(&mut frames) };
        return frames[..found].into();
    }
    self_report::clear();
    // SAFETY: as above; it pauses again at once.
    unsafe { own.base().enter(context, Resume::Report) };
    self_report::take().into()
}

/// Writes down where the threads of `own` are: the one that was interrupted at `instruction`, and
/// those that are suspended. In a handler of signals on this very kernel thread, which has
/// interrupted neither its scheduler nor a switch: preemption was not held off.
pub(crate) fn interrupted(
    own: &'static Scheduler,
    instruction: usize,
    unwinder: Range<usize>,
    frames: &mut [usize],
    write: &mut impl FnMut(u64, &[usize]),
) {
    let Some(me) = own.current_if_any().or_else(|| own.outside().in_blocking_call.get()) else { return };
    let found = underpass_context::trace_interrupted(frames, unwinder);
    // The handler's own frames are above the one that was interrupted.
    if let Some(begin) = frames[..found].iter().position(|&ip| ip == instruction + 1) {
        write(me.id(), &frames[begin..found]);
    }
    if !Context::TRACES {
        return;
    }
    let others =
        registry::all().filter(|control| control.home() == Some(own.number()) && !std::ptr::eq(*control, me));
    for control in others {
        // SAFETY: it lives here, and this kernel thread does nothing else meanwhile; what was
        // interrupted is not the scheduler.
        if let Some(context) = unsafe { control.context.get() }.as_deref() {
            // SAFETY: it has a thread that lives here, so it was entered before and is paused.
            let found = unsafe { context.trace(frames) };
            write(control.id(), &frames[..found]);
        }
    }
}
