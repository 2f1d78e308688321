//! What a home reports of its threads when it is asked.
//!
//! An activation finds its threads by the field `home` alone, without a handle of them. This is why
//! that is sound:
//!
//! 1. An activation writes its own number into `home` when it takes a thread. It writes something
//!    else before it releases the thread, at its end or to another activation.
//! 2. A later owner of the block writes there too, but never this number.
//! 3. So an activation that reads its own number there reads its own last write, by coherence, and
//!    still owns the thread.
//! 4. Between two threads it also owns the fields of the home: `context` and `suspension`.

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
    /// It has not started. Any activation may take it.
    Unstarted,
    /// It could go on, and waits to be run.
    Ready,
    /// It runs, or would if the kernel let it.
    Running,
    /// It waits for something of this package.
    Blocked,
    /// It is in a blocking call, in brackets.
    InCall,
    /// Its activation is unresponsive, and runs another thread.
    HeldUp,
    /// It has ended, and nobody has taken its result yet.
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
    /// What anybody can read from a block. `None` if the block has come to stand for another thread
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

/// The addresses of the threads on the ready list of `own`. They are not suspended any more, though
/// they have not gone on. Called between two threads.
pub(crate) fn ready(own: &'static Scheduler) -> HashSet<usize> {
    let mut ready = HashSet::new();
    own.outside().ready.each(|control| {
        ready.insert(std::ptr::from_ref(control).addr());
    });
    ready
}

/// The records of all threads that live on `own`. Called between two threads.
pub(crate) fn of_home(own: &'static Scheduler) -> Vec<ThreadRecord> {
    let ready = ready(own);
    let here = registry::all().filter(|control| control.home() == Some(own.number()));
    here.filter_map(|control| of_resident(own, control, ready.contains(&std::ptr::from_ref(control).addr())))
        .collect()
}

fn of_resident(own: &'static Scheduler, control: &'static Control, ready: bool) -> Option<ThreadRecord> {
    // SAFETY: the thread lives here, and no thread runs.
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
        // SAFETY: the context belongs to a thread that lives here, so it was entered before and is
        // paused.
        let found = unsafe { context.trace(&mut frames) };
        return frames[..found].into();
    }
    self_report::clear();
    // SAFETY: as above. It pauses again at once.
    unsafe { own.base().enter(context, Resume::Report) };
    self_report::take().into()
}

/// Writes down where the threads of `own` are: the one that was interrupted at `instruction`, and
/// those that are suspended. Called in a signal handler on this very kernel thread. The handler has
/// interrupted neither the scheduler nor a switch, since preemption was not held off.
pub(crate) fn interrupted(
    own: &'static Scheduler,
    instruction: usize,
    unwinder: Range<usize>,
    frames: &mut [usize],
    write: &mut impl FnMut(u64, &[usize]),
) {
    let Some(me) = own.current_if_any().or_else(|| own.outside().in_blocking_call.get()) else { return };
    let found = underpass_context::trace_interrupted(frames, unwinder);
    // The handler's own frames are above the interrupted one.
    if let Some(begin) = frames[..found].iter().position(|&ip| ip == instruction + 1) {
        write(me.id(), &frames[begin..found]);
    }
    if !Context::TRACES {
        return;
    }
    let others =
        registry::all().filter(|control| control.home() == Some(own.number()) && !std::ptr::eq(*control, me));
    for control in others {
        // SAFETY: the thread lives here, and this kernel thread does nothing else meanwhile. What
        // was interrupted is not the scheduler.
        if let Some(context) = unsafe { control.context.get() }.as_deref() {
            // SAFETY: the context belongs to a thread that lives here, so it was entered before and
            // is paused.
            let found = unsafe { context.trace(frames) };
            write(control.id(), &frames[..found]);
        }
    }
}
