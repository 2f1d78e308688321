//! Runs a closure on a stack of its own, while its caller waits.
//!
//! The closure runs in a new context, entered from a base on the caller's stack. The caller may
//! itself be a context that pauses. Then it pauses with frames on both stacks: a pause saves
//! nothing but the stack pointer.

use crate::{Base, Context, Pause, Resume, Stack};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::Result;

/// The closure and its result. The job lies on the caller's stack.
struct Job<F, T> {
    body: Option<F>,
    result: Option<Result<T>>,
    base: Base,
}

/// Runs `body` on `stack`. The stack is unmapped afterwards.
///
/// `own` is the context on which the caller runs. It is `None` on a kernel thread's own stack.
/// Until `body` has ended, that context reports the size and the bounds of `stack` as its own.
///
/// # Panics
/// If `body` panics.
///
/// # Safety
/// If there is an `own`, the caller runs on it.
///
/// # Examples
/// ```
/// let stack = underpass_context::Stacks::new(1 << 20, 0).take()?;
/// let (low, high) = stack.bounds();
/// // SAFETY: there is no context.
/// let inside = unsafe {
///     underpass_context::run_on(stack, None, || {
///         let here = 0u8;
///         (low..high).contains(&(&raw const here).addr())
///     })
/// };
/// assert!(inside);
/// # Ok::<(), std::io::Error>(())
/// ```
pub unsafe fn run_on<F: FnOnce() -> T, T>(stack: Stack, own: Option<&Context>, body: F) -> T {
    let mut job = Job { body: Some(body), result: None, base: Base::default() };
    let own_job = &raw mut job;
    let place: *mut () = own_job.cast();
    let run: unsafe fn(*mut ()) -> &'static Base = run::<F, T>;
    // SAFETY: `place` is a job of these types. It lives until the context has ended, below.
    let context = Context::new(stack, move || unsafe { run(place) });
    own.inspect(|own| own.swap_stacks(&context));
    // SAFETY: this is the job's base. Until the context has ended, only the context uses the other
    // fields.
    let base = unsafe { &(*own_job).base };
    // SAFETY: no other thread knows of the context, and its body may run where its caller does. The
    // base is used for nothing else.
    let why = unsafe { base.enter(&context, Resume::GoOn) };
    own.inspect(|own| own.swap_stacks(&context));
    debug_assert_eq!(why, Pause::Ended);
    match job.result.expect("the closure has ended") {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

/// The body of the context. Returns the base to go back to.
///
/// # Safety
/// `place` is a [`Job`] of these types. It lives until the context has ended, and nothing else uses
/// it except for its base.
unsafe fn run<F: FnOnce() -> T, T>(place: *mut ()) -> &'static Base {
    let job: *mut Job<F, T> = place.cast();
    // SAFETY: as the caller says.
    let body = unsafe { &mut (*job).body }.take().expect("it is entered once");
    let result = catch_unwind(AssertUnwindSafe(body));
    // SAFETY: as above.
    unsafe { &mut (*job).result }.replace(result);
    // SAFETY: as above; the base lives as long as the context needs it.
    unsafe { &(*job).base }
}
