//! Threads as a program sees them, and models of their protocols.

#[cfg(not(underpass_loom))]
mod attack_ends;
#[cfg(not(underpass_loom))]
mod attack_migrating;
#[cfg(not(underpass_loom))]
mod attack_starvation;
#[cfg(not(underpass_loom))]
mod cancel;
#[cfg(not(underpass_loom))]
mod common;
#[cfg(not(underpass_loom))]
mod divide;
#[cfg(not(underpass_loom))]
mod dump;
#[cfg(not(underpass_loom))]
mod edges;
#[cfg(not(underpass_loom))]
mod fair;
#[cfg(not(underpass_loom))]
mod fairness;
#[cfg(not(underpass_loom))]
mod gdb;
#[cfg(not(underpass_loom))]
mod guards;
#[cfg(not(underpass_loom))]
mod held;
#[cfg(not(underpass_loom))]
mod hogs;
#[cfg(not(underpass_loom))]
mod hooks;
#[cfg(not(underpass_loom))]
mod injected;
#[cfg(not(underpass_loom))]
mod invariant;
#[cfg(not(underpass_loom))]
mod loans;
#[cfg(underpass_loom)]
mod loom;
#[cfg(not(underpass_loom))]
mod moments;
#[cfg(not(underpass_loom))]
mod overflow;
#[cfg(not(underpass_loom))]
mod perf;
#[cfg(not(underpass_loom))]
mod pinned;
#[cfg(not(underpass_loom))]
mod preempted;
#[cfg(not(underpass_loom))]
mod quit;
#[cfg(not(underpass_loom))]
mod reclaimed;
#[cfg(not(underpass_loom))]
mod scale;
#[cfg(not(underpass_loom))]
mod schedules;
#[cfg(not(underpass_loom))]
mod scoped_locals;
#[cfg(not(underpass_loom))]
mod stacks;
#[cfg(not(underpass_loom))]
mod threads;
#[cfg(not(underpass_loom))]
mod unwinding;
