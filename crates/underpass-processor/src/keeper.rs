//! Which activation serves a line, where several serve calls.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of the activation that alone looks at a line as long as it keeps up, or nobody's. It says who is to look, and guards nothing.
///
/// # Examples
/// ```
/// use underpass_processor::Keeper;
///
/// let keeper = Keeper::default();
/// assert_eq!(keeper.get(), None);
/// keeper.set(Some(3));
/// keeper.leave(2);
/// assert_eq!(keeper.get(), Some(3));
/// keeper.leave(3);
/// assert_eq!(keeper.get(), None);
/// ```
#[derive(Debug, Default)]
pub struct Keeper {
    /// Its number plus one, or 0.
    number: AtomicUsize,
}

// Relaxed throughout: see above.
impl Keeper {
    /// The activation, if there is one.
    #[inline]
    pub fn get(&self) -> Option<usize> {
        self.number.load(Ordering::Relaxed).checked_sub(1)
    }

    /// From now on it is this one, or nobody.
    pub fn set(&self, number: Option<usize>) {
        self.number.store(number.map_or(0, |number| number + 1), Ordering::Relaxed);
    }

    /// Nobody's from now on, if it was this activation's.
    pub fn leave(&self, number: usize) {
        let _ = self.number.compare_exchange(number + 1, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
