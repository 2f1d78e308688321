//! A thread's closure, and later its result, stored in its control block. So starting a thread
//! needs no allocation.

use crate::block::owned::Owned;
use std::mem::{MaybeUninit, align_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A closure or result of at most this many bytes is stored without an allocation.
const ROOM: usize = 64;

#[repr(align(16))]
struct Room {
    _bytes: MaybeUninit<[u8; ROOM]>,
}

/// Functions on a body whose types are erased.
struct BodyVtable {
    run: unsafe fn(*mut Room),
    discard: unsafe fn(*mut Room),
}

/// A closure, then its result: `empty -> closure -> (it runs) -> result -> empty`.
pub(crate) struct Body {
    room: Owned<Room>,
    vtable: Owned<Option<&'static BodyVtable>>,
}

impl Body {
    pub(crate) const fn empty() -> Self {
        Self { room: Owned::new(Room { _bytes: MaybeUninit::uninit() }), vtable: Owned::new(None) }
    }

    /// Stores a closure.
    ///
    /// # Safety
    /// The body is empty, and nobody but the caller uses it. What `body` borrows outlives its run.
    pub(crate) unsafe fn fill<F: FnOnce() -> T, T>(&self, body: F) {
        // SAFETY: nobody but the caller uses it.
        unsafe { *self.vtable.get() = Some(Typed::<F, T>::VTABLE) };
        // SAFETY: as above.
        let room = unsafe { self.room.get() };
        // SAFETY: it is empty.
        unsafe { put(room, body) };
    }

    /// Runs the closure and stores its result. A panic is a result too.
    ///
    /// # Safety
    /// The body holds a closure, and nobody but the caller uses it.
    #[inline]
    pub(crate) unsafe fn run(&self) {
        // SAFETY: nobody but the caller uses it.
        let vtable = unsafe { self.vtable.get() }.expect("a body that runs was filled");
        // SAFETY: as above; the reference is a pointer by the time the closure runs.
        let room: *mut Room = unsafe { self.room.get() };
        // SAFETY: it holds the closure that `vtable` came with.
        unsafe { (vtable.run)(room) };
    }

    /// Drops the result.
    ///
    /// # Safety
    /// The body holds a result, and nobody but the caller uses it.
    pub(crate) unsafe fn discard(&self) {
        // SAFETY: nobody but the caller uses it.
        let vtable = unsafe { self.vtable.get() }.expect("a body with a result was filled");
        // SAFETY: as above.
        let room: *mut Room = unsafe { self.room.get() };
        // SAFETY: it holds the result that `vtable` came with.
        let discard = || unsafe { (vtable.discard)(room) };
        if catch_unwind(AssertUnwindSafe(discard)).is_err() {
            eprintln!("underpass: dropping the result of a thread that nobody joined panicked; aborting");
            std::process::abort();
        }
    }

    /// Takes the result out.
    ///
    /// # Safety
    /// The body holds a result of this type, and nobody but the caller uses it.
    #[inline]
    pub(crate) unsafe fn take<T>(&self) -> std::thread::Result<T> {
        // SAFETY: nobody but the caller uses it.
        let room = unsafe { self.room.get() };
        // SAFETY: it holds one.
        unsafe { take(room) }
    }
}

struct Typed<F, T>(F, T);

impl<F: FnOnce() -> T, T> Typed<F, T> {
    const VTABLE: &'static BodyVtable = &BodyVtable { run: Self::run, discard: Self::discard };

    unsafe fn run(room: *mut Room) {
        // SAFETY: the caller says that the closure is there.
        let body: F = unsafe { take(room) };
        let result = catch_unwind(AssertUnwindSafe(body));
        // SAFETY: it was emptied just now.
        unsafe { put(room, result) };
    }

    unsafe fn discard(room: *mut Room) {
        // SAFETY: the caller says that the result is there.
        drop(unsafe { take::<std::thread::Result<T>>(room) });
    }
}

const fn fits<V>() -> bool {
    size_of::<V>() <= ROOM && align_of::<V>() <= align_of::<Room>()
}

/// # Safety
/// `room` is valid and empty.
#[inline]
unsafe fn put<V>(room: *mut Room, value: V) {
    if fits::<V>() {
        // SAFETY: it fits, by size and alignment.
        unsafe { room.cast::<V>().write(value) };
    } else {
        let value = Box::into_raw(Box::new(value));
        // SAFETY: a pointer fits.
        unsafe { room.cast::<*mut V>().write(value) };
    }
}

/// # Safety
/// `room` is valid and holds a `V`, which is no longer there afterwards.
#[inline]
unsafe fn take<V>(room: *mut Room) -> V {
    if fits::<V>() {
        // SAFETY: `put` wrote it there.
        return unsafe { room.cast::<V>().read() };
    }
    // SAFETY: `put` wrote the pointer there.
    let value = unsafe { room.cast::<*mut V>().read() };
    // SAFETY: it came from a box.
    *unsafe { Box::from_raw(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn results<T: Send>(body: impl FnOnce() -> T) -> std::thread::Result<T> {
        let room = Body::empty();
        // SAFETY: empty, then filled, then run.
        unsafe { room.fill(body) };
        // SAFETY: filled.
        unsafe { room.run() };
        // SAFETY: run.
        unsafe { room.take() }
    }

    #[test]
    fn small_and_large_bodies_and_results_come_through() {
        assert_eq!(results(|| 7u8).unwrap(), 7);
        let large = [3u64; 100];
        assert_eq!(results(move || large).unwrap(), large);
        let panic = results(|| -> u8 { panic!("no") }).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"no"));
    }

    #[test]
    fn nothing_is_dropped_twice_or_forgotten() {
        let kept = Arc::new(());
        let (in_body, in_result) = (kept.clone(), kept.clone());
        let room = Body::empty();
        // SAFETY: empty.
        unsafe { room.fill(move || (drop(in_body), in_result).1) };
        assert_eq!(Arc::strong_count(&kept), 3);
        // SAFETY: filled.
        unsafe { room.run() };
        assert_eq!(Arc::strong_count(&kept), 2);
        // SAFETY: run.
        unsafe { room.discard() };
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
