//! Dumps: what all threads do at this moment, for people.
//!
//! Each activation reports on its own threads, between two of them (`report.rs`). An activation is
//! unresponsive if a thread of it computes or is in a blocking call. Of its threads, and of threads
//! without a home, anybody can read the control blocks: these are never freed. A record is thrown
//! away if its block stands for another thread at the end.

use crate::block::control::{Control, flag};
use crate::block::registry;
use crate::block::suspension::Awaited;
use crate::block::thread_id::ThreadId;
use crate::diagnose::deadlock_search::{self, Deadlock};
use crate::diagnose::interrupt;
use crate::diagnose::monitor_findings::MonitorFindings;
use crate::diagnose::query;
use crate::diagnose::report::{self, State, ThreadRecord};
use crate::diagnose::show::{HeldThing, ThreadLabel};
use crate::diagnose::std_guards::{self, HeldUp};
use crate::diagnose::trace::{Trace, Traces};
use crate::sched::activations;
use crate::sched::scheduler;
use crate::wait::kernel_threads::{self, KernelThread};
use crate::wait::latch::Latch;
use crate::wait::me;
use crate::wait::wait_on::wait_for;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use underpass_os::clock::now_ns;

/// One thread in a [`Dump`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadReport {
    /// Its number.
    pub id: ThreadId,
    /// Its name, if it has one.
    pub name: Option<Box<str>>,
    /// What it does.
    pub state: State,
    /// It belongs to the runtime, and serves incoming calls.
    pub takes_calls: bool,
    /// The activation on which it lives, if it has started.
    pub activation: Option<usize>,
    /// The kernel's number for it, if it is a plain kernel thread.
    pub kernel: Option<i32>,
    /// What it waits for, if it is blocked.
    pub awaited: Option<Awaited>,
    /// The name of the thread that holds what it waits for, if that has one.
    pub holder_name: Option<Box<str>>,
    /// For how long it has been blocked. Accurate to about 10 ms; less accurate while there is
    /// little to do.
    pub blocked_for: Option<Duration>,
    /// How often the monitor found that it didn't give way.
    pub findings: MonitorFindings,
    /// Where it is. Empty if it has not started, if it holds off preemption, and for kernel threads
    /// other than the caller.
    pub trace: Trace,
}

/// What all threads of this domain do. Written with `{}` for people. See [`dump`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dump {
    /// All user-level threads, and the kernel threads that use the package.
    pub threads: Vec<ThreadReport>,
    /// Activations that did not answer: a thread runs there, or is in a blocking call, or they lack
    /// a processor.
    pub unresponsive: Vec<usize>,
    /// Threads that wait for each other, for ever.
    pub deadlocks: Vec<Deadlock>,
    /// Activations that are blocked because a suspended thread seems to hold a lock of `std`.
    pub held_up: Vec<HeldUp>,
}

/// Reports what every user-level thread does at this moment, and every kernel thread that uses the
/// package. For people.
///
/// It neither crashes nor hangs, whatever the threads do. An activation on which a thread computes,
/// or blocks in the kernel, has 100 ms to answer. Then a signal (`SIGRTMIN + 8`) makes it write
/// down where it is: system calls that signals interrupt return early there. A dump costs a few
/// microseconds for each thread.
///
/// # Examples
/// ```
/// use underpass::thread;
///
/// let thread = thread::Builder::new().name("waiter").spawn(thread::park)?;
/// while !thread::dump().to_string().contains("'waiter'") {}
/// thread.thread().unpark();
/// thread.join().unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn dump() -> Dump {
    let (me, trace) = (me::control(), Trace::here());
    let id = me.id();
    let mut dump = off_activation(collect);
    if let Some(caller) = dump.threads.iter_mut().find(|thread| thread.id.0 == id) {
        // It is blocked only for the dump itself.
        let (state, awaited, blocked_for) = (State::Running, None, None);
        *caller = ThreadReport { state, awaited, blocked_for, trace, holder_name: None, ..caller.clone() };
    }
    dump
}

