//! A context over `corosensei`. It serves processors other than x86-64, and sanitizers, which have
//! to be told of each switch. Tests compare our own switch with it.

use crate::{Pause, Resume, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, UnsafeCell};
use std::ptr;

/// The place where a kernel thread was when it entered a context.
#[derive(Debug, Default)]
pub struct Base(());

/// What a coroutine tells its resumer when it pauses.
enum Leaving {
    To(Pause),
    /// Another context goes on in its place.
    Pass(*const Context),
}

type Switch = Yielder<Resume, Leaving>;

/// A computation on its own stack. Only the thread that enters the context accesses `coroutine`.
/// The first step of the coroutine writes `switch`, and only the coroutine reads it.
pub struct Context {
    coroutine: UnsafeCell<Option<Coroutine<Resume, Leaving, (), Stack>>>,
    switch: Box<Cell<*const Switch>>,
    size: Cell<usize>,
    bounds: Cell<(usize, usize)>,
}

// SAFETY: a paused context is only memory. The caller that resumes it vouches for its body.
unsafe impl Send for Context {}

impl Context {
    /// A context that will run `body` on `stack`.
    pub fn new(stack: Stack, body: impl FnOnce() -> &'static Base + 'static) -> Box<Self> {
        let (size, bounds) = (Cell::new(stack.size()), Cell::new(stack.bounds()));
        let switch = Box::new(Cell::new(ptr::null()));
        let own = ptr::from_ref(&*switch);
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Switch, _| {
            // SAFETY: the cell lies in a box of its own, which lives as long as the context can
            // run.
            let own = unsafe { &*own };
            own.set(yielder);
            body();
        });
        Box::new(Self { coroutine: UnsafeCell::new(Some(coroutine)), switch, size, bounds })
    }

    fn suspend(&self, leaving: Leaving) -> Resume {
        // SAFETY: the context runs, so its first step has set this, and the yielder stays on its
        // stack.
        let switch = unsafe { &*self.switch.get() };
        switch.suspend(leaving)
    }

    /// Pauses this context.
    ///
    /// # Safety
    /// The caller runs on this context's stack, and `base` is its kernel thread's.
    pub unsafe fn leave(&self, _base: &Base, why: Pause) -> Resume {
        self.suspend(Leaving::To(why))
    }

    /// Pauses this context, and has `to` go on in its place.
    ///
    /// # Safety
    /// The caller runs on this context's stack. `to` is another context that is paused or has not
    /// begun. No other thread enters it, and its body may run on this kernel thread.
    pub unsafe fn pass(&self, to: &Context) -> Resume {
        self.suspend(Leaving::Pass(to))
    }

    /// Whether [`trace`](Self::trace) finds any frames: it does not. `corosensei` doesn't tell
    /// where it has left a stack, so a context can only trace itself.
    pub const TRACES: bool = false;

    /// Offset in a context of its saved stack pointer: unknown here.
    pub const SAVED: usize = 0;

    /// Offset in a context of its [`Stack`]: unknown here.
    pub const STACK: usize = 0;

    /// Finds no frames.
    ///
    /// # Safety
    /// As for the other implementation.
    pub unsafe fn trace(&self, _frames: &mut [usize]) -> usize {
        0
    }

    /// Would let the kernel take the unused part of its stack. Which part that is can't be known
    /// here, so it does nothing.
    ///
    /// # Safety
    /// The context is paused or has not begun. No thread enters it meanwhile.
    pub unsafe fn lend(&self) {}

    /// Exchanges the stacks that the two contexts report as theirs.
    pub(crate) fn swap_stacks(&self, other: &Self) {
        self.size.swap(&other.size);
        self.bounds.swap(&other.bounds);
    }

    /// Whether a kernel thread that was interrupted at the instruction `ip` is in the middle of a
    /// switch: unknown here.
    pub fn switches_at(_ip: usize) -> bool {
        false
    }

    /// How many bytes of its stack are usable.
    pub fn size(&self) -> usize {
        self.size.get()
    }

    /// The address where the guard page below its stack begins, and the address where the stack
    /// ends.
    pub fn bounds(&self) -> (usize, usize) {
        self.bounds.get()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(mut paused) = self.coroutine.get_mut().take().filter(|coroutine| !coroutine.done()) {
            // SAFETY: the values on its stack are forgotten, as with our own switch.
            unsafe { paused.force_reset() };
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

// SAFETY: the mapping begins with a guard page that can't be accessed, and ends page-aligned. It
// has at least one usable page, which is `MIN_STACK_SIZE`.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> corosensei::stack::StackPointer {
        corosensei::stack::StackPointer::new(self.bounds().1).expect("no mapping ends at address 0")
    }

    fn limit(&self) -> corosensei::stack::StackPointer {
        corosensei::stack::StackPointer::new(self.bounds().0).expect("no mapping begins at address 0")
    }
}

impl Base {
    /// Runs `context` until it pauses, or until a context to which it passed pauses. Returns why
    /// that one paused.
    ///
    /// # Panics
    /// If the context has ended.
    ///
    /// # Safety
    /// The context is paused or has not begun. No other thread enters it, and its body may run on
    /// this kernel thread. This base is this kernel thread's, and no context runs on it.
    pub unsafe fn enter(&self, context: &Context, what: Resume) -> Pause {
        let (mut context, mut what): (*const Context, _) = (context, what);
        loop {
            // SAFETY: the caller vouches for the first context. A context that passed to another
            // one vouched for that.
            let place = unsafe { (*context).coroutine.get() };
            // SAFETY: only the thread that enters the context accesses it.
            let coroutine =
                unsafe { &mut *place }.as_mut().expect("a context that can be entered has not ended");
            match coroutine.resume(what) {
                CoroutineResult::Yield(Leaving::To(why)) => return why,
                CoroutineResult::Yield(Leaving::Pass(to)) => (context, what) = (to, Resume::GoOn),
                CoroutineResult::Return(()) => return Pause::Ended,
            }
        }
    }
}
