//! Where the frames on a stack go on, found by the system's unwinder.

use std::ffi::c_void;
use std::ops::Range;

/// What the unwinder hands to us. Only it knows what is inside.
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

/// One walk over the frames of a stack.
pub(crate) struct Walk<'a> {
    frames: &'a mut [usize],
    found: usize,
    /// Code up to whose frame none counts.
    after: Option<Range<usize>>,
    /// Code beyond whose frames nothing is sure.
    until: Range<usize>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(frames: &'a mut [usize], after: Option<Range<usize>>) -> Self {
        Self { frames, found: 0, after, until: 0..0 }
    }

    /// How many frames were written down.
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
    // SAFETY: `each` keeps to what the unwinder asks of it, and `with` is what it wants.
    unsafe { _Unwind_Backtrace(each, with) };
}

extern "C" fn each(frame: *mut Frame, with: *mut c_void) -> i32 {
    let mut exact = 0;
    // SAFETY: the unwinder's own frame, and a place for a number.
    let ip = unsafe { _Unwind_GetIPInfo(frame, &mut exact) };
    if ip == 0 {
        return STOP;
    }
    // SAFETY: `with` is the walk that `walk` was called with, and nobody else has it meanwhile.
    let walk = unsafe { &mut *with.cast::<Walk<'_>>() };
    // An interrupted frame stands at its next instruction, all others behind a call: make it look
    // like those.
    walk.step(ip + usize::from(exact != 0))
}

/// Writes down where the frames of the caller go on, the innermost first, and says how many there
/// are; no more than `frames` has room for.
///
/// The values are return addresses: what they return to was called one byte before. It takes no
/// lock and allocates nothing.
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

/// As [`trace_here`], of what a handler of signals has interrupted at any instruction: the walk
/// ends where it comes to `until`, the code of the [`unwinder`]. That moves the stack pointer in
/// ways which itself can't follow.
pub fn trace_interrupted(frames: &mut [usize], until: Range<usize>) -> usize {
    let mut trace = Walk { until, ..Walk::new(frames, None) };
    walk((&raw mut trace).cast());
    trace.found()
}

/// An address in the code of the system's unwinder.
pub fn unwinder() -> usize {
    _Unwind_Backtrace as *const () as usize
}
