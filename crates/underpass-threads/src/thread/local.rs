//! Thread-local variables of user-level threads.

use crate::wait::me;
use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A variable of which each thread, user-level or of the kernel, has its own value. Made by
/// [`thread_local!`](crate::thread_local).
pub struct LocalKey<T: 'static> {
    init: fn() -> T,
    /// Its place in a thread's values, counted from 1. 0: it has none yet.
    place: AtomicUsize,
}

/// The thread is ending, and its variables were dropped already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread's variables are gone: it is ending; use `try_with` in destructors")
    }
}

impl std::error::Error for AccessError {}

impl fmt::Debug for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T: 'static> LocalKey<T> {
    /// For the macro.
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> Self {
        Self { init, place: AtomicUsize::new(0) }
    }

    fn place(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        // Relaxed, all: a place guards nothing.
        let place = self.place.load(Ordering::Relaxed);
        if place != 0 {
            return place - 1;
        }
        let new = NEXT.fetch_add(1, Ordering::Relaxed);
        match self.place.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new - 1,
            Err(place) => place - 1,
        }
    }

    /// Runs `ask` on the calling thread's value, which is made at the first use.
    ///
    /// # Panics
    /// If the thread is ending and its values are gone.
    ///
    /// # Examples
    /// ```
    /// use std::cell::Cell;
    /// use underpass::thread;
    /// underpass::thread_local! {
    ///     static COUNT: Cell<u32> = Cell::new(0);
    /// }
    /// COUNT.with(|count| count.set(count.get() + 1));
    /// assert_eq!(thread::spawn(|| COUNT.with(Cell::get)).join().unwrap(), 0);
    /// assert_eq!(COUNT.with(Cell::get), 1);
    /// ```
    pub fn with<R>(&'static self, ask: impl FnOnce(&T) -> R) -> R {
        self.try_with(ask).expect("the thread's variables are there")
    }

    /// As [`with`](Self::with).
    ///
    /// # Errors
    /// [`AccessError`] if the thread is ending and its values are gone.
    ///
    /// # Panics
    /// Never: the value under a key has the key's type.
    pub fn try_with<R>(&'static self, ask: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let place = self.place();
        let locals = &me::control().locals;
        // SAFETY: the value is the calling thread's own, and no reference outlives the statement.
        let found = unsafe { locals.get() }.values.get(place).cloned().flatten();
        let value = match found {
            Some(value) => value,
            None => {
                // SAFETY: as above.
                if unsafe { locals.get() }.gone {
                    return Err(AccessError);
                }
                // The initializer may use this very variable.
                let value: Rc<dyn Any> = Rc::new((self.init)());
                // SAFETY: as above.
                let values = &mut unsafe { locals.get() }.values;
                if values.len() <= place {
                    values.resize(place + 1, None);
                }
                values[place].get_or_insert(value).clone()
            }
        };
        Ok(ask(value.downcast_ref().expect("the value under a key has the key's type")))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

/// Declares variables of which each user-level thread has its own value, as `std::thread_local!`
/// does for kernel threads.
///
/// Threads of one activation share the variables of `std::thread_local!`. They don't share those of
/// this macro.
///
/// # Scoped variables
/// Some libraries set a `std::thread_local!` for a scope, and restore the value before it at the
/// scope's end. Among kernel threads such scopes are nested. Threads of one activation that wait
/// within their scopes interleave them. Then the second thread restores what the first one had set,
/// after the first one's scope has ended.
///
/// The crate `scoped-tls` (and `scoped-tls-hkt`) keeps a *reference* in this way, and reads memory
/// that is gone: **undefined behaviour, from safe code**. Nothing here can prevent it, as the
/// variable is the library's. Other libraries that keep values in this way (a current runtime, a
/// default logger) show one thread the value of another.
///
/// *Remedy*, any of these:
/// * Nothing in the scope waits: no lock, channel, call, sleep or yield of this package. (A thread
///   is not switched at other places.)
/// * The thread has an activation for itself: [`Builder::dedicated`](crate::Builder::dedicated).
/// * The scope is within [`blocking`](crate::blocking()), or on a kernel thread
///   (`std::thread::spawn`).
/// * The variable is one of this macro. It may be set for a scope freely.
///
/// # Examples
/// ```
/// use std::cell::RefCell;
/// use underpass::thread;
/// underpass::thread_local! {
///     /// What this thread has seen.
///     static SEEN: RefCell<Vec<u32>> = RefCell::new(Vec::new());
/// }
/// let there = thread::spawn(|| {
///     SEEN.with(|seen| seen.borrow_mut().push(7));
///     thread::yield_now();
///     SEEN.with(|seen| seen.borrow().clone())
/// });
/// assert_eq!(there.join().unwrap(), [7]);
/// assert!(SEEN.with(|seen| seen.borrow().is_empty()));
/// ```
#[macro_export]
macro_rules! thread_local {
    () => {};
    ($(#[$meta:meta])* $vis:vis static $name:ident : $type:ty = const $init:block $(; $($rest:tt)*)?) => {
        $crate::thread_local!($(#[$meta])* $vis static $name: $type = $init $(; $($rest)*)?);
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident : $type:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$meta])* $vis static $name: $crate::LocalKey<$type> = {
            fn init() -> $type { $init }
            $crate::LocalKey::new(init)
        };
        $($crate::thread_local!($($rest)*);)?
    };
}
