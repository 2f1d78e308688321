//! A computation on a stack of its own, over `corosensei`: for other processors than x86-64, for
//! sanitizers, which have to be told of each switch, and as the oracle of our own switch.

use crate::{Pause, Resume, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, UnsafeCell};
use std::ptr;

/// Where a kernel thread leaves off when it enters a context.
#[derive(Debug, Default)]
pub struct Base(());

/// What a coroutine says when it pauses.
enum Leaving {
    To(Pause),
    /// Another is to go on.
    Pass(*const Context),
}

type Switch = Yielder<Resume, Leaving>;

/// A computation on its own stack. `coroutine` is touched by who enters it; `switch` is written by
/// its first step, and read by itself.
pub struct Context {
    coroutine: UnsafeCell<Option<Coroutine<Resume, Leaving, (), Stack>>>,
    switch: Box<Cell<*const Switch>>,
    size: Cell<usize>,
    bounds: Cell<(usize, usize)>,
}

// SAFETY: a paused context is memory like any other, and who resumes it vouches for its body.
unsafe impl Send for Context {}

impl Context {
    /// Will run `body` on `stack`.
    pub fn new(stack: Stack, body: impl FnOnce() -> &'static Base + 'static) -> Box<Self> {
        let (size, bounds) = (Cell::new(stack.size()), Cell::new(stack.bounds()));
        let switch = Box::new(Cell::new(ptr::null()));
        let own = ptr::from_ref(&*switch);
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Switch, _| {
            // SAFETY: the cell lies in a box of its own, kept for as long as the context can run.
            let own = unsafe { &*own };
            own.set(yielder);
            body();
        });
        Box::new(Self { coroutine: UnsafeCell::new(Some(coroutine)), switch, size, bounds })
    }

    fn suspend(&self, leaving: Leaving) -> Resume {
        // SAFETY: it runs, so its first step has set this, and the yielder stays on its stack.
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
    /// The caller runs on this context's stack. `to` is another one, paused or not begun, nobody
    /// else enters it, and its body bears to run on this kernel thread.
    pub unsafe fn pass(&self, to: &Context) -> Resume {
        self.suspend(Leaving::Pass(to))
    }

    /// Whether [`trace`](Self::trace) sees anything: `corosensei` doesn't tell where it has left a
    /// stack, so a context has to look itself.
    pub const TRACES: bool = false;

    /// Where the stack pointer of a paused context lies in it: nowhere that we know.
    pub const SAVED: usize = 0;

    /// As the other backend's: nowhere that we know.
    pub const STACK: usize = 0;

    /// Nothing.
    ///
    /// # Safety
    /// As of the other backend.
    pub unsafe fn trace(&self, _frames: &mut [usize]) -> usize {
        0
    }

    /// Lets the kernel take the part of its stack that it doesn't use: which part that is can't be
    /// seen from here, so none.
    ///
    /// # Safety
    /// It is paused or has not begun, and nobody enters it meanwhile.
    pub unsafe fn lend(&self) {}

    /// Exchanges the stacks of both, as far as anybody is told of them.
    pub(crate) fn swap_stacks(&self, other: &Self) {
        self.size.swap(&other.size);
        self.bounds.swap(&other.bounds);
    }

    /// Whether a kernel thread that was interrupted at the instruction `ip` is just switching: not
    /// known here.
    pub fn switches_at(_ip: usize) -> bool {
        false
    }

    /// Bytes of its stack that can be used.
    pub fn size(&self) -> usize {
        self.size.get()
    }

    /// Where the guard below its stack begins and where the stack ends.
    pub fn bounds(&self) -> (usize, usize) {
        self.bounds.get()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(mut paused) = self.coroutine.get_mut().take().filter(|coroutine| !coroutine.done()) {
            // SAFETY: what is on its stack is forgotten, as with our own switch.
            unsafe { paused.force_reset() };
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

// SAFETY: the mapping begins with a guard page that can't be touched, ends page-aligned, and has at
// least one usable page, which is `MIN_STACK_SIZE`.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> corosensei::stack::StackPointer {
        corosensei::stack::StackPointer::new(self.bounds().1).expect("no mapping ends at address 0")
    }

    fn limit(&self) -> corosensei::stack::StackPointer {
        corosensei::stack::StackPointer::new(self.bounds().0).expect("no mapping begins at address 0")
    }
}

impl Base {
    /// Has `context` run until it pauses, or one that it passes to does; says why that one paused.
    ///
    /// # Panics
    /// If the context has ended.
    ///
    /// # Safety
    /// The context is paused or has not begun, nobody else enters it, and its body bears to run on
    /// this kernel thread. This base is this kernel thread's, and no context runs on it.
    pub unsafe fn enter(&self, context: &Context, what: Resume) -> Pause {
        let (mut context, mut what): (*const Context, _) = (context, what);
        loop {
            // SAFETY: the first is the caller's; others were passed to by one that vouched for
            // them.
            let place = unsafe { (*context).coroutine.get() };
            // SAFETY: only who enters touches it.
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
