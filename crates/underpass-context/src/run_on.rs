//! A closure on a stack of its own, which its caller waits for.
//!
//! The closure runs in a context of its own, entered from a base on the caller's stack. If the
//! caller is itself a context that pauses, it does so with what it has on both stacks: a pause
//! keeps nothing but the stack pointer.

use crate::{Base, Context, Pause, Resume, Stack};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::Result;

/// What a closure is given, and what it leaves. It lies on its caller's stack.
struct Job<F, T> {
    body: Option<F>,
    result: Option<Result<T>>,
    base: Base,
}

/// Runs `body` on `stack`, which is unmapped afterwards.
///
/// `own` is the context on which the caller runs, or nothing on a kernel thread's own stack. Until
/// `body` has ended, that context tells the size and the bounds of `stack` as its own.
///
/// # Panics
/// With what `body` panics.
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
    // SAFETY: `place` is a job of these types, which lives until the context has ended, below.
    let context = Context::new(stack, move || unsafe { run(place) });
    own.inspect(|own| own.swap_stacks(&context));
    // SAFETY: this is the job's base. Until the context has ended, it alone uses the other fields.
    let base = unsafe { &(*own_job).base };
    // SAFETY: nobody else knows of the context, and its body bears to run where its caller does.
    // The base is used for nothing else.
    let why = unsafe { base.enter(&context, Resume::GoOn) };
    own.inspect(|own| own.swap_stacks(&context));
    debug_assert_eq!(why, Pause::Ended);
    match job.result.expect("the closure has ended") {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

/// The body of the context; gives the base to come back to.
///
/// # Safety
/// `place` is a [`Job`] of these types, which nobody else uses but for its base, and which lives
/// until the context has ended.
unsafe fn run<F: FnOnce() -> T, T>(place: *mut ()) -> &'static Base {
    let job: *mut Job<F, T> = place.cast();
    // SAFETY: as the caller says.
    let body = unsafe { &mut (*job).body }.take().expect("it is entered once");
    let result = catch_unwind(AssertUnwindSafe(body));
    // SAFETY: as above.
    unsafe { &mut (*job).result }.replace(result);
    // SAFETY: as above; the base lives for as long as the context needs it.
    unsafe { &(*job).base }
}
