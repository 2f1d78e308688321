//! A computation on a stack of its own, over the switch of `switch.rs`.

use crate::backtrace::{self, Walk};
use crate::switch::{self, Suspended};
use crate::{Pause, Resume, Stack};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where a kernel thread leaves off when it enters a context, to come back to when the context
/// pauses.
#[derive(Debug, Default)]
pub struct Base(Suspended);

type Body = Box<dyn FnOnce() -> &'static Base>;

/// A computation on its own stack.
///
/// Dropping one that has not ended forgets what is on its stack.
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
    /// Its own stack, or the one on which [`run_on`](crate::run_on) runs a closure for it. The code
    /// that runs on the context changes it.
    stack: UnsafeCell<Stack>,
}

// SAFETY: a paused context is memory like any other, and who resumes it vouches for its body.
unsafe impl Send for Context {}

impl Context {
    /// Will run `body` on `stack`; the base that it returns is the one to come back to for the last
    /// time.
    pub fn new(stack: Stack, body: impl FnOnce() -> &'static Base + 'static) -> Box<Self> {
        let body: Box<Body> = Box::new(Box::new(body));
        let suspended = Suspended::begin(&stack, first, Box::into_raw(body).expose_provenance());
        Box::new(Self { suspended, stack: UnsafeCell::new(stack) })
    }

    /// Pauses this context: goes back to the base that it was last entered from, or to which that
    /// went over.
    ///
    /// # Safety
    /// The caller runs on this context's stack, and `base` is its kernel thread's.
    #[inline(always)]
    pub unsafe fn leave(&self, base: &Base, why: Pause) -> Resume {
        // SAFETY: the base is suspended, since its kernel thread runs the caller.
        Resume::of(unsafe { self.suspended.switch(&base.0, why as usize) })
    }

    /// Pauses this context, and has `to` go on in its place: the base sees nothing of it.
    ///
    /// # Safety
    /// The caller runs on this context's stack. `to` is another one, paused or not begun, nobody
    /// else enters it, and its body bears to run on this kernel thread.
    #[inline(always)]
    pub unsafe fn pass(&self, to: &Context) -> Resume {
        // SAFETY: as the caller says.
        Resume::of(unsafe { self.suspended.switch(&to.suspended, Resume::GoOn as usize) })
    }

    /// Whether [`trace`](Self::trace) sees anything.
    pub const TRACES: bool = true;

    /// Where the stack pointer of a paused context lies in it, for debuggers.
    pub const SAVED: usize = std::mem::offset_of!(Self, suspended);

    /// Where its [`Stack`] lies in it.
    pub const STACK: usize = std::mem::offset_of!(Self, stack);

    /// Writes down where its frames go on, the innermost first, and says how many there are; no
    /// more than `frames` has room for.
    ///
    /// It takes no lock and allocates nothing, and uses the caller's stack alone.
    ///
    /// # Safety
    /// It is paused, was entered before, and nobody enters it meanwhile.
    pub unsafe fn trace(&self, frames: &mut [usize]) -> usize {
        let mut walk = Walk::new(frames, Some(switch::looking()));
        // SAFETY: as the caller says; `walk` outlives the call.
        unsafe { self.suspended.look(backtrace::walk, (&raw mut walk).cast()) };
        walk.found()
    }

    /// Lets the kernel take the part of its stack that it doesn't use, when it is short of memory.
    ///
    /// # Safety
    /// It is paused or has not begun, and nobody enters it meanwhile.
    pub unsafe fn lend(&self) {
        // SAFETY: what is suspended lies above; below is what its frames have left behind.
        unsafe { self.stack().lend_below(self.suspended.lowest()) };
    }

    fn stack(&self) -> &Stack {
        // SAFETY: only `swap_stacks` changes it, and keeps no reference; nor do those who ask here.
        unsafe { &*self.stack.get() }
    }

    /// Exchanges the stacks of both, as far as anybody is told of them.
    pub(crate) fn swap_stacks(&self, other: &Self) {
        // SAFETY: both are whole, and only who runs on one of them comes here; no reference to
        // either is kept anywhere.
        unsafe { std::ptr::swap(self.stack.get(), other.stack.get()) };
    }

    /// Whether a kernel thread that was interrupted at the instruction `ip` is just switching: then
    /// unwinders don't find its way.
    ///
    /// # Examples
    /// ```
    /// assert!(!underpass_context::Context::switches_at(main as *const () as usize));
    /// ```
    pub fn switches_at(ip: usize) -> bool {
        switch::switching(ip)
    }

    /// Bytes of its stack that can be used.
    pub fn size(&self) -> usize {
        self.stack().size()
    }

    /// Where the guard below its stack begins and where the stack ends.
    pub fn bounds(&self) -> (usize, usize) {
        self.stack().bounds()
    }
}

impl Base {
    /// Has `context` run until it pauses, or one that it passes to does; says why that one paused.
    ///
    /// # Safety
    /// The context is paused or has not begun, nobody else enters it, and its body bears to run on
    /// this kernel thread. This base is this kernel thread's, and no context runs on it.
    #[inline(always)]
    pub unsafe fn enter(&self, context: &Context, what: Resume) -> Pause {
        // SAFETY: as the caller says.
        Pause::of(unsafe { self.0.switch(&context.suspended, what as usize) })
    }
}

/// The first that runs on a stack.
extern "C" fn first(body: usize) -> ! {
    // SAFETY: `new` made it of a box, for this one use.
    let body = unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Body>(body)) };
    let Ok(base) = catch_unwind(AssertUnwindSafe(body)) else {
        eprintln!("underpass: a panic left a context; aborting");
        std::process::abort();
    };
    // SAFETY: the base is suspended, since its kernel thread runs this.
    unsafe { Suspended::default().switch(&base.0, Pause::Ended as usize) };
    unreachable!("a context that has ended is not entered again")
}
