//! Thread-local variables that are set for a scope, among threads of one activation: decision 0009.
//!
//! The crate `scoped-tls` keeps a pointer in a `std::thread_local!`, and restores the one before at
//! the scope's end. That is sound among kernel threads, where scopes are nested. User-level threads
//! of one activation share the variable, and their scopes need not be nested. The model here keeps
//! a [`Weak`] in place of the pointer: one that can't be upgraded stands for a dangling pointer.

use crate::common::with_processors;
use std::cell::RefCell;
use std::sync::{Arc, Weak};
use underpass_threads::{Builder, JoinHandle, park, spawn, yield_now};

/// What a scope sets.
type Set = Weak<&'static str>;

/// Where the model keeps the value: one place for each kernel thread, or one for each user-level
/// thread.
trait Place: Copy + Send + 'static {
    fn replace(self, set: Set) -> Set;
}

#[derive(Clone, Copy)]
struct OfStd;

impl Place for OfStd {
    fn replace(self, set: Set) -> Set {
        std::thread_local! {
            static PLACE: RefCell<Set> = const { RefCell::new(Weak::new()) };
        }
        PLACE.replace(set)
    }
}

#[derive(Clone, Copy)]
struct OfThread;

impl Place for OfThread {
    fn replace(self, set: Set) -> Set {
        underpass_threads::thread_local! {
            static PLACE: RefCell<Set> = const { RefCell::new(Weak::new()) };
        }
        PLACE.with(|place| place.replace(set))
    }
}

/// The result of the model's `with`.
#[derive(Debug, PartialEq)]
enum Read {
    Unset,
    Value(&'static str),
    Dangling,
}

fn read(place: impl Place) -> Read {
    let set = place.replace(Weak::new());
    let found = match set.upgrade() {
        Some(value) => Read::Value(*value),
        None if Weak::ptr_eq(&set, &Weak::new()) => Read::Unset,
        None => Read::Dangling,
    };
    place.replace(set);
    found
}

/// The model's `ScopedKey::set`: `value` is set while `inside` runs, and the one before is
/// restored.
fn set<R>(place: impl Place, value: &'static str, inside: impl FnOnce() -> R) -> R {
    let value = Arc::new(value);
    let before = place.replace(Arc::downgrade(&value));
    let result = inside();
    place.replace(before);
    result
}

/// The second thread's scope begins within the first one's and ends after it. Returns what the
/// second thread reads inside of its scope when the first one's has ended, and what it reads
/// afterwards, when nothing is set.
fn interleaved(place: impl Place, builder: impl Fn() -> Builder) -> (Read, Read) {
    let first = builder().spawn(move || set(place, "first", park)).unwrap();
    started(&first);
    let unparks = first.thread().clone();
    let second = builder().spawn(move || {
        let inside = set(place, "second", || {
            unparks.unpark();
            first.join().unwrap();
            read(place)
        });
        (inside, read(place))
    });
    second.unwrap().join().unwrap()
}

/// Returns when the thread waits in its scope.
fn started(thread: &JoinHandle<()>) {
    let waits = || {
        let dump = underpass_threads::dump();
        dump.threads.iter().any(|seen| seen.id == thread.thread().id() && seen.awaited.is_some())
    };
    while !waits() {
        spawn(yield_now).join().unwrap();
    }
}

#[test]
fn scopes_that_interleave_leave_what_is_gone_behind() {
    // As documented. This package can't prevent it, as the variable is not its own.
    with_processors(&[1], || {
        assert_eq!(interleaved(OfStd, Builder::new), (Read::Unset, Read::Dangling));
    });
}

#[test]
fn a_dedicated_activation_keeps_scopes_apart() {
    with_processors(&[2], || {
        let dedicated = || Builder::new().dedicated();
        assert_eq!(interleaved(OfStd, dedicated), (Read::Value("second"), Read::Unset));
    });
}

#[test]
fn variables_of_user_level_threads_keep_scopes_apart() {
    with_processors(&[1, 2], || {
        assert_eq!(interleaved(OfThread, Builder::new), (Read::Value("second"), Read::Unset));
    });
}
