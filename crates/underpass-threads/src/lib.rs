//! User-level threads: FastThreads' part of URPC, and OThreads.
//!
//! *Decides:* what a thread is ([`Control`]), how a thread is started ([`spawn`]), and which runs
//! next. It also decides how a thread is suspended and woken ([`suspend()`], [`Control::wake`]),
//! and what an activation does when none of its threads can run.
//!
//! *Must not know:* channels. What an idle activation polls is a
//! [`Line`](underpass_processor::Line).
//!
//! A thread that has started stays on its activation. So a reference to a `std::thread_local!`, an
//! `Rc` and a guard stay on their kernel thread across a wait. Only two kinds of threads move to
//! another activation: unstarted ones are stolen, and [`migrating`](Builder::migrating) ones may go
//! on elsewhere after each wait.
//!
//! One thing differs from kernel threads: the threads of an activation interleave on one kernel
//! thread. The crate `scoped-tls` does not expect that ([`thread_local!`](crate::thread_local) has
//! the remedy). Plain kernel threads may use everything here too: they sleep in the kernel.
//!
//! | folder | what is in it |
//! |---|---|
//! | `thread` | what a program uses: starting, joining and cancelling threads, blocking calls, thread-locals, stacks |
//! | `sched` | the scheduler of one activation: ready list, switching, stealing, idling, thread runners |
//! | `wait` | suspending the calling thread, latches, waiting for replies, what ends a wait |
//! | `serve` | serving incoming calls: the dispatcher, listeners, E-stacks |
//! | `diagnose` | dumps, deadlocks, stack overflows, the table for debuggers |
//! | `block` | control blocks and their fields |
//! | `lists` | lists of control blocks |
//!
//! *Read first:* `block/control.rs`, then `wait/suspend.rs`, then `sched/scheduler.rs`.

#[cfg(not(underpass_loom))]
mod block;
#[cfg(not(underpass_loom))]
mod diagnose;
#[cfg(not(underpass_loom))]
mod lists;
#[cfg(not(underpass_loom))]
mod sched;
#[cfg(not(underpass_loom))]
mod serve;
#[cfg(not(underpass_loom))]
mod start;
#[cfg(not(underpass_loom))]
mod thread;
#[cfg(not(underpass_loom))]
mod wait;

/// For the models.
#[cfg(underpass_loom)]
pub mod lists;

#[cfg(not(underpass_loom))]
pub use block::control::Control;
#[cfg(not(underpass_loom))]
pub use block::suspension::{Awaited, Wait, Woken};
#[cfg(not(underpass_loom))]
pub use block::thread_id::ThreadId;
#[cfg(not(underpass_loom))]
pub use diagnose::deadlock_search::{Deadlock, Deadlocked};
#[cfg(not(underpass_loom))]
pub use diagnose::dump::{Dump, ThreadReport, deadlocks, dump};
#[cfg(not(underpass_loom))]
pub use diagnose::dump_on_quit::dump_on_quit;
#[cfg(not(underpass_loom))]
pub use diagnose::monitor_findings::MonitorFindings;
#[cfg(not(underpass_loom))]
pub use diagnose::report::State;
#[cfg(not(underpass_loom))]
pub use diagnose::std_guards::HeldUp;
#[cfg(not(underpass_loom))]
pub use diagnose::trace::Trace;
#[cfg(not(underpass_loom))]
pub use sched::activations::{invite, invite_or_check, wake_all_idle, wake_idle};
#[cfg(not(underpass_loom))]
pub use sched::no_preempt::{BriefSection, CriticalSection, NoPreempt, brief, critical, no_preempt};
#[cfg(not(underpass_loom))]
pub use sched::panic_count::panicking;
#[cfg(not(underpass_loom))]
pub use sched::runner::trim;
#[cfg(not(underpass_loom))]
pub use sched::switch_hooks::{Switches, watch_switches};
#[cfg(not(underpass_loom))]
pub use serve::blocked_watch::{BlockedWatcher, blocked, watch_blocked};
#[cfg(not(underpass_loom))]
pub use serve::dispatcher::SHARE;
#[cfg(not(underpass_loom))]
pub use serve::estacks::{
    EStacks, bound_e_stacks, e_stack_size, e_stacks, e_stacks_within, provide_e_stacks, short_of_e_stacks,
};
#[cfg(not(underpass_loom))]
pub use serve::served_line::served;
#[cfg(not(underpass_loom))]
pub use start::start;
#[cfg(not(underpass_loom))]
pub use thread::blocking::{blocking, blocking_here, without_switches};
#[cfg(not(underpass_loom))]
pub use thread::builder::{Builder, spawn};
#[cfg(not(underpass_loom))]
pub use thread::current::{cancelled, checkpoint, current, current_id, on_user_thread, sleep, yield_now};
#[cfg(not(underpass_loom))]
pub use thread::handle::{JoinHandle, Thread, panic_message, park, park_timeout};
#[cfg(not(underpass_loom))]
pub use thread::inject::{activation, in_injected_task, inject, inject_anywhere};
#[cfg(not(underpass_loom))]
pub use thread::local::{AccessError, LocalKey};
#[cfg(not(underpass_loom))]
pub use thread::scope::{Scope, ScopedJoinHandle, scope};
#[cfg(not(underpass_loom))]
pub use thread::stack::{stack_bounds, with_stack};
#[cfg(not(underpass_loom))]
pub use wait::call_cancellation::{apart, calls_end, calls_may_end, finish, let_calls_end, unwanted};
#[cfg(not(underpass_loom))]
pub use wait::cancelled::Cancelled;
#[cfg(not(underpass_loom))]
pub use wait::latch::Latch;
#[cfg(not(underpass_loom))]
pub use wait::section::{
    AtWaits, SectionToken, in_section, outside_section, section_numbers, with_section_numbers,
};
#[cfg(not(underpass_loom))]
pub use wait::spin_for::WaitSpin;
#[cfg(not(underpass_loom))]
pub use wait::suspend::{me, suspend, suspend_as_call};
#[cfg(not(underpass_loom))]
pub use wait::wait_on::{BlocksAtOnce, Opens, alone, defers_wake_up, force, wait_on, wait_registered};
#[cfg(not(underpass_loom))]
pub use wait::wake_many::Wakes;
