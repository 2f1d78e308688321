//! A value that is computed when it is first needed.

use crate::mutex::Mutex;
use crate::once_lock::OnceLock;
use crate::runtime::const_fn;
use std::fmt;
use std::ops::Deref;
use std::sync::PoisonError;

/// `std`'s `LazyLock` for user-level threads.
///
/// # Examples
/// ```
/// use underpass::sync::LazyLock;
/// static SQUARES: LazyLock<Vec<u32>> = LazyLock::new(|| (0..10).map(|n| n * n).collect());
/// assert_eq!(SQUARES[9], 81);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    /// Taken by the thread that computes the value.
    make: Mutex<Option<F>>,
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    const_fn! {
        /// A cell whose value `make` will compute.
        pub fn new(make: F) -> LazyLock<T, F> {
            LazyLock { value: OnceLock::new(), make: Mutex::new(Some(make)) }
        }
    }

    /// The value. Computes it if that wasn't done yet.
    ///
    /// # Panics
    /// If computing it panics, or has panicked before.
    #[inline]
    pub fn force(this: &Self) -> &T {
        this.value.get_or_init(|| this.make())
    }

    #[cold]
    fn make(&self) -> T {
        let make = self.make.lock().unwrap_or_else(PoisonError::into_inner).take();
        make.expect("making the value of this LazyLock panicked before")()
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        Self::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("LazyLock");
        match self.value.get() {
            Some(value) => shown.field(value),
            None => shown.field(&format_args!("<uninit>")),
        };
        shown.finish()
    }
}
