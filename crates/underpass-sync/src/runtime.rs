//! What this crate needs of the runtime: threads that wait and are woken. It is
//! `underpass-threads`, or a stand-in over loom's threads under `cfg(underpass_loom)`.

use std::time::{Duration, Instant};

#[cfg(not(underpass_loom))]
pub(crate) use crate::suspend::{suspend, suspend_as_call, wake};
#[cfg(not(underpass_loom))]
pub(crate) use underpass_threads::{
    Awaited, BriefSection, Cancelled, Control, CriticalSection, Wait, Woken, brief, critical, me, panicking,
    yield_now,
};

#[cfg(not(underpass_loom))]
pub(crate) use underpass_os::{
    barrier::{heavy, register as asymmetric},
    thread::here,
};

/// The light half of an asymmetric barrier, of which `heavy` is the other half. Where the kernel
/// has the heavy half (`asymmetric`), the light one orders only the compiler.
#[cfg(not(underpass_loom))]
#[inline(always)]
pub(crate) fn light() {
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(underpass_loom)]
pub(crate) use stand_in::*;
#[cfg(underpass_loom)] // For the models of this crate.
pub use stand_in::{Cancelled, stand_on};

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitLimit {
    /// Not at all.
    None,
    /// Until this time of `underpass_os::clock`, in ns.
    Until(u64),
    /// For ever.
    Endless,
}

impl WaitLimit {
    /// For `span` from now.
    pub(crate) fn of(span: Duration) -> Self {
        Self::Until(underpass_os::clock::deadline_ns(span))
    }

    /// Until `deadline`.
    pub(crate) fn until(deadline: Instant) -> Self {
        Self::of(deadline.saturating_duration_since(Instant::now()))
    }

    /// As [`suspend`] expects it.
    #[inline]
    pub(crate) fn deadline_ns(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Until(deadline) => Some(deadline),
            Self::Endless => None,
        }
    }
}

/// Defines a `const fn`. Under loom it is an ordinary function, since loom's atomics can't be made
/// at compile time.
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) -> $result:ty $body:block) => {
        #[cfg(not(underpass_loom))]
        $(#[$meta])*
        $vis const fn $name($($arg: $ty),*) -> $result $body

        #[cfg(underpass_loom)]
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) -> $result $body
    };
}
pub(crate) use const_fn;

#[cfg(underpass_loom)]
mod stand_in {
    use loom::sync::{Condvar, Mutex};
    use std::cell::Cell;
    use std::fmt;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A thread of loom's that can wait.
    #[derive(Debug)]
    #[repr(align(8))]
    pub struct Control {
        id: u64,
        // Not `park`: in loom, `unpark` would also end a wait for a mutex.
        woken: Mutex<bool>,
        told: Condvar,
    }

    loom::thread_local! {
        static ME: Cell<Option<&'static Control>> = Cell::new(None);
    }

    /// The calling thread. Control blocks are never freed here either: those of a model are leaked.
    pub fn me() -> &'static Control {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ME.with(|me| {
            me.get().unwrap_or_else(|| {
                let id = NEXT.fetch_add(1, Ordering::Relaxed);
                let control = Control { id, woken: Mutex::new(false), told: Condvar::new() };
                me.set(Some(Box::leak(Box::new(control))));
                me.get().expect("it was set just now")
            })
        })
    }

    /// Ends a suspension.
    pub fn wake(who: &'static Control) {
        who.wake();
    }

    impl Control {
        fn wake(&'static self) {
            let mut woken = self.woken.lock().unwrap();
            assert!(!*woken, "a thread is woken once for each suspension");
            *woken = true;
            self.told.notify_one();
        }

        pub fn id(&self) -> u64 {
            self.id
        }
    }

    pub trait Wait {
        fn abandon(&self, who: &'static Control) -> bool;
        fn describe(&self) -> Awaited {
            Awaited { kind: "something", address: 0, holder: None }
        }
    }

    #[derive(Clone, Copy, Debug)]
    #[allow(dead_code)] // Dumps show it, and there are none of models.
    pub struct Awaited {
        pub kind: &'static str,
        pub address: usize,
        pub holder: Option<u64>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Woken {
        Woken,
        Late,
        // The stand-in is never cancelled: to a list, that is the same as a deadline.
        #[allow(dead_code)]
        Cancelled,
    }

    /// The error of a cancelled wait, which no model has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Cancelled;

    impl fmt::Display for Cancelled {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the thread was cancelled")
        }
    }

    /// A deadline passes at any moment: loom tries all of them.
    pub fn suspend(me: &'static Control, wait: &dyn Wait, deadline_ns: Option<u64>, _: bool) -> Woken {
        let _ = wait.describe();
        if deadline_ns.is_some() && wait.abandon(me) {
            return Woken::Late;
        }
        let mut woken = me.woken.lock().unwrap();
        while !*woken {
            woken = me.told.wait(woken).unwrap();
        }
        *woken = false;
        Woken::Woken
    }

    /// As [`suspend`].
    pub fn suspend_as_call(me: &'static Control, wait: &dyn Wait, deadline_ns: Option<u64>) -> Woken {
        suspend(me, wait, deadline_ns, true)
    }

    loom::thread_local! {
        static HERE: Cell<usize> = Cell::new(0);
    }

    /// From now on the calling thread is the only one on this kernel thread, and locks may be
    /// biased towards that. In models that don't call this, locks are not biased.
    pub fn stand_on(kernel_thread: usize) {
        HERE.with(|here| here.set(kernel_thread));
    }

    pub fn here() -> usize {
        HERE.with(Cell::get)
    }

    pub fn asymmetric() -> bool {
        true
    }

    pub fn light() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub fn heavy() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    #[derive(Debug)]
    pub struct CriticalSection;

    pub fn critical() -> CriticalSection {
        CriticalSection
    }

    #[derive(Debug)]
    pub struct BriefSection;

    pub fn brief() -> BriefSection {
        BriefSection
    }

    pub fn panicking() -> bool {
        std::thread::panicking()
    }

    pub fn yield_now() {
        loom::thread::yield_now();
    }
}
