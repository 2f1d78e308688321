//! User-level threads: FastThreads' part of URPC.
//!
//! *Decides:* what a thread is ([`Control`]), how one is started ([`spawn`]), which runs next, how one waits and is told to
//! go on ([`wait_on`], [`Control::go_on`]), and what an activation does when none can run.
//!
//! *Must not know:* channels. What an idle activation looks at is a [`Line`](underpass_processor::Line).
//!
//! A thread that has started stays on its activation, so `thread_local!`, `Rc` and guards across a blocking call are
//! as sound as with kernel threads; only threads that have not started yet are stolen. Plain kernel threads may use
//! everything here too: they sleep in the kernel.
//!
//! *Read first:* `control.rs`, then `scheduler.rs`.
#![forbid(unsafe_code)]

mod builder;
mod control;
mod current;
mod dispatcher;
mod handle;
mod latch;
mod outside;
mod scheduler;
mod seats;
mod suspend;
mod timers;
mod wait;

pub use builder::{Builder, spawn};
pub use control::Control;
pub use current::{current, on_user_thread, sleep, yield_now};
pub use handle::{JoinHandle, Thread, panic_message};
pub use latch::Latch;
pub use outside::{rouse, rouse_all, start};
pub use suspend::{Awaited, Critical, Wait, Woken, cancelled, critical, me, panicking, suspend};
pub use wait::wait_on;
