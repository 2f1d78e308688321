//! Starting this domain's activations, and the upcalls from processors to threads.

use crate::block::coarse_clock;
use crate::diagnose::{deadlock_watch, debugger_table, monitor_findings, stack_overflow};
use crate::sched::activations::{self, if_begun};
use crate::sched::scheduler::Scheduler;
use crate::sched::stealing;
use crate::serve::blocked_watch;
use std::sync::atomic::Ordering;
use underpass_processor::{Activation, Pool, Upcall};

struct Threads;

impl Upcall for Threads {
    fn activate(&'static self, activation: &'static Activation) {
        let outside = activations::begin(activation);
        debugger_table::begun(activation.number(), outside);
        let _stack = stack_overflow::begin();
        Scheduler::of(outside).run();
    }

    fn unstarted(&self) -> bool {
        stealing::any()
    }

    fn unstarted_count(&self) -> u32 {
        stealing::count()
    }

    fn takes(&self, activation: &Activation) -> bool {
        if_begun(activation.number()).is_none_or(stealing::suits)
    }

    fn serves(&self, activation: &Activation) -> bool {
        // Relaxed: a hint.
        if_begun(activation.number()).is_none_or(|outside| !outside.dedicated.load(Ordering::Relaxed))
    }

    fn ready(&self, activation: &Activation) -> bool {
        if_begun(activation.number())
            .is_some_and(|outside| !outside.ready.is_empty() || outside.has_remote_work())
    }

    fn found_blocking(&self, activation: &Activation) {
        monitor_findings::blocking(activation);
        blocked_watch::changed();
    }

    fn ended_blocking(&self) {
        blocked_watch::changed();
    }

    fn settled(&self) -> bool {
        blocked_watch::settled()
    }

    fn found_computing(&self, activation: &Activation) {
        monitor_findings::computing(activation);
    }

    fn tick(&self) {
        coarse_clock::set();
    }
}

/// Starts this domain's activations, if that was not done yet.
#[inline]
pub fn start() -> &'static Pool {
    Pool::get().unwrap_or_else(start_now)
}

#[cold]
fn start_now() -> &'static Pool {
    if !Pool::started() {
        coarse_clock::set_once();
        stack_overflow::watch();
        deadlock_watch::begin();
    }
    Pool::share_by(underpass_node::client());
    Pool::start(&Threads)
}
