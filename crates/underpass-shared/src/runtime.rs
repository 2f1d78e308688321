//! What this crate needs of the runtime: a thread that waits at a gate until somebody opens it. It
//! is `underpass-threads`, or a stand-in over loom's threads under `cfg(underpass_loom)`.

#[cfg(not(underpass_loom))]
pub(crate) use crate::suspend::{BellSpin, Control, Woken, nap, open, panicking, suspend};
#[cfg(not(underpass_loom))]
pub(crate) use crate::task::TaskWaker;
#[cfg(underpass_loom)]
pub(crate) use stand_in::{Control, OneLook as BellSpin, TaskWaker, Woken, nap, open, suspend};

/// Whether the deadline has passed.
#[cfg(not(underpass_loom))]
pub(crate) fn is_past(deadline_ns: Option<u64>) -> bool {
    deadline_ns.is_some_and(|deadline| deadline <= underpass_os::clock::now_ns())
}

/// A model's deadline passes while the thread is suspended, at any moment.
#[cfg(underpass_loom)]
pub(crate) fn is_past(_: Option<u64>) -> bool {
    false
}

/// Stands behind a sequentially consistent write and before such a read of another word. Loom
/// takes them for a releasing and an acquiring one, so models need a fence between them. The
/// processor and the compiler don't.
#[inline(always)]
pub(crate) fn write_then_read() {
    #[cfg(underpass_loom)]
    underpass_seam::atomic::fence(underpass_seam::atomic::Ordering::SeqCst);
}

#[cfg(underpass_loom)]
mod stand_in {
    use loom::sync::{Condvar, Mutex};
    use std::cell::Cell;
    use underpass_seam::Gate;

    /// A thread of loom's that can wait.
    #[derive(Debug)]
    #[repr(align(8))]
    pub struct Control {
        woken: Mutex<bool>,
        told: Condvar,
    }

    loom::thread_local! {
        static ME: Cell<Option<&'static Control>> = Cell::new(None);
    }

    fn me() -> &'static Control {
        ME.with(|me| {
            me.get().unwrap_or_else(|| {
                me.set(Some(Box::leak(Box::new(Control { woken: Mutex::new(false), told: Condvar::new() }))));
                me.get().expect("it was set just now")
            })
        })
    }

    /// No model has tasks.
    #[derive(Debug, Default)]
    pub struct TaskWaker;

    impl TaskWaker {
        pub fn wake(&self) {}

        pub fn clear(&self) {}
    }

    /// A model's thread looks once.
    #[derive(Debug, Default)]
    pub struct OneLook;

    impl OneLook {
        pub fn spin_then<P, R>(
            &self,
            _: Option<u64>,
            begin: impl FnOnce() -> P,
            came: impl Fn() -> bool,
            block: impl FnOnce() -> R,
        ) -> Option<R> {
            let polling = begin();
            let has_come = came();
            drop(polling);
            if has_come { None } else { Some(block()) }
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Woken {
        Woken,
        Late,
        #[allow(dead_code)] // No model is cancelled: that is the same as a deadline.
        Cancelled,
    }

    pub fn open(gate: &Gate<Control>) {
        let Some(who) = gate.open() else { return };
        let mut woken = who.woken.lock().unwrap();
        assert!(!*woken, "a thread is woken once for each suspension");
        *woken = true;
        who.told.notify_one();
    }

    pub fn suspend(gate: &Gate<Control>, _: &'static str, deadline_ns: Option<u64>, _: bool) -> Woken {
        let me = me();
        if !gate.register(me) {
            return Woken::Woken;
        }
        if deadline_ns.is_some() && gate.withdraw(me) {
            return Woken::Late;
        }
        let mut woken = me.woken.lock().unwrap();
        while !*woken {
            woken = me.told.wait(woken).unwrap();
        }
        *woken = false;
        Woken::Woken
    }

    pub fn nap(_: Option<u64>) {
        loom::thread::yield_now();
    }
}
