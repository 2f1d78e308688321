//! The search for deadlocks: threads that wait for each other in a cycle.
//!
//! A note of which thread waits for which is old when it is read. So the search asks the homes of
//! all waiting threads, in two rounds.
//!
//! 1. The first round marks each suspension and reads what it waits for.
//! 2. The second round does the same again. A cycle counts if every suspension in it still has its
//!    mark, and every holder is the same.
//! 3. A mark belongs to one suspension. So no thread of the cycle has run between the two rounds,
//!    and the cycle existed then.
//! 4. Neither deadlines nor cancellations end these waits. So no thread of the cycle will ever run
//!    again.
//!
//! So there are no false alarms.

use crate::block::control::Control;
use crate::block::registry;
use crate::block::suspension::Awaited;
use crate::block::thread_id::ThreadId;
use crate::diagnose::query;
use crate::diagnose::report;
use crate::diagnose::show::{HeldThing, ThreadLabel};
use crate::sched::scheduler::Scheduler;
use crate::wait::kernel_threads::{self, KernelThread};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A thread's wait for something that another thread holds.
struct Edge {
    from: u64,
    awaited: Awaited,
    holder: u64,
    /// The first round of this search has marked it.
    marked: bool,
}

impl Edge {
    fn of(control: &Control, awaited: Awaited, marked: bool) -> Option<Self> {
        Some(Self { from: control.id(), awaited, holder: awaited.holder?, marked })
    }
}

/// All waits on one activation for something that another thread holds, if nothing ends them early.
/// Called between two threads.
fn of_home(own: &'static Scheduler, mark: u32) -> Vec<Edge> {
    let ready = report::ready(own);
    let waits = |control: &&'static Control| {
        control.home() == Some(own.number())
            && control.waits_for.load(Ordering::Relaxed) != 0
            && !ready.contains(&std::ptr::from_ref(*control).addr())
    };
    let edge = |control: &'static Control| {
        // SAFETY: the thread lives here (see `report.rs`), and no thread runs.
        let (awaited, marked) = unsafe { control.mark(mark) }?;
        Edge::of(control, awaited, marked == mark)
    };
    registry::all().filter(waits).filter_map(edge).collect()
}

fn of_kernel(kernel: &KernelThread, mark: u32) -> Option<Edge> {
    let seen = kernel.look(mark).filter(|seen| seen.for_good)?;
    Edge::of(kernel.control, seen.awaited, seen.marked == mark)
}

/// One round: all edges by the thread that waits, and whether an activation was unresponsive.
fn round(mark: u32) -> (HashMap<u64, Edge>, bool) {
    let (answers, unresponsive) = query::all(move |own| of_home(own, mark));
    let kernels = kernel_threads::all();
    let of_kernels = kernels.iter().filter_map(|kernel: &Arc<KernelThread>| of_kernel(kernel, mark));
    let edges = answers.into_iter().flat_map(|(_, edges)| edges).chain(of_kernels);
    (edges.map(|edge| (edge.from, edge)).collect(), !unresponsive.is_empty())
}

/// The cycles among the edges, each once, as the numbers of its threads.
fn cycles(edges: &HashMap<u64, Edge>) -> Vec<Vec<u64>> {
    let mut seen = HashSet::new();
    let mut cycles = Vec::new();
    for &start in edges.keys() {
        let mut path = Vec::new();
        let mut at = start;
        while let Some(edge) = edges.get(&at).filter(|_| seen.insert(at)) {
            path.push(at);
            at = edge.holder;
        }
        if let Some(begin) = path.iter().position(|&id| id == at) {
            let cycle = &mut path[begin..];
            // A cycle begins with its lowest number, wherever the search entered it.
            let lowest = cycle.iter().enumerate().min_by_key(|&(_, id)| id).map_or(0, |(place, _)| place);
            cycle.rotate_left(lowest);
            cycles.push(cycle.to_vec());
        }
    }
    cycles.sort();
    cycles
}

/// All deadlocks, and whether there may be more because activations were unresponsive. Not to be
/// called on an activation.
pub(crate) fn search() -> (Vec<Deadlock>, bool) {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    // One search at a time, so that marks are not overwritten.
    static SEARCH: Mutex<()> = Mutex::new(());
    // Relaxed: a hint. A wait that was noted before this call is seen.
    let waiting = registry::all().filter(|control| control.waits_for.load(Ordering::Relaxed) != 0);
    if waiting.take(1).count() == 0 {
        return (Vec::new(), false);
    }
    let _searching = SEARCH.lock().unwrap_or_else(PoisonError::into_inner);
    // Relaxed: under the lock. Zero marks nothing.
    let mark = NUMBER.fetch_add(1, Ordering::Relaxed).max(1);
    let (first, unresponsive) = round(mark);
    let cycles = cycles(&first);
    if cycles.is_empty() {
        return (Vec::new(), unresponsive);
    }
    let (second, _) = round(mark);
    let stands = |id: &u64| second.get(id).is_some_and(|edge| edge.marked && edge.holder == first[id].holder);
    let (stand, fall): (Vec<_>, Vec<_>) = cycles.into_iter().partition(|cycle| cycle.iter().all(stands));
    let deadlocks = stand.iter().map(|cycle| Deadlock::of(cycle, &second)).collect();
    (deadlocks, unresponsive || !fall.is_empty())
}

/// Threads that wait for each other in a cycle. None of them will ever go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Each waits for something that the next one holds, and the last for something that the first
    /// one holds.
    pub threads: Vec<Deadlocked>,
}

/// One thread of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlocked {
    /// Its number.
    pub id: ThreadId,
    /// Its name, if it has one.
    pub name: Option<Box<str>>,
    /// What it waits for.
    pub awaited: Awaited,
}

impl Deadlock {
    fn of(cycle: &[u64], edges: &HashMap<u64, Edge>) -> Self {
        let thread = |id: &u64| Deadlocked {
            id: ThreadId(*id),
            name: registry::find(*id).and_then(Control::try_name),
            awaited: edges[id].awaited,
        };
        Self { threads: cycle.iter().map(thread).collect() }
    }

    /// The same key for the same cycle.
    pub(crate) fn key(&self) -> Vec<ThreadId> {
        self.threads.iter().map(|thread| thread.id).collect()
    }
}

impl Deadlocked {
    fn name(&self) -> ThreadLabel<'_> {
        ThreadLabel { id: self.id, name: self.name.as_deref() }
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadlock: ")?;
        for (place, thread) in self.threads.iter().enumerate() {
            let holder = &self.threads[(place + 1) % self.threads.len()];
            let begin = if place == 0 { format!("thread {}", thread.name()) } else { ", which".to_string() };
            write!(
                f,
                "{begin} waits for {}",
                HeldThing { awaited: thread.awaited, holder: Some(holder.name()) }
            )?;
        }
        Ok(())
    }
}
