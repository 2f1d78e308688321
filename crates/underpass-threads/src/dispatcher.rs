//! The thread that takes incoming calls and runs them: each call on a thread of its own, without a switch unless it pauses.
//!
//! A dispatcher runs a procedure on its own stack. If the procedure pauses, that thread is the call's from then on, the
//! activation starts another dispatcher, and the first ends when its call has ended. So the stack of a dispatcher is the
//! E-stack of its call (LRPC), taken from the pool only when a call has come.

use crate::handle::Info;
use crate::scheduler::Scheduler;
use std::sync::{Arc, OnceLock};
use underpass_processor::Spin;

/// The most calls of one line in a row while others may wait.
const SHARE: u32 = 8;
/// Passes over the lines between two looks at timers and other activations.
const GLANCE: u32 = 64;

/// What dispatchers are called.
pub(crate) fn info() -> Arc<Info> {
    static INFO: OnceLock<Arc<Info>> = OnceLock::new();
    INFO.get_or_init(|| Info::new(Some("dispatcher".to_owned()))).clone()
}

/// Serves calls until there are none for some time, or until another dispatches.
pub(crate) fn run(own: &'static Scheduler) {
    let me = own.current();
    let mut spin = Spin::default();
    let mut passes = 0u32;
    loop {
        if own.stale() {
            own.lines();
        }
        let (mut served, mut pays, mut shares) = (false, false, false);
        for number in 0.. {
            let Some(line) = own.line(number) else { break };
            served |= line.poll();
            pays |= line.elsewhere();
            shares |= line.shares();
            if !own.may_serve(&**line) {
                continue;
            }
            for _ in 0..SHARE {
                match own.serving(me, || line.serve()) {
                    None => return,
                    Some(false) => break,
                    Some(true) => served = true,
                }
                if own.busy() {
                    break;
                }
            }
        }
        passes = passes.wrapping_add(1);
        if own.busy() || (passes.is_multiple_of(GLANCE) && own.wanted()) {
            own.yield_now();
            spin.reset();
        } else if served {
            spin.reset();
        } else if !pays || !spin.again(shares) {
            return own.retire_dispatcher();
        }
    }
}
