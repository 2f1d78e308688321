//! The caller's stack: its bounds, and running on another one for a while.

use crate::sched::scheduler;
use crate::sched::stack_sizes::LEAST;
use std::cell::Cell;
use std::io;
use underpass_context::{Stacks, run_on};
use underpass_os::{GUARD, kernel_stack};

/// Runs `body` on a stack of its own, of at least `bytes`, and unmaps that afterwards. For code
/// that recurses deeper than its caller's stack has room for.
///
/// `body` stays on the calling thread, so it need not be `Send`. It may do whatever its caller may:
/// block, call, be cancelled, and see who calls. Only pages that it touches take memory. It costs a
/// few system calls. An overflow of this stack is reported as any other on a user-level thread. On
/// a plain kernel thread the process dies by `SIGSEGV`. Backtraces and dumps taken inside end where
/// `body` begins.
///
/// # Errors
/// `OutOfMemory`: there is no address space for it (`ulimit -v`, `vm.overcommit_memory`), or too
/// many mappings (`vm.max_map_count`).
///
/// # Panics
/// With what `body` panics.
///
/// # Examples
/// ```
/// use underpass::thread;
///
/// fn depth(left: u32) -> u64 {
///     let frame = std::hint::black_box([1; 128]);
///     if left == 0 { 0 } else { depth(left - 1) + frame[7] }
/// }
/// // A stack of 256 KiB has room for a few hundred of these.
/// let body = || thread::with_stack(64 << 20, || depth(10_000));
/// let thread = thread::spawn(body);
/// assert_eq!(thread.join().unwrap()?, 10_000);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn with_stack<T>(bytes: usize, body: impl FnOnce() -> T) -> io::Result<T> {
    let stack = Stacks::new(bytes.clamp(LEAST, isize::MAX as usize), 0).take()?;
    let own = scheduler::here().map(|(.., context)| context);
    // SAFETY: a thread that its kernel thread runs, or is in a blocking call for, runs on its
    // context.
    Ok(unsafe { run_on(stack, own, body) })
}

thread_local! {
    /// The calling kernel thread's own stack, once somebody has asked for it.
    static OWN: Cell<KernelStack> = const { Cell::new(KernelStack::NotAsked) };
}

/// What is known of a kernel thread's own stack.
#[derive(Clone, Copy)]
enum KernelStack {
    NotAsked,
    /// Its bounds, unless they can't be known.
    Asked(Option<(usize, usize)>),
}

/// The bounds of the calling thread's usable stack, also for a plain kernel thread. `None` if they
/// can't be known.
///
/// # Examples
/// ```
/// let here = 0u8;
/// let (low, high) = underpass_threads::stack_bounds().unwrap();
/// assert!((low..high).contains(&(&raw const here).addr()));
/// ```
pub fn stack_bounds() -> Option<(usize, usize)> {
    let bounds = match scheduler::here() {
        Some((.., context)) => {
            let (guard, high) = context.bounds();
            Some((guard + GUARD, high))
        }
        None => match OWN.get() {
            KernelStack::Asked(bounds) => bounds,
            KernelStack::NotAsked => {
                let own = kernel_stack();
                OWN.set(KernelStack::Asked(own));
                own
            }
        },
    };
    // The caller may run on a stack that this crate doesn't know.
    let here = (&raw const bounds).addr();
    bounds.filter(|(low, high)| (low..high).contains(&&here))
}
