//! Sections without preemption: Raven's `lock_count`. If a time slice ends meanwhile, that is only
//! noted (`upcall_pending`).

use std::marker::PhantomData;
use underpass_processor::preempt;

/// Holds off preemption while it lives: for the runtime's own short locks. The thread does not
/// block meanwhile.
#[derive(Debug)]
pub struct CriticalSection(PhantomData<*mut ()>);

/// Holds off preemption while the value lives. Costs a call and an instruction each way.
#[inline]
pub fn critical() -> CriticalSection {
    preempt::disable();
    CriticalSection(PhantomData)
}

impl Drop for CriticalSection {
    #[inline]
    fn drop(&mut self) {
        preempt::enable();
    }
}

/// Holds off preemption while it lives, during a few instructions. No other such section begins
/// among them. The thread does not block meanwhile.
#[derive(Debug)]
pub struct BriefSection(PhantomData<*mut ()>);

/// Holds off preemption while the value lives, for a few instructions. Such sections do not nest.
/// Costs a store each way.
#[inline(always)]
pub fn brief() -> BriefSection {
    preempt::begin_brief();
    BriefSection(PhantomData)
}

impl Drop for BriefSection {
    #[inline(always)]
    fn drop(&mut self) {
        preempt::end_brief();
    }
}

/// The calling thread keeps its processor while this lives, or until it blocks. See [`no_preempt`].
#[derive(Debug)]
pub struct NoPreempt(PhantomData<*mut ()>);

/// Keeps the processor for the calling thread when its time slice ends, as long as the value lives.
///
/// If a slice has ended meanwhile, the thread gives way when the value is dropped. A thread that
/// blocks or yields lets others run all the same. On a plain kernel thread it has no effect.
/// Raven's `lock_count` (section on user-level scheduling).
///
/// # Examples
/// ```
/// use underpass::thread;
///
/// thread::spawn(|| {
///     let _brief = thread::no_preempt();
///     // Nobody waits long for a spin lock that is taken here.
/// }).join().unwrap();
/// ```
pub fn no_preempt() -> NoPreempt {
    preempt::disable();
    NoPreempt(PhantomData)
}

impl Drop for NoPreempt {
    fn drop(&mut self) {
        preempt::enable();
    }
}
