//! Tasks that other crates inject: an activation runs each between two threads. Upcalls for the
//! interrupts of devices are such tasks (Raven, section 4.3).

use crate::sched::activations::{self, Outside};
use crate::sched::scheduler;
use crate::sched::switch_hooks::{self, Between};
use crate::thread::builder::spawn;

/// The number of the activation that runs the caller. `None` on a plain kernel thread.
pub fn activation() -> Option<usize> {
    scheduler::with(|own| own.number())
}

/// Whether the caller is a task that was [injected](inject), and so may not wait.
pub fn in_injected_task() -> bool {
    switch_hooks::runs_here() == Some(Between::Injected)
}

/// Has activation `near` run `task` between two threads: at its next scheduling point. If it
/// sleeps, it is woken. If it has ended, or can run no thread now, another activation runs the
/// task.
///
/// While the task runs, preemption is off, and all other threads of that activation wait. Nothing
/// in the task counts as a user-level thread. The task may take free locks, start threads and wake
/// them. If it waits or panics, the process ends with a message (`abort`).
///
/// A thread that computes delays the task until its next wait, `yield_now` or `checkpoint`, also
/// while it holds preemption off. If that may take too long, the caller injects a second task with
/// [`inject_anywhere`].
pub fn inject(near: Option<usize>, task: impl FnOnce() + Send + 'static) {
    let suitable = |outside: &&Outside| {
        !outside.activation.has_ended()
            && outside.activation.listens_on().is_none()
            && outside.in_blocking_call.is_clear()
    };
    let near =
        near.and_then(|number| activations::all().find(|outside| outside.activation.number() == number));
    match near.filter(suitable).or_else(|| activations::all().find(suitable)) {
        Some(outside) => put(outside, task),
        None => inject_anywhere(task),
    }
}

/// As [`inject`], on whichever activation first has a processor for it. If threads compute on all
/// of them, the time slice of one ends, and another activation gets its processor.
pub fn inject_anywhere(task: impl FnOnce() + Send + 'static) {
    // A thread that has not started goes wherever a processor is. Its activation runs the task as
    // soon as the thread has ended.
    drop(spawn(move || scheduler::with(|own| put(own.outside(), task))));
}

fn put(outside: &'static Outside, task: impl FnOnce() + Send + 'static) {
    outside.inject(Box::new(|own| switch_hooks::between_threads(own, Between::Injected, task)));
}