/// Threads that wait for each other's locks or ends in a cycle, and so will never go on.
///
/// Only waits without a deadline for something that names its holder (mutexes, write locks, joins)
/// can form such a cycle. Each deadlock is also reported once on the standard error output, soon
/// after it came about.
///
/// # Examples
/// ```
/// assert!(underpass::thread::deadlocks().is_empty());
/// ```
pub fn deadlocks() -> Vec<Deadlock> {
    off_activation(|| deadlock_search::search().0)
}

/// Runs `look` on a kernel thread that no activation needs, so that all activations can answer.
fn off_activation<T: Send + 'static>(look: fn() -> T) -> T {
    if scheduler::running().is_none() {
        return look();
    }
    let done = Arc::new((Latch::default(), Mutex::new(None)));
    let shared = done.clone();
    let helper = std::thread::Builder::new().name("underpass-dump".into()).spawn(move || {
        let looked = look();
        *shared.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(looked);
        shared.0.open();
    });
    if helper.is_err() {
        // The caller's own activation will not answer.
        return look();
    }
    wait_for(&done.0);
    let looked = done.1.lock().unwrap_or_else(PoisonError::into_inner).take();
    looked.expect("the helper looks before it opens the latch")
}

pub(crate) fn collect() -> Dump {
    let (mut records, unresponsive) = of_homes();
    let known: HashSet<u64> = records.iter().map(|record| record.id).collect();
    // A signal makes those that don't answer write down their frames.
    let mut frames: HashMap<_, _> =
        unresponsive.iter().flat_map(|&number| interrupt::look(activations::at(number))).collect();
    let others =
        registry::all().filter(|control| !control.has(flag::KERNEL) && !known.contains(&control.id()));
    records.extend(others.filter_map(|control| {
        let mut record = ThreadRecord::of(control, || from_afar(control, &unresponsive))?;
        record.frames = frames.remove(&record.id).unwrap_or_default();
        Some(record)
    }));
    let now = now_ns();
    let mut traces = Traces::default();
    let mut threads: Vec<_> =
        records.into_iter().map(|record| ThreadReport::of(record, now, &mut traces)).collect();
    let kernels = kernel_threads::all();
    threads.extend(kernels.iter().filter_map(|kernel| of_kernel(kernel, now, &mut traces)));
    threads.sort_by_key(|thread| (thread.kernel.is_some(), thread.id.0 as u32));
    let names: HashMap<u64, Box<str>> =
        threads.iter().filter_map(|thread| Some((thread.id.0, thread.name.clone()?))).collect();
    for thread in &mut threads {
        let holder = thread.awaited.and_then(|awaited| awaited.holder);
        thread.holder_name = holder.and_then(|holder| names.get(&holder).cloned());
    }
    let held_up = std_guards::look_at(&unresponsive);
    Dump { threads, unresponsive, deadlocks: deadlock_search::search().0, held_up }
}

/// What the homes report of their threads, and which activations don't answer. During the wait for
/// those, threads may come to other activations after these have reported. In that case all are
/// asked once more.
fn of_homes() -> (Vec<ThreadRecord>, Vec<usize>) {
    let (mut records, mut known) = (Vec::<ThreadRecord>::new(), HashSet::new());
    let mut ask = || {
        let (answers, unresponsive) = query::all(report::of_home);
        let all = answers.into_iter().flat_map(|(_, records)| records);
        records.extend(all.filter(|record| known.insert(record.id)));
        let overlooked = registry::all()
            .filter(|control| control.home().is_some_and(|home| !unresponsive.contains(&home)))
            .any(|control| !known.contains(&control.id()));
        (unresponsive, overlooked)
    };
    let (mut unresponsive, overlooked) = ask();
    if overlooked && !unresponsive.is_empty() {
        (unresponsive, _) = ask();
    }
    (records, unresponsive)
}

