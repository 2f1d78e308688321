//! User-level threads: FastThreads' part of URPC, and OThreads.
//!
//! *Decides:* what a thread is ([`Control`]), how one is started ([`spawn`]), which runs next, how one is suspended and woken
//! ([`suspend()`], [`Control::wake`]), and what an activation does when none can run.
//!
//! *Must not know:* channels. What an idle activation looks at is a [`Line`](underpass_processor::Line).
//!
//! A thread that has started stays on its activation, so `thread_local!`, `Rc` and guards across a blocking call are
//! as sound as with kernel threads; only threads that have not started yet are stolen, and those that were made
//! [`migrating`](Builder::migrating). Plain kernel threads may use everything here too: they sleep in the kernel.
//!
//! *Read first:* `control.rs`, then `suspend.rs`, then `scheduler.rs`.

mod blocking;
mod body;
mod builder;
mod carrier;
mod control;
mod current;
mod deadlock;
mod dispatcher;
mod findings;
mod free;
mod handle;
mod hold;
mod hooks;
mod idle;
mod latch;
mod local;
mod mailbox;
mod outside;
mod owned;
mod panicking;
mod ready;
mod registry;
mod report;
mod ring;
mod scheduler;
mod scope;
mod spare;
mod suspend;
mod tick;
mod timers;
mod wait;

pub use blocking::blocking;
pub use builder::{Builder, spawn};
pub use control::Control;
pub use current::{cancelled, checkpoint, current, on_user_thread, sleep, yield_now};
pub use handle::{JoinHandle, Thread, ThreadId, panic_message, park, park_timeout};
pub use hold::{Critical, NoPreempt, critical, no_preempt};
pub use hooks::{Switches, current_id, watch_switches};
pub use latch::Latch;
pub use local::{AccessError, LocalKey};
pub use outside::{rouse, rouse_all, start};
pub use panicking::panicking;
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use suspend::{Awaited, Wait, Woken, me, suspend};
pub use wait::wait_on;
