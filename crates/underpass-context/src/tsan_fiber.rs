//! Tells ThreadSanitizer of our switch (`--cfg underpass_tsan`). It keeps its records for each
//! stack, so it has to know which stack runs.

use std::cell::Cell;
use std::ffi::{c_uint, c_void};
use std::ptr;

unsafe extern "C" {
    fn __tsan_create_fiber(flags: c_uint) -> *mut c_void;
    fn __tsan_destroy_fiber(fiber: *mut c_void);
    fn __tsan_get_current_fiber() -> *mut c_void;
    fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: c_uint);
}

/// ThreadSanitizer's record of one stack.
#[derive(Debug)]
pub(crate) struct Fiber {
    book: Cell<*mut c_void>,
    ours: bool,
}

/// For a kernel thread's own stack. Its record is found when the thread leaves it.
impl Default for Fiber {
    fn default() -> Self {
        Self { book: Cell::new(ptr::null_mut()), ours: false }
    }
}

impl Fiber {
    /// For a new stack.
    pub(crate) fn new() -> Self {
        // SAFETY: it takes no pointer.
        Self { book: Cell::new(unsafe { __tsan_create_fiber(0) }), ours: true }
    }

    /// The caller leaves `self` for `to` at once. What it did before happens before what `to` does.
    #[inline(always)]
    pub(crate) fn switch(&self, to: &Self) {
        // SAFETY: it takes no pointer.
        self.book.set(unsafe { __tsan_get_current_fiber() });
        // SAFETY: a suspended stack has set its record when it was left, or had it made by `new`.
        unsafe { __tsan_switch_to_fiber(to.book.get(), 0) };
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        if self.ours {
            // SAFETY: it was made by `new`, and nothing runs on its stack any more.
            unsafe { __tsan_destroy_fiber(self.book.get()) };
        }
    }
}