/// The apparent state of a thread of which no home has reported.
fn from_afar(control: &'static Control, unresponsive: &[usize]) -> State {
    let Some(home) = control.home() else {
        return match control.is_free() {
            true => State::Ready,
            false if control.has_ended() => State::Ended,
            false => State::Unstarted,
        };
    };
    let outside = activations::at(home);
    let is = |slot: Option<&Control>| slot.is_some_and(|other| std::ptr::eq(other, control));
    if is(outside.current.get()) {
        State::Running
    } else if is(outside.in_blocking_call.get()) {
        State::InCall
    } else if unresponsive.contains(&home) {
        State::HeldUp
    } else {
        // It came there after the report.
        State::Ready
    }
}

fn of_kernel(kernel: &KernelThread, now: u64, traces: &mut Traces) -> Option<ThreadReport> {
    let seen = kernel.look(0);
    let state = if seen.is_some() { State::Blocked } else { State::Running };
    let mut record = ThreadRecord::of(kernel.control, || state)?;
    record.awaited = seen.as_ref().map(|seen| seen.awaited);
    record.since_ns = seen.map(|seen| seen.since_ns);
    Some(ThreadReport { kernel: Some(kernel.tid.as_raw()), ..ThreadReport::of(record, now, traces) })
}

impl ThreadReport {
    fn of(record: ThreadRecord, now: u64, traces: &mut Traces) -> Self {
        Self {
            id: ThreadId(record.id),
            name: record.name,
            state: record.state,
            takes_calls: record.serves,
            activation: record.home,
            kernel: None,
            awaited: record.awaited,
            holder_name: None,
            blocked_for: record.since_ns.map(|since| Duration::from_nanos(now.saturating_sub(since))),
            findings: record.findings,
            trace: traces.of(record.frames),
        }
    }

    fn named(&self) -> ThreadLabel<'_> {
        ThreadLabel { id: self.id, name: self.name.as_deref() }
    }
}

impl fmt::Display for ThreadReport {
    /// Writes one line, without the trace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kernel {
            Some(number) => write!(f, "kernel thread {number} {}", self.named())?,
            None => write!(f, "thread {}", self.named())?,
        }
        if let Some(activation) = self.activation {
            write!(f, " on activation {activation}")?;
        }
        let state = match self.state {
            State::Unstarted => "not started",
            State::Ready => "ready",
            State::Running => "running",
            State::Blocked => "blocked",
            State::InCall => "in a blocking call",
            State::HeldUp => "held up by another",
            State::Ended => "ended, not joined",
        };
        write!(f, ": {state}")?;
        if let Some(span) = self.blocked_for {
            write!(f, " for {:.2} s", span.as_secs_f64())?;
        }
        if self.takes_calls {
            f.write_str(", takes calls")?;
        }
        if let Some(awaited) = self.awaited {
            let holder =
                awaited.holder.map(|id| ThreadLabel { id: ThreadId(id), name: self.holder_name.as_deref() });
            write!(f, ", waits for {}", HeldThing { awaited, holder })?;
        }
        let MonitorFindings { blocking, computing } = self.findings;
        if blocking + computing > 0 {
            write!(f, "; the monitor found it blocking {blocking} times, computing {computing} times")?;
        }
        Ok(())
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kernel, user): (Vec<_>, Vec<_>) =
            self.threads.iter().partition(|thread| thread.kernel.is_some());
        writeln!(f, "underpass: {} threads, and {} kernel threads beside them", user.len(), kernel.len())?;
        let mut shown: HashMap<&Trace, ThreadId> = HashMap::new();
        for thread in &self.threads {
            writeln!(f, "{thread}")?;
            match shown.get(&thread.trace) {
                Some(first) => writeln!(f, "      where {first} is")?,
                None if !thread.trace.is_empty() => {
                    shown.insert(&thread.trace, thread.id);
                    write!(f, "{}", thread.trace)?;
                }
                None => {}
            }
        }
        for number in &self.unresponsive {
            writeln!(f, "activation {number} does not answer")?;
        }
        self.held_up.iter().try_for_each(|held_up| writeln!(f, "{held_up}"))?;
        self.deadlocks.iter().try_for_each(|deadlock| writeln!(f, "{deadlock}"))
    }
}
