//! The thread that asks.

use crate::control::Control;
use crate::handle::{Info, Thread};
use crate::latch::Latch;
use crate::scheduler;
use crate::wait::wait_on;
use std::sync::Arc;
use std::time::Duration;
use underpass_os::{clock, cpu};

/// A plain kernel thread's control block, for as long as the thread lives.
struct Own {
    control: &'static Control,
    info: Arc<Info>,
}

impl Own {
    fn new() -> Self {
        let info = Info::new(std::thread::current().name().map(str::to_owned));
        Self { control: Control::of_kernel_thread(info.clone()), info }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.control.retire();
    }
}

thread_local! {
    static OWN: Own = Own::new();
}

/// The control block of the calling thread.
#[inline]
pub(crate) fn control() -> &'static Control {
    scheduler::with(|own| own.current()).unwrap_or_else(|| OWN.with(|own| own.control))
}

/// The calling thread, user-level or of the kernel.
///
/// # Panics
/// Never: a thread that runs has not ended.
pub fn current() -> Thread {
    let info = match scheduler::with(|own| own.current().info()) {
        Some(info) => info.expect("a thread that runs has not ended"),
        None => OWN.with(|own| own.info.clone()),
    };
    Thread { info }
}

/// Whether the caller is a user-level thread.
pub fn on_user_thread() -> bool {
    scheduler::with(|_| ()).is_some()
}

/// Lets other threads go first. URPC's `YIELD` (section 4.1).
///
/// # Examples
/// ```
/// underpass_threads::spawn(|| underpass_threads::yield_now()).join().unwrap();
/// ```
#[inline]
pub fn yield_now() {
    if scheduler::with(|own| own.yield_now()).is_none() {
        cpu::give_way();
    }
}

/// Blocks the calling thread, and no other, for at least `span`.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// underpass_threads::spawn(|| underpass_threads::sleep(Duration::from_millis(1))).join().unwrap();
/// ```
pub fn sleep(span: Duration) {
    if on_user_thread() {
        wait_on(&Latch::default(), None, Some(clock::deadline_ns(span)));
    } else {
        std::thread::sleep(span);
    }
}
