//! A cell whose value is set once.

use crate::once::Once;
use crate::runtime::const_fn;
use std::fmt;
use std::sync::OnceLock as Cell;

/// `std`'s `OnceLock` for user-level threads. A thread that needs the value while another computes
/// it blocks only itself, and no other thread of its activation.
///
/// # Examples
/// ```
/// use underpass::sync::OnceLock;
/// static NAME: OnceLock<String> = OnceLock::new();
/// assert_eq!(NAME.get(), None);
/// assert_eq!(NAME.get_or_init(|| "ada".to_owned()), "ada");
/// assert_eq!(NAME.set("grace".to_owned()), Err("grace".to_owned()));
/// ```
pub struct OnceLock<T> {
    /// Decides which thread sets the value, and has the waiters.
    once: Once,
    /// Only the function that `once` runs sets it, so no thread ever waits in the kernel for it.
    value: Cell<T>,
}

impl<T> OnceLock<T> {
    const_fn! {
        /// An empty cell.
        pub fn new() -> OnceLock<T> {
            OnceLock { once: Once::new(), value: Cell::new() }
        }
    }

    /// The value, if it is set.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value, if it is set.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Waits until a thread has set the value.
    ///
    /// # Panics
    /// Never: what `once` has run has set the value.
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        self.get().expect("it is set before the once is done")
    }

    /// Sets the value.
    ///
    /// # Errors
    /// `value` itself, if the cell has a value already.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init_with(&mut || value.take());
        value.map_or(Ok(()), Err)
    }

    /// The value. If the cell is empty, sets it to the result of `f`. If `f` panics the cell stays
    /// empty.
    ///
    /// # Panics
    /// If `f` panics.
    #[inline]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let mut f = Some(f);
        self.get_or_init_with(&mut || f.take().map(|f| f()));
        self.get().expect("it is set before the once is done")
    }

    #[cold]
    fn get_or_init_with(&self, make: &mut dyn FnMut() -> Option<T>) {
        self.once.call_once_force(|_| {
            if let Some(value) = make() {
                // No other thread sets it: this runs once.
                let _ = self.value.set(value);
            }
        });
    }

    /// Its value, if it is set.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Takes the value out.
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().cloned().map_or_else(Self::new, Self::from)
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        let lock = Self::new();
        let _ = lock.set(value);
        lock
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => shown.field(value),
            None => shown.field(&format_args!("<uninit>")),
        };
        shown.finish()
    }
}
