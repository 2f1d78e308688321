//! User-level threads, with the names and shapes of [`std::thread`].
//!
//! A domain has as many *activations* as it may use processors. Each is a kernel thread that runs
//! one user-level thread after another. Starting a user-level thread allocates no memory, switching
//! is a jump, and a million of them may wait at once.
//!
//! # What is different from `std::thread`
//!
//! * A thread starts on whichever activation is free, and *stays* on it. So a reference to a
//!   `std::thread_local!`, an `Rc` and a guard of `std` stay on their kernel thread across a wait.
//! * All threads of an activation share a `std::thread_local!`.
//!   [`thread_local!`](crate::thread_local) makes a variable of each thread's own. A
//!   `std::thread_local!` that a library sets **for a scope** is not safe across a wait: the crate
//!   `scoped-tls` then reads memory that is gone. See [there](crate::thread_local#scoped-variables)
//!   for the remedy.
//! * A system call that blocks, blocks the activation. [`sync`](crate::sync) and [`io`](crate::io)
//!   make none. Put any other one into [`blocking`], or into [`blocking_here`] if it can't go to
//!   another kernel thread. If you forget that, a monitor finds out within milliseconds and makes
//!   another activation run, and [`dump`](dump()) names the thread.
//! * A thread has a stack of 256 KiB ([`Builder::stack_size`] changes it), and an incoming call has
//!   2 MiB ([`Service::stack_size`](crate::Service::stack_size)). Run deeper recursion by
//!   [`with_stack`].
//! * A thread that computes is preempted when its time slice is over, in favour of threads that
//!   have not started and of other activations. Started threads of its own activation wait until it
//!   yields. In long computations call [`checkpoint`], or give the thread an activation of its own
//!   by [`Builder::dedicated`].
//! * A thread can be asked to end: [`Thread::cancel`]. Sleeping, parking, waiting for conditions,
//!   channels, semaphores and I/O then return early, and [`cancelled`] says why.
//! * The main thread and other kernel threads may use everything here. They sleep in the kernel
//!   while they wait.
//!
//! # Examples
//! ```
//! use underpass::thread;
//!
//! let mut numbers = vec![3, 1, 2];
//! let largest = thread::scope(|scope| {
//!     let largest = scope.spawn(|| *numbers.iter().max().unwrap());
//!     largest.join().unwrap()
//! });
//! numbers.push(largest);
//!
//! let sorter = thread::Builder::new().name("sorter").stack_size(64 * 1024).spawn(move || {
//!     numbers.sort();
//!     thread::yield_now();
//!     numbers
//! })?;
//! assert_eq!(sorter.join().unwrap(), [1, 2, 3, 3]);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! To stop a thread that waits, cancel it:
//!
//! ```
//! use std::time::Duration;
//! use underpass::thread;
//!
//! let sleeper = thread::spawn(|| {
//!     while !thread::cancelled() {
//!         thread::sleep(Duration::from_secs(3600));
//!     }
//! });
//! sleeper.thread().cancel();
//! sleeper.join().unwrap();
//! ```

pub use underpass_threads::{
    AccessError, Awaited, Builder, Deadlock, Deadlocked, Dump, HeldUp, JoinHandle, LocalKey, MonitorFindings,
    NoPreempt, Scope, ScopedJoinHandle, State, Switches, Thread, ThreadId, ThreadReport, Trace, blocking,
    blocking_here, cancelled, checkpoint, current, current_id, deadlocks, dump, dump_on_quit, no_preempt,
    on_user_thread, panic_message, panicking, park, park_timeout, scope, sleep, spawn, trim, watch_switches,
    with_stack, without_switches, yield_now,
};
