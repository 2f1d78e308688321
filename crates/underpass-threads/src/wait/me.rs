//! The control block of the calling thread.

use crate::block::control::{Control, flag};
use crate::block::locals;
use crate::sched::scheduler;
use crate::sched::thread_end::release;
use crate::sched::unused_blocks;
use crate::wait::kernel_threads::KernelThread;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

/// A plain kernel thread's control block, for as long as the thread lives.
struct Own(&'static Control, Arc<KernelThread>);

impl Own {
    fn new() -> Self {
        let control = unused_blocks::take(flag::KERNEL);
        if let Some(name) = std::thread::current().name() {
            control.set_name(name.into());
        }
        Self(control, KernelThread::enter(control))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Destructors of the thread's variables may ask for the calling thread.
        locals::end(self.0);
        KERNEL.set(None);
        self.1.leave();
        release(self.0);
    }
}

thread_local! {
    static KERNEL: Cell<Option<&'static Control>> = const { Cell::new(None) };
    static OWN: OnceCell<Own> = const { OnceCell::new() };
}

/// The control block of the calling thread.
#[inline]
pub(crate) fn control() -> &'static Control {
    scheduler::running().map_or_else(of_kernel_thread, |(_, me)| me)
}

/// As [`control`], without giving one to a kernel thread that has none.
#[inline]
pub(crate) fn known() -> Option<&'static Control> {
    scheduler::running().map(|(_, me)| me).or_else(|| KERNEL.get())
}

fn of_kernel_thread() -> &'static Control {
    KERNEL.get().unwrap_or_else(enrol)
}

/// Gives a plain kernel thread a control block, at its first use. If its own variables are being
/// destroyed, this is a second block, which is not given back.
#[cold]
fn enrol() -> &'static Control {
    let own = Own::new();
    let control = own.0;
    KERNEL.set(Some(control));
    let mut own = Some(own);
    let kept = OWN.try_with(|place| place.set(own.take().expect("it was put there just now")).is_ok());
    if kept != Ok(true) {
        std::mem::forget(own);
    }
    control
}

/// The registration of the calling kernel thread for dumps, unless the thread is ending.
pub(crate) fn kernel() -> Option<Arc<KernelThread>> {
    OWN.try_with(|own| Some(own.get()?.1.clone())).ok().flatten()
}
