//! A number for each kernel thread, which no other living one has.

use std::cell::Cell;
use underpass_seam::WriterPlaces;

/// How many kernel threads have a place of their own at once.
pub(super) const PLACES: usize = WriterPlaces::COUNT;
/// What stands for the place of all other threads.
pub(super) const SHARED: usize = PLACES;
/// The thread has not asked for one yet.
const NONE: usize = usize::MAX;

static TAKEN: WriterPlaces = WriterPlaces::new();

/// The place of a kernel thread, until the thread ends.
struct Held(usize);

impl Drop for Held {
    fn drop(&mut self) {
        // Other destructors of this thread may make calls after this.
        PLACE.set(SHARED);
        if self.0 < PLACES {
            TAKEN.give_back(self.0);
        }
    }
}

thread_local! {
    static PLACE: Cell<usize> = const { Cell::new(NONE) };
    static HELD: Held = Held(TAKEN.claim().unwrap_or(SHARED));
}

/// The place of the calling kernel thread, [`SHARED`] if it has none of its own. `None`: it has to
/// ask by [`settle`] first.
// Never inlined: a user-level thread may go on in another kernel thread, so the address of the
// thread-local must be computed anew in each call.
#[inline(never)]
pub(super) fn own_place() -> Option<usize> {
    let place = PLACE.get();
    (place != NONE).then_some(place)
}

/// Gives the calling kernel thread a place.
#[cold]
#[inline(never)]
pub(super) fn settle() {
    // If the thread is ending, it gets none.
    let place = HELD.try_with(|held| held.0).unwrap_or(SHARED);
    PLACE.set(place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_place_until_it_ends() {
        let place = || {
            settle();
            own_place().unwrap()
        };
        let own = place();
        assert_eq!(place(), own);
        let other = std::thread::spawn(place).join().unwrap();
        assert!(other != own || own == SHARED, "{other}");
    }
}
