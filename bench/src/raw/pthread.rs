//! The C library's mutex, shared by processes: the locks of regions are compared with it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicU64;

#[allow(unsafe_code)]
unsafe extern "C" {
    fn pthread_mutexattr_init(attributes: *mut c_void) -> c_int;
    fn pthread_mutexattr_setpshared(attributes: *mut c_void, shared: c_int) -> c_int;
    fn pthread_mutexattr_setrobust(attributes: *mut c_void, robust: c_int) -> c_int;
    fn pthread_mutex_init(mutex: *mut c_void, attributes: *const c_void) -> c_int;
    fn pthread_mutex_lock(mutex: *mut c_void) -> c_int;
    fn pthread_mutex_unlock(mutex: *mut c_void) -> c_int;
}

/// `PTHREAD_PROCESS_SHARED` and `PTHREAD_MUTEX_ROBUST` of Linux.
const SHARED: c_int = 1;
const ROBUST: c_int = 1;

/// Whether the death of a mutex's holder is told to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Robustness {
    /// It is, by the kernel.
    Robust,
    /// The next one waits for ever.
    Stalled,
}

/// Words that hold a `pthread_mutex_t` of any C library: 40 bytes in glibc and musl.
pub(crate) const WORDS: usize = 8;

/// A mutex in memory of both processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PthreadMutex(&'static [AtomicU64; WORDS]);

impl PthreadMutex {
    /// The mutex at `words`, which one process has [initialized](Self::init).
    pub(crate) fn at(words: &'static [AtomicU64; WORDS]) -> Self {
        Self(words)
    }

    fn place(self) -> *mut c_void {
        self.0.as_ptr().cast_mut().cast()
    }

    /// Before anybody else uses it.
    #[allow(unsafe_code)]
    pub(crate) fn init(self, robustness: Robustness) -> Result<(), String> {
        // Larger than a `pthread_mutexattr_t` of any C library.
        let mut attributes = [0_u64; 8];
        let attributes: *mut c_void = attributes.as_mut_ptr().cast();
        // SAFETY: the memory is large enough, aligned, and this function's own.
        let mut failed = unsafe { pthread_mutexattr_init(attributes) };
        // SAFETY: it was initialized.
        failed |= unsafe { pthread_mutexattr_setpshared(attributes, SHARED) };
        if robustness == Robustness::Robust {
            // SAFETY: it was initialized.
            failed |= unsafe { pthread_mutexattr_setrobust(attributes, ROBUST) };
        }
        // SAFETY: the words are large enough, aligned, and live to the end of the process. Nobody
        // uses the mutex yet.
        failed |= unsafe { pthread_mutex_init(self.place(), attributes) };
        if failed == 0 { Ok(()) } else { Err("the C library makes no mutex for several processes".into()) }
    }

    /// Holds it during `work`, which must not panic.
    #[allow(unsafe_code)]
    pub(crate) fn locked(self, work: impl FnOnce()) {
        // SAFETY: it was initialized, and its memory lives to the end of the process.
        let failed = unsafe { pthread_mutex_lock(self.place()) };
        work();
        if failed == 0 {
            // SAFETY: this kernel thread holds it: `work` has not suspended the thread.
            unsafe { pthread_mutex_unlock(self.place()) };
        }
    }
}
