//! Waiting: the caller's context stays loaded while there is nothing else to do, and gives way when there is.

use crate::current::control;
use crate::latch::Latch;
use crate::scheduler::{self, Scheduler};
use underpass_os::clock::now_ns;
use underpass_processor::{Line, Role, Spin, sleep};

/// Waits until `latch` is open; `false` if `deadline_ns` passes first.
///
/// Meanwhile the caller polls `line`, if what it waits for comes from there. A user-level thread does so only while
/// its activation has nothing else to run (URPC, footnote 1), and blocks otherwise. A plain kernel thread polls for about as
/// long as a wake-up would cost, then sleeps in the kernel.
#[inline]
pub fn wait_on(latch: &Latch, line: Option<&dyn Line>, deadline_ns: Option<u64>) -> bool {
    match scheduler::with(|own| own) {
        Some(own) => block(own, latch, line, deadline_ns),
        None => sleep_on(latch, line, deadline_ns),
    }
}

/// Waits until `latch` is open.
pub(crate) fn wait_for(latch: &Latch) {
    wait_on(latch, None, None);
}

fn block(own: &'static Scheduler, latch: &Latch, line: Option<&dyn Line>, deadline_ns: Option<u64>) -> bool {
    let me = own.current();
    let mut spin = Spin::default();
    loop {
        if latch.is_open() {
            return true;
        }
        if let Some(line) = line
            && !own.busy()
        {
            if line.poll() && latch.is_open() {
                return true;
            }
            if line.elsewhere() && spin.again(line.shares()) && !(spin.fresh_batch() && own.glance()) {
                continue;
            }
        }
        if deadline_ns.is_some_and(|deadline| deadline <= now_ns()) {
            return latch.is_open();
        }
        if !latch.block(me) {
            return true;
        }
        own.block_until(me, deadline_ns);
    }
}

fn sleep_on(latch: &Latch, line: Option<&dyn Line>, deadline_ns: Option<u64>) -> bool {
    let me = control();
    let mut spin = Spin::default();
    loop {
        if latch.is_open() {
            return true;
        }
        if let Some(line) = line {
            if line.poll() && latch.is_open() {
                return true;
            }
            if line.elsewhere() && spin.again(line.shares()) {
                continue;
            }
        }
        if deadline_ns.is_some_and(|deadline| deadline <= now_ns()) {
            return latch.is_open();
        }
        if !latch.block(me) {
            return true;
        }
        line.inspect(|line| line.enter());
        let role = Role::Last { others: false };
        sleep(me.parker(), line.as_slice(), role, deadline_ns, || latch.is_open());
        line.inspect(|line| line.leave());
    }
}
