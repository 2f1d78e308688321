//! A computation on a stack of its own, which pauses and is resumed.

use crate::Stack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::rc::Rc;

/// Why a context paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It could go on, and lets others go first.
    Yield,
    /// It waits for somebody to say that it can go on.
    Block,
}

type Switch = Yielder<(), Pause>;

thread_local! {
    /// The switch of the context that runs on this kernel thread, null outside of any.
    static CURRENT: Cell<*const Switch> = const { Cell::new(ptr::null()) };
}

/// A computation on its own stack. It stays on the kernel thread that made it.
///
/// # Examples
/// ```
/// use underpass_context::{Context, Pause, Stacks, pause};
/// let stack = Stacks::new(64 * 1024, 1).take()?;
/// let mut context = Context::new(stack, || pause(Pause::Yield));
/// assert_eq!(context.resume(), Some(Pause::Yield));
/// assert_eq!(context.resume(), None);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Context {
    /// There until [`into_stack`](Self::into_stack).
    coroutine: Option<Coroutine<(), Pause, (), Stack>>,
    switch: Rc<Cell<Option<NonNull<Switch>>>>,
}

impl Context {
    /// Will run `body` on `stack`. A panic that leaves `body` goes on in [`resume`](Self::resume).
    pub fn new(stack: Stack, body: impl FnOnce() + 'static) -> Self {
        let switch = Rc::new(Cell::new(None));
        let own = switch.clone();
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Switch, ()| {
            own.set(Some(NonNull::from(yielder)));
            CURRENT.set(yielder);
            drop(own);
            body();
        });
        Self { coroutine: Some(coroutine), switch }
    }

    /// Runs until the next [`pause`], and says why; nothing if the body has ended.
    ///
    /// # Panics
    /// If the body panics, or has ended before.
    #[inline]
    pub fn resume(&mut self) -> Option<Pause> {
        let outer = CURRENT.replace(self.switch.get().map_or(ptr::null(), |s| s.as_ptr().cast_const()));
        let result = self.coroutine.as_mut().map(|coroutine| coroutine.resume(()));
        CURRENT.set(outer);
        match result {
            Some(CoroutineResult::Yield(why)) => Some(why),
            Some(CoroutineResult::Return(())) | None => None,
        }
    }

    /// The stack, once the body has ended.
    ///
    /// # Panics
    /// If it has not.
    pub fn into_stack(mut self) -> Stack {
        self.coroutine.take().expect("a context has its coroutine until here").into_stack()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Its destructors run on its own stack, outside of any `resume`: nothing of them can pause.
        let outer = CURRENT.replace(ptr::null());
        self.coroutine = None;
        CURRENT.set(outer);
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let done = self.coroutine.as_ref().is_none_or(Coroutine::done);
        f.debug_struct("Context").field("done", &done).finish_non_exhaustive()
    }
}

/// Pauses the context that runs on this kernel thread until somebody resumes it.
///
/// # Panics
/// Outside of any context.
#[inline]
pub fn pause(why: Pause) {
    let switch = CURRENT.get();
    assert!(!switch.is_null(), "only a context can pause");
    // SAFETY: `CURRENT` is the switch of the context that is running right now (set by `resume` or by the context's
    // first step, and restored when it pauses), so the coroutine that owns it is alive and on this very stack.
    let switch = unsafe { &*switch };
    switch.suspend(why);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stacks;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn context(body: impl FnOnce() + 'static) -> Context {
        Context::new(Stacks::new(64 * 1024, 0).take().unwrap(), body)
    }

    #[test]
    fn two_contexts_take_turns() {
        let seen = Rc::new(Cell::new(0));
        let (one, two) = (seen.clone(), seen.clone());
        let mut a = context(move || {
            one.set(one.get() * 10 + 1);
            pause(Pause::Yield);
            one.set(one.get() * 10 + 3);
        });
        let mut b = context(move || {
            two.set(two.get() * 10 + 2);
            pause(Pause::Block);
            two.set(two.get() * 10 + 4);
        });
        assert_eq!((a.resume(), b.resume()), (Some(Pause::Yield), Some(Pause::Block)));
        assert_eq!((a.resume(), b.resume()), (None, None));
        assert_eq!(seen.get(), 1234);
    }

    #[test]
    fn a_context_within_a_context_pauses_by_itself() {
        let mut outer = context(|| {
            let mut inner = context(|| pause(Pause::Block));
            assert_eq!(inner.resume(), Some(Pause::Block));
            pause(Pause::Yield);
            assert_eq!(inner.resume(), None);
        });
        assert_eq!(outer.resume(), Some(Pause::Yield));
        assert_eq!(outer.resume(), None);
    }

    #[test]
    fn a_panic_goes_to_who_resumed() {
        let mut panics = context(|| panic!("inside"));
        let caught = catch_unwind(AssertUnwindSafe(|| panics.resume())).unwrap_err();
        assert_eq!(caught.downcast_ref(), Some(&"inside"));
    }

    #[test]
    fn dropping_a_paused_context_runs_its_destructors() {
        let kept = Rc::new(());
        let inside = kept.clone();
        let mut paused = context(move || {
            let _inside = inside;
            pause(Pause::Block);
        });
        paused.resume();
        assert_eq!(Rc::strong_count(&kept), 2);
        drop(paused);
        assert_eq!(Rc::strong_count(&kept), 1);
    }

    #[test]
    #[should_panic(expected = "only a context can pause")]
    fn outside_there_is_nothing_to_pause() {
        pause(Pause::Yield);
    }
}
