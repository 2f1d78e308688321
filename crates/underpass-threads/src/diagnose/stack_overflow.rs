//! What is said when a thread has used up its stack.
//!
//! It is told on the kernel thread's stack for faults. What was interrupted may hold any lock, the
//! allocator's among them: first is said what needs neither lock nor memory. The names of functions
//! need both, so there is a limit to the time that they take.

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

/// Of the stack on which it is told: names of functions are found with large frames.
const STACK: usize = 512 * 1024;
/// Frames that are told: what overflows a stack mostly repeats itself.
const FRAMES: usize = 64;
/// How long the names of functions may take.
const SECONDS: u32 = 5;

/// Where the thread is that has overflowed its stack, for when the names can't be had.
static TRACE: [AtomicUsize; FRAMES] = [const { AtomicUsize::new(0) }; FRAMES];

/// Has overflows told from now on.
pub(crate) fn watch() {
    // Somebody else may have a better idea.
    let _ = fault::install(handle_fault);
}

/// The calling kernel thread runs an activation.
pub(crate) fn begin() -> Option<fault::FaultStack> {
    // Without memory for it, the kernel kills the process at an overflow.
    fault::stack(STACK).ok()
}

/// On the kernel thread that has the fault, in its handler.
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
    // Output that fails can't be helped.
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
            "It runs `{interface}::{method}` for a client. The server sets the size after it exports that interface: \
             `Server::stack_size`. A part of the method can have a larger stack: `thread::with_stack`. It is here:"
        ),
        None => writeln!(
            out,
            "It can have a larger one: `Builder::stack_size`, or `thread::with_stack` for a part. It is here:"
        ),
    };
    let mut frames = [0; FRAMES + 8];
    let switches = Context::switches_at(fault.instruction);
    let found = if switches { 0 } else { underpass_context::trace_here(&mut frames) };
    // The handler's own frames are above the one that was interrupted.
    let begin = frames[..found].iter().position(|&ip| ip == fault.instruction + 1).unwrap_or(0);
    let frames = &frames[begin..found.min(begin + FRAMES)];
    for (place, &frame) in TRACE.iter().zip(frames) {
        // Relaxed: for a handler that is as good as of the same kernel thread; for people.
        place.store(frame, Ordering::Relaxed);
    }
    if signal::install(signal::ALARM, give_up).is_ok() {
        signal::alarm(SECONDS);
    }
    let _ = trace::write(frames, &mut out);
    std::process::abort();
}

/// The names of functions take too long.
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
