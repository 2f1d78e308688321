//! User-level threads: FastThreads' part of URPC, and OThreads.
//!
//! *Decides:* what a thread is ([`Control`]), how one is started ([`spawn`]), which runs next, how
//! one is suspended and woken ([`suspend()`], [`Control::wake`]), and what an activation does when
//! none can run.
//!
//! *Must not know:* channels. What an idle activation looks at is a
//! [`Line`](underpass_processor::Line).
//!
//! A thread that has started stays on its activation, so a reference to a `std::thread_local!`, an
//! `Rc` and a guard stay on their kernel thread across a wait. Only threads that have not started
//! yet are stolen, and those that were made [`migrating`](Builder::migrating). One thing is not as
//! with kernel threads: the threads of an activation interleave on one kernel thread, which the
//! crate `scoped-tls` does not expect ([`thread_local!`](crate::thread_local) has the remedy).
//! Plain kernel threads may use everything here too: they sleep in the kernel.
//!
//! *Read first:* `control.rs`, then `suspend.rs`, then `scheduler.rs`.

#[cfg(not(underpass_loom))]
mod ask;
#[cfg(not(underpass_loom))]
mod blocked;
#[cfg(not(underpass_loom))]
mod blocking;
#[cfg(not(underpass_loom))]
mod body;
#[cfg(not(underpass_loom))]
mod builder;
#[cfg(not(underpass_loom))]
mod calls;
#[cfg(not(underpass_loom))]
mod carrier;
#[cfg(not(underpass_loom))]
mod circles;
#[cfg(not(underpass_loom))]
mod control;
#[cfg(not(underpass_loom))]
mod current;
#[cfg(not(underpass_loom))]
mod deadlock;
#[cfg(not(underpass_loom))]
mod debugger;
#[cfg(not(underpass_loom))]
mod dispatcher;
#[cfg(not(underpass_loom))]
mod dump;
#[cfg(not(underpass_loom))]
mod estacks;
#[cfg(not(underpass_loom))]
mod findings;
#[cfg(not(underpass_loom))]
mod free;
#[cfg(not(underpass_loom))]
mod guards;
#[cfg(not(underpass_loom))]
mod handle;
#[cfg(not(underpass_loom))]
mod hold;
#[cfg(not(underpass_loom))]
mod hooks;
#[cfg(not(underpass_loom))]
mod idle;
#[cfg(not(underpass_loom))]
mod interrupt;
#[cfg(not(underpass_loom))]
mod kept;
#[cfg(not(underpass_loom))]
mod kernel;
#[cfg(not(underpass_loom))]
mod latch;
#[cfg(not(underpass_loom))]
mod listener;
#[cfg(not(underpass_loom))]
mod local;
#[cfg(not(underpass_loom))]
mod mailbox;
#[cfg(not(underpass_loom))]
mod outside;
#[cfg(not(underpass_loom))]
mod overflow;
#[cfg(not(underpass_loom))]
mod owned;
#[cfg(not(underpass_loom))]
mod panicking;
#[cfg(not(underpass_loom))]
mod quit;
#[cfg(not(underpass_loom))]
mod ready;
#[cfg(not(underpass_loom))]
mod registry;
#[cfg(not(underpass_loom))]
mod report;
#[cfg(not(underpass_loom))]
mod ring;
#[cfg(not(underpass_loom))]
mod scheduler;
#[cfg(not(underpass_loom))]
mod scope;
#[cfg(not(underpass_loom))]
mod served;
#[cfg(not(underpass_loom))]
mod show;
#[cfg(not(underpass_loom))]
mod spare;
#[cfg(not(underpass_loom))]
mod stacks;
#[cfg(not(underpass_loom))]
mod surplus;
#[cfg(not(underpass_loom))]
mod suspend;
#[cfg(not(underpass_loom))]
mod switching;
#[cfg(not(underpass_loom))]
mod tick;
#[cfg(not(underpass_loom))]
mod timers;
#[cfg(not(underpass_loom))]
mod trace;
#[cfg(not(underpass_loom))]
mod wait;
#[cfg(not(underpass_loom))]
mod wakes;

/// The protocol apart from threads, for its models.
#[cfg(underpass_loom)]
pub mod mailbox;
/// The links of lists, for the models.
#[cfg(underpass_loom)]
pub mod ready;
/// The protocol apart from threads, for its models.
#[cfg(underpass_loom)]
pub mod ring;

#[cfg(not(underpass_loom))]
pub use blocked::{Watcher, blocked, watch_blocked};
#[cfg(not(underpass_loom))]
pub use blocking::{blocking, blocking_here};
#[cfg(not(underpass_loom))]
pub use builder::{Builder, spawn};
#[cfg(not(underpass_loom))]
pub use calls::{apart, calls_end, calls_may_end, finish, let_calls_end, unwanted};
#[cfg(not(underpass_loom))]
pub use carrier::trim;
#[cfg(not(underpass_loom))]
pub use circles::{Deadlock, Deadlocked};
#[cfg(not(underpass_loom))]
pub use control::Control;
#[cfg(not(underpass_loom))]
pub use current::{cancelled, checkpoint, current, on_user_thread, sleep, yield_now};
#[cfg(not(underpass_loom))]
pub use dispatcher::SHARE;
#[cfg(not(underpass_loom))]
pub use dump::{Dump, ThreadReport, deadlocks, dump};
#[cfg(not(underpass_loom))]
pub use estacks::{EStacks, bound_e_stacks, e_stacks, e_stacks_within, provide_e_stacks, short_of_e_stacks};
#[cfg(not(underpass_loom))]
pub use findings::Found;
#[cfg(not(underpass_loom))]
pub use guards::HeldUp;
#[cfg(not(underpass_loom))]
pub use handle::{JoinHandle, Thread, ThreadId, panic_message, park, park_timeout};
#[cfg(not(underpass_loom))]
pub use hold::{Brief, Critical, NoPreempt, brief, critical, no_preempt};
#[cfg(not(underpass_loom))]
pub use hooks::{Switches, current_id, watch_switches};
#[cfg(not(underpass_loom))]
pub use latch::Latch;
#[cfg(not(underpass_loom))]
pub use local::{AccessError, LocalKey};
#[cfg(not(underpass_loom))]
pub use outside::{invite, invite_or_check, start, wake_all_idle, wake_idle};
#[cfg(not(underpass_loom))]
pub use panicking::panicking;
#[cfg(not(underpass_loom))]
pub use quit::dump_on_quit;
#[cfg(not(underpass_loom))]
pub use report::State;
#[cfg(not(underpass_loom))]
pub use scope::{Scope, ScopedJoinHandle, scope};
#[cfg(not(underpass_loom))]
pub use served::served;
#[cfg(not(underpass_loom))]
pub use stacks::{stack_bounds, with_stack};
#[cfg(not(underpass_loom))]
pub use suspend::{Awaited, Wait, Woken, me, suspend};
#[cfg(not(underpass_loom))]
pub use trace::Trace;
#[cfg(not(underpass_loom))]
pub use wait::{InTurn, Opens, alone, force, lent_by, wait_on, wait_registered};
#[cfg(not(underpass_loom))]
pub use wakes::Wakes;
