//! Backtraces: the return addresses of the frames on a stack, found by the system's unwinder.

use std::ffi::c_void;
use std::ops::Range;

/// The frame that the unwinder passes to us. Only the unwinder knows what is in it.
#[repr(C)]
struct Frame {
    _private: [u8; 0],
}

const GO_ON: i32 = 0;
const STOP: i32 = 5;

unsafe extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut Frame, *mut c_void) -> i32, with: *mut c_void) -> i32;
    fn _Unwind_GetIPInfo(frame: *mut Frame, exact: *mut i32) -> usize;
}

/// A walk over the frames of a stack.
pub(crate) struct Walk<'a> {
    frames: &'a mut [usize],
    found: usize,
    /// Frames count only after the first one in this code.
    after: Option<Range<usize>>,
    /// The walk ends at the first frame in this code, since nothing is certain after it.
    until: Range<usize>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(frames: &'a mut [usize], after: Option<Range<usize>>) -> Self {
        Self { frames, found: 0, after, until: 0..0 }
    }

    /// How many frames were recorded.
    pub(crate) fn found(&self) -> usize {
        self.found
    }

    fn step(&mut self, ip: usize) -> i32 {
        if self.until.contains(&ip) {
            return STOP;
        }
        if let Some(after) = &self.after {
            if after.contains(&ip) {
                self.after = None;
            }
            return GO_ON;
        }
        let Some(place) = self.frames.get_mut(self.found) else { return STOP };
        *place = ip;
        self.found += 1;
        GO_ON
    }
}

/// Walks over the caller's frames. `with` is a [`Walk`].
pub(crate) extern "C" fn walk(with: *mut c_void) {
    // SAFETY: `each` keeps the unwinder's rules, and expects `with`.
    unsafe { _Unwind_Backtrace(each, with) };
}

extern "C" fn each(frame: *mut Frame, with: *mut c_void) -> i32 {
    let mut exact = 0;
    // SAFETY: the frame is the unwinder's, and `exact` is a place for a number.
    let ip = unsafe { _Unwind_GetIPInfo(frame, &mut exact) };
    if ip == 0 {
        return STOP;
    }
    // SAFETY: `with` is the walk that `walk` was called with, and no other reference to it is used
    // meanwhile.
    let walk = unsafe { &mut *with.cast::<Walk<'_>>() };
    // The address of an interrupted frame is its next instruction. All other addresses are those
    // after a call. One more makes the first look like the others.
    walk.step(ip + usize::from(exact != 0))
}

/// Records the return addresses of the caller's frames, the innermost first. Returns how many there
/// are, at most as many as `frames` holds.
///
/// One byte before a return address lies the call to which it belongs. This takes no lock and
/// allocates nothing.
///
/// # Examples
/// ```
/// let mut frames = [0; 64];
/// let found = underpass_context::trace_here(&mut frames);
/// assert!(found > 1);
/// ```
pub fn trace_here(frames: &mut [usize]) -> usize {
    let mut trace = Walk::new(frames, None);
    walk((&raw mut trace).cast());
    trace.found()
}

/// As [`trace_here`], for a signal handler that has interrupted its thread at any instruction. The
/// walk ends where it comes to `until`, the code of the [`unwinder`]: that moves the stack pointer
/// in ways that the unwinder can't follow.
pub fn trace_interrupted(frames: &mut [usize], until: Range<usize>) -> usize {
    let mut trace = Walk { until, ..Walk::new(frames, None) };
    walk((&raw mut trace).cast());
    trace.found()
}

/// An address in the code of the system's unwinder.
pub fn unwinder() -> usize {
    _Unwind_Backtrace as *const () as usize
}
