//! What stands for a thread to those who make it go on.

use crate::outside;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use underpass_processor::Parker;

use crate::handle::Info;

/// It runs, or will without being told.
const RUNNING: u32 = 0;
/// Somebody told it to go on.
const TOLD: u32 = 1;
/// It waits to be told.
const BLOCKED: u32 = 2;

/// The home of plain kernel threads.
const KERNEL: u32 = u32::MAX;

/// A thread's control block. It outlives the thread: blocks are used again and never freed, so telling one that has ended
/// to go on reaches at worst another thread, which finds that its own wait is not over and waits on.
///
/// | field | who writes it |
/// |---|---|
/// | `state` | its activation `RUNNING` and `BLOCKED`; anybody `TOLD` |
/// | `home` | nobody, once it is made |
/// | `seat` | its activation, before the thread first runs |
/// | `parker` | a plain kernel thread's sleep |
/// | `info` | its activation, before it first runs and after it has ended |
#[derive(Debug)]
pub struct Control {
    state: AtomicU32,
    woken: std::sync::atomic::AtomicBool,
    home: u32,
    seat: AtomicU32,
    parker: Parker,
    info: Mutex<Option<Arc<Info>>>,
}

/// Blocks of threads that have ended, by home. A block keeps its home for ever: whoever tells the thread of a block reads its
/// home first, and must not queue another's thread there.
static UNUSED: Mutex<Option<HashMap<u32, Vec<&'static Control>>>> = Mutex::new(None);

impl Control {
    /// One for a user-level thread of activation `home`, with its context at `seat`.
    pub(crate) fn at(home: usize, seat: usize, info: Arc<Info>) -> &'static Self {
        let control = Self::take(home as u32, info);
        // Relaxed, both: others learn of this control by something that synchronizes.
        control.seat.store(seat as u32, Ordering::Relaxed);
        control.state.store(RUNNING, Ordering::Relaxed);
        control
    }

    /// One for a plain kernel thread.
    pub(crate) fn of_kernel_thread(info: Arc<Info>) -> &'static Self {
        Self::take(KERNEL, info)
    }

    fn take(home: u32, info: Arc<Info>) -> &'static Self {
        let unused = Self::unused(|unused| unused.entry(home).or_default().pop());
        let control = unused.unwrap_or_else(|| {
            Box::leak(Box::new(Self {
                state: AtomicU32::new(RUNNING),
                woken: std::sync::atomic::AtomicBool::new(false),
                home,
                seat: AtomicU32::new(0),
                parker: Parker::new(),
                info: Mutex::new(None),
            }))
        });
        *control.info.lock().unwrap_or_else(PoisonError::into_inner) = Some(info);
        control
    }

    /// The thread has ended.
    pub(crate) fn retire(&'static self) {
        *self.info.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Self::unused(|unused| unused.entry(self.home).or_default().push(self));
    }

    fn unused<R>(with: impl FnOnce(&mut HashMap<u32, Vec<&'static Self>>) -> R) -> R {
        with(UNUSED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
    }

    /// Tells the thread to go on. If it isn't blocked, its next block ends at once.
    #[inline]
    pub fn go_on(&'static self) {
        if self.home == KERNEL {
            self.parker.call();
            return;
        }
        // SYNC with `state` swap in `resumed` and compare_exchange in `blocked`: what the caller did before it told.
        if self.state.swap(TOLD, Ordering::AcqRel) == BLOCKED {
            outside::make_ready(self, self.home as usize);
        }
    }

    /// Ends the suspension of this thread.
    pub fn wake(&'static self) {
        self.woken.store(true, Ordering::Release);
        self.go_on();
    }

    /// The number of the thread.
    pub fn id(&self) -> u64 {
        self.info().map_or(0, |info| info.number())
    }

    pub(crate) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    /// Its activation is about to run it.
    #[inline]
    pub(crate) fn resumed(&self) {
        // SYNC with `state` swap in `go_on`. A swap, not a store: a teller that comes in between must be seen.
        self.state.swap(RUNNING, Ordering::AcqRel);
    }

    /// It has paused to block; `false` if it was told to go on in the meantime.
    #[inline]
    pub(crate) fn blocked(&self) -> bool {
        // SYNC with `state` swap in `go_on`: the thread has left its stack.
        self.state.compare_exchange(RUNNING, BLOCKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn seat(&self) -> usize {
        self.seat.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn parker(&self) -> &Parker {
        &self.parker
    }

    pub(crate) fn info(&self) -> Option<Arc<Info>> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
