//! A context: a computation on a stack of its own, by the switch of `switch.rs`.

use crate::backtrace::{self, Walk};
use crate::switch::{self, Suspended};
use crate::{Pause, Resume, Stack};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The place where a kernel thread was when it entered a context. It goes on there when the context
/// pauses.
#[derive(Debug, Default)]
pub struct Base(Suspended);

type Body = Box<dyn FnOnce() -> &'static Base>;

/// A computation on its own stack.
///
/// If a context is dropped before it has ended, the values on its stack are forgotten and not
/// dropped.
///
/// # Examples
/// ```
/// use underpass_context::{Base, Context, Pause, Resume, Stacks};
/// use std::{cell::OnceCell, rc::Rc};
/// let base: &'static Base = Box::leak(Box::default());
/// let own: Rc<OnceCell<Box<Context>>> = Rc::default();
/// let inside = own.clone();
/// let stack = Stacks::new(64 * 1024, 1).take()?;
/// let context = own.get_or_init(|| Context::new(stack, move || {
///     // SAFETY: this is that context, and `base` the one that it was entered from.
///     assert_eq!(unsafe { inside.get().unwrap().leave(base, Pause::Yield) }, Resume::GoOn);
///     base
/// }));
/// // SAFETY: nobody else enters it.
/// assert_eq!(unsafe { base.enter(context, Resume::GoOn) }, Pause::Yield);
/// // SAFETY: as above.
/// assert_eq!(unsafe { base.enter(context, Resume::GoOn) }, Pause::Ended);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Context {
    suspended: Suspended,
    /// Its own stack, or the stack on which [`run_on`](crate::run_on()) runs a closure for it. The
    /// code that runs on the context changes it.
    stack: UnsafeCell<Stack>,
}

// SAFETY: a paused context is only memory. The caller that resumes it vouches for its body.
unsafe impl Send for Context {}

impl Context {
    /// A context that will run `body` on `stack`. When `body` has ended, the base that it returned
    /// goes on.
    pub fn new(stack: Stack, body: impl FnOnce() -> &'static Base + 'static) -> Box<Self> {
        let body: Box<Body> = Box::new(Box::new(body));
        let suspended = Suspended::begin(&stack, first, Box::into_raw(body).expose_provenance());
        Box::new(Self { suspended, stack: UnsafeCell::new(stack) })
    }

    /// Pauses this context, and goes back to `base`: the one from which this context was entered,
    /// or the context that passed to it.
    ///
    /// # Safety
    /// The caller runs on this context's stack, and `base` is its kernel thread's.
    #[inline(always)]
    pub unsafe fn leave(&self, base: &Base, why: Pause) -> Resume {
        // SAFETY: the base is suspended, since its kernel thread runs the caller.
        Resume::of(unsafe { self.suspended.switch(&base.0, why as usize) })
    }

    /// Pauses this context, and has `to` go on in its place. The base does not notice.
    ///
    /// # Safety
    /// The caller runs on this context's stack. `to` is another context that is paused or has not
    /// begun. No other thread enters it, and its body may run on this kernel thread.
    #[inline(always)]
    pub unsafe fn pass(&self, to: &Context) -> Resume {
        // SAFETY: as the caller says.
        Resume::of(unsafe { self.suspended.switch(&to.suspended, Resume::GoOn as usize) })
    }

    /// Whether [`trace`](Self::trace) finds any frames.
    pub const TRACES: bool = true;

    /// Offset in a context of its saved stack pointer, for debuggers. It is valid while the context
    /// is paused.
    pub const SAVED: usize = std::mem::offset_of!(Self, suspended);

    /// Offset in a context of its [`Stack`], for debuggers.
    pub const STACK: usize = std::mem::offset_of!(Self, stack);

    /// Records the return addresses of its frames, the innermost first. Returns how many there are,
    /// at most as many as `frames` holds.
    ///
    /// It takes no lock, allocates nothing, and uses only the caller's stack.
    ///
    /// # Safety
    /// The context is paused and was entered before. No thread enters it meanwhile.
    pub unsafe fn trace(&self, frames: &mut [usize]) -> usize {
        let mut walk = Walk::new(frames, Some(switch::looking()));
        // SAFETY: as the caller says; `walk` outlives the call.
        unsafe { self.suspended.look(backtrace::walk, (&raw mut walk).cast()) };
        walk.found()
    }

    /// Lets the kernel take the unused part of its stack when the kernel is short of memory.
    ///
    /// # Safety
    /// The context is paused or has not begun. No thread enters it meanwhile.
    pub unsafe fn lend(&self) {
        // SAFETY: the suspended frames lie above that address. Below it is what earlier frames have
        // left.
        unsafe { self.stack().lend_below(self.suspended.lowest()) };
    }

    fn stack(&self) -> &Stack {
        // SAFETY: only `swap_stacks` changes it, and keeps no reference. Callers of this function
        // keep none either.
        unsafe { &*self.stack.get() }
    }

    /// Exchanges the stacks that the two contexts report as theirs.
    pub(crate) fn swap_stacks(&self, other: &Self) {
        // SAFETY: both contexts are valid. Only the code that runs on one of them comes here, and
        // no reference to either stack is kept.
        unsafe { std::ptr::swap(self.stack.get(), other.stack.get()) };
    }

    /// Whether a kernel thread that was interrupted at the instruction `ip` is in the middle of a
    /// switch. If so, unwinders can't walk its stack.
    ///
    /// # Examples
    /// ```
    /// assert!(!underpass_context::Context::switches_at(main as *const () as usize));
    /// ```
    pub fn switches_at(ip: usize) -> bool {
        switch::switching(ip)
    }

    /// How many bytes of its stack are usable.
    pub fn size(&self) -> usize {
        self.stack().size()
    }

    /// The address where the guard page below its stack begins, and the address where the stack
    /// ends.
    pub fn bounds(&self) -> (usize, usize) {
        self.stack().bounds()
    }
}

impl Base {
    /// Runs `context` until it pauses, or until a context to which it passed pauses. Returns why
    /// that one paused.
    ///
    /// # Safety
    /// The context is paused or has not begun. No other thread enters it, and its body may run on
    /// this kernel thread. This base is this kernel thread's, and no context runs on it.
    #[inline(always)]
    pub unsafe fn enter(&self, context: &Context, what: Resume) -> Pause {
        // SAFETY: as the caller says.
        Pause::of(unsafe { self.0.switch(&context.suspended, what as usize) })
    }
}

/// The first function that runs on a stack.
extern "C" fn first(body: usize) -> ! {
    // SAFETY: `new` made it from a box, for this one use.
    let body = unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Body>(body)) };
    let Ok(base) = catch_unwind(AssertUnwindSafe(body)) else {
        eprintln!("underpass: a panic left a context; aborting");
        std::process::abort();
    };
    // SAFETY: the base is suspended, since its kernel thread runs this.
    unsafe { Suspended::default().switch(&base.0, Pause::Ended as usize) };
    unreachable!("a context that has ended is not entered again")
}
