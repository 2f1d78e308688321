//! The report of a stack overflow.
//!
//! It is written on the kernel thread's stack for faults. What was interrupted may hold any lock,
//! the allocator's among them. So the report begins with what needs neither locks nor memory. Names
//! of functions need both, so the time for them is limited.

use crate::block::control::Control;
use crate::block::thread_id::ThreadId;
use crate::diagnose::show::ThreadLabel;
use crate::diagnose::trace;
use crate::sched::scheduler::{self, Scheduler};
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use underpass_context::Context;
use underpass_os::fault::{self, Fault};
use underpass_os::{GUARD, process, signal};
use underpass_processor::preempt;

/// Bytes of the stack on which the report is written: looking up names takes large frames.
const STACK: usize = 512 * 1024;
/// How many frames are reported: what overflows a stack mostly repeats itself.
const FRAMES: usize = 64;
/// How long looking up names may take.
const SECONDS: u32 = 5;

/// The frames of the thread that has overflowed its stack, for the case that the names take too
/// long.
static TRACE: [AtomicUsize; FRAMES] = [const { AtomicUsize::new(0) }; FRAMES];

/// Has stack overflows reported from now on.
pub(crate) fn watch() {
    // If the program has a handler of its own, that one stays.
    let _ = fault::install(handle_fault);
}

/// Gives the calling kernel thread, which runs an activation, a stack for faults.
pub(crate) fn begin() -> Option<fault::FaultStack> {
    // Without memory for it, the kernel kills the process at an overflow.
    fault::stack(STACK).ok()
}

/// The handler, on the kernel thread that has the fault.
fn handle_fault(fault: Fault) {
    let Some((own, me, context)) = scheduler::here() else { return };
    let (low, high) = context.bounds();
    if !(low..low + GUARD).contains(&fault.address) {
        return;
    }
    preempt::disable();
    overflow(own, me, high - low - GUARD, fault);
}

fn overflow(own: &Scheduler, me: &'static Control, size: usize, fault: Fault) -> ! {
    let mut out = StandardError;
    let id = ThreadId(me.id());
    // A failure of the output can't be handled.
    let _ = me.try_with_name(|name| {
        writeln!(
            out,
            "\nunderpass: thread {} has overflowed its stack of {} KiB",
            ThreadLabel { id, name },
            size / 1024
        )
    });
    let _ = match own.served_by(me).and_then(|line| line.runs(me.id())) {
        Some((interface, method)) => writeln!(
            out,
            "It runs `{interface}::{method}` for a client. Export the interface with a larger stack: \
             `{interface}::serve(..).stack_size(BYTES)` (`Service::stack_size`). A part of the method can have a larger \
             stack: `thread::with_stack`. It is here:"
        ),
        None => writeln!(
            out,
            "It can have a larger one: `Builder::stack_size`, or `thread::with_stack` for a part. It is here:"
        ),
    };
    let mut frames = [0; FRAMES + 8];
    let switches = Context::switches_at(fault.instruction);
    let found = if switches { 0 } else { underpass_context::trace_here(&mut frames) };
    // The handler's own frames are above the interrupted one.
    let begin = frames[..found].iter().position(|&ip| ip == fault.instruction + 1).unwrap_or(0);
    let frames = &frames[begin..found.min(begin + FRAMES)];
    for (place, &frame) in TRACE.iter().zip(frames) {
        // Relaxed: the alarm's handler may run on another kernel thread, but the frames are only
        // for people.
        place.store(frame, Ordering::Relaxed);
    }
    if signal::install(signal::ALARM, give_up).is_ok() {
        signal::alarm(SECONDS);
    }
    let _ = trace::write(frames, &mut out);
    std::process::abort();
}

/// Looking up names takes too long: prints the addresses.
fn give_up() {
    let mut out = StandardError;
    let frames = TRACE.iter().map(|place| place.load(Ordering::Relaxed)).take_while(|&frame| frame != 0);
    for frame in frames {
        let _ = writeln!(out, "      {frame:#x}");
    }
    std::process::abort();
}

/// The standard error output, by system calls alone.
struct StandardError;

impl Write for StandardError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        process::say(text.as_bytes());
        Ok(())
    }
}
