//! Pinning the processes of a domain to CPUs, and giving all of that back.

use std::collections::{HashMap, HashSet};
use underpass_os::process_table::threads_of;
use underpass_os::{cpu, niceness};

/// The niceness of a domain that has no processor. Hardly any program chooses it itself.
const WAITING: i32 = 18;

/// How the processes of one domain are pinned.
#[derive(Debug)]
pub(crate) struct ProcessPins {
    /// The CPUs of the beginning, and of the end.
    base: Vec<usize>,
    /// The niceness of the beginning.
    base_niceness: i32,
    /// Those in force.
    cpus: Vec<usize>,
    /// All that were in force at some time.
    earlier: HashSet<Vec<usize>>,
    /// Any affinity within `base` may be one of an earlier server.
    follows_another: bool,
    /// Whether the domain has no processor.
    is_waiting: bool,
    may_change_niceness: bool,
    /// The niceness that kernel threads had before.
    niceness: HashMap<u32, i32>,
}

impl ProcessPins {
    /// Of a domain whose processes have the affinity and the niceness of `model`.
    pub(crate) fn new(model: u32, follows_another: bool) -> Self {
        let base = cpu::allowed_to(model).or_else(|_| cpu::allowed()).unwrap_or_default();
        let base_niceness = niceness::of(model).unwrap_or(0);
        Self {
            cpus: base.clone(),
            base,
            base_niceness,
            earlier: HashSet::new(),
            follows_another,
            is_waiting: false,
            may_change_niceness: base_niceness < WAITING && niceness::may_lower_to(base_niceness),
            niceness: HashMap::new(),
        }
    }

    /// The CPUs that it may be pinned to.
    pub(crate) fn base(&self) -> &[usize] {
        &self.base
    }

    /// The CPUs that it is pinned to.
    pub(crate) fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// From now on it has these CPUs. Without a processor, it waits on them. The caller then pins
    /// the processes.
    pub(crate) fn set(&mut self, cpus: Vec<usize>, is_waiting: bool) {
        let before = std::mem::replace(&mut self.cpus, cpus);
        self.earlier.insert(before);
        self.is_waiting = is_waiting;
    }

    /// Pins all threads of the process.
    pub(crate) fn pin(&mut self, pid: u32) {
        threads_of(pid).into_iter().for_each(|thread| self.pin_thread(thread));
    }

    fn is_of_this_server(&self, cpus: &Vec<usize>) -> bool {
        *cpus == self.base
            || self.earlier.contains(cpus)
            || self.follows_another && cpus.iter().all(|cpu| self.base.contains(cpu))
    }

    fn pin_thread(&mut self, thread: u32) {
        // A thread that ends meanwhile needs nothing.
        let Ok(now) = cpu::allowed_to(thread) else { return };
        if now != self.cpus && self.is_of_this_server(&now) {
            let _ = cpu::confine_thread(thread, &self.cpus);
        }
        if self.may_change_niceness {
            self.change_niceness(thread);
        }
    }

    fn change_niceness(&mut self, thread: u32) {
        let Ok(now) = niceness::of(thread) else { return };
        if self.is_waiting {
            if now < WAITING && niceness::set(thread, WAITING).is_ok() {
                self.niceness.insert(thread, now);
            }
        } else if now == WAITING {
            // One that has begun since has its parent's.
            let before = self.niceness.remove(&thread).unwrap_or(self.base_niceness);
            let _ = niceness::set(thread, before);
        }
    }

    /// Forgets what it knows of threads that have ended: it knows more of them than `threads`.
    pub(crate) fn forget_ended(&mut self, threads: usize) {
        if self.niceness.len() > 2 * threads + 64 {
            self.niceness.retain(|&thread, _| niceness::of(thread).is_ok());
        }
    }

    /// The process is of another domain from now on, and has what it had at the beginning.
    pub(crate) fn leave(&mut self, pid: u32) {
        let (cpus, is_waiting) = (self.cpus.clone(), self.is_waiting);
        self.set(self.base.clone(), false);
        self.pin(pid);
        self.set(cpus, is_waiting);
    }

    /// Gives the processes everything back.
    pub(crate) fn release(&mut self, pids: impl IntoIterator<Item = u32>) {
        self.set(self.base.clone(), false);
        pids.into_iter().for_each(|pid| self.pin(pid));
    }
}
