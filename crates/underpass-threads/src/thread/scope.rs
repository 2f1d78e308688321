//! Scoped threads, which may borrow from their caller.

use crate::block::control::Control;
use crate::sched::unused_blocks;
use crate::thread::builder::{Builder, launch};
use crate::thread::handle::{JoinHandle, Thread};
use crate::wait::latch::Latch;
use crate::wait::wait_on::wait_for;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The state that a scope shares with its threads.
struct Shared {
    /// The number of threads whose results are not dropped yet, plus one for the scope itself.
    open: AtomicUsize,
    all_ended: Latch,
    /// A thread that nobody joined has panicked.
    panicked: AtomicBool,
}

impl Shared {
    fn count_out(&self) {
        // SYNC with itself, by other threads: what each thread did comes before the last one opens
        // the latch.
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_ended.open();
        }
    }
}

/// The result of a thread. The thread counts as ended when this is dropped: by then nothing of it
/// borrows any more.
struct Left<T> {
    result: Option<std::thread::Result<T>>,
    shared: Arc<Shared>,
}

impl<T> Drop for Left<T> {
    fn drop(&mut self) {
        if let Some(Err(_)) = self.result {
            // Relaxed: `count_out` publishes it.
            self.shared.panicked.store(true, Ordering::Relaxed);
        }
        self.result = None;
        self.shared.count_out();
    }
}

/// A scope to start threads in. See [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    shared: Arc<Shared>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The right to join a thread of a scope. If it is dropped, the scope still waits for the thread.
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<Left<T>>,
    scope: PhantomData<&'scope ()>,
}

/// Runs `body`, which may start threads that borrow from the caller, and waits for all of them to
/// end. As `std::thread::scope`.
///
/// # Panics
/// If `body` panics, or a thread that was not joined has panicked. It panics when all threads have
/// ended.
///
/// # Examples
/// ```
/// let mut counts = [1, 2, 3];
/// underpass::thread::scope(|scope| {
///     for count in &mut counts {
///         scope.spawn(move || *count *= 10);
///     }
/// });
/// assert_eq!(counts, [10, 20, 30]);
/// ```
pub fn scope<'env, F, T>(body: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let shared = Arc::new(Shared {
        open: AtomicUsize::new(1),
        all_ended: Latch::default(),
        panicked: AtomicBool::new(false),
    });
    let scope = Scope { shared: shared.clone(), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    shared.count_out();
    wait_for(&shared.all_ended);
    match result {
        Err(panic) => resume_unwind(panic),
        // Relaxed: the latch synchronizes.
        Ok(_) if shared.panicked.load(Ordering::Relaxed) => panic!("a scoped thread panicked"),
        Ok(value) => value,
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread that may borrow whatever outlives the scope.
    pub fn spawn<F, T>(&'scope self, body: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.launch(unused_blocks::take(0), body)
    }

    /// Starts a thread as `builder` says, which may borrow whatever outlives the scope.
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    pub fn spawn_with<F, T>(
        &'scope self,
        builder: Builder,
        body: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Ok(self.launch(builder.prepare()?, body))
    }

    fn launch<F, T>(&'scope self, control: &'static Control, body: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // Relaxed: the scope itself is counted, so this can't be the last.
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        let shared = self.shared.clone();
        let run = move || Left { result: Some(catch_unwind(AssertUnwindSafe(body))), shared };
        // SAFETY: `scope` returns only when the result of `run` is dropped. `body` and everything
        // that it borrows is dropped before. If a handle is leaked, `scope` never returns.
        let handle = unsafe { launch(control, run) };
        ScopedJoinHandle { handle, scope: PhantomData }
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the thread to end and gives its result.
    ///
    /// # Errors
    /// What the thread panicked with.
    ///
    /// # Panics
    /// If the thread joins itself.
    pub fn join(self) -> std::thread::Result<T> {
        let mut left = self.handle.join()?;
        left.result.take().expect("a thread leaves its result before it ends")
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        self.handle.thread()
    }

    /// Asks the thread to end; see [`Thread::cancel`].
    pub fn cancel(&self) {
        self.handle.cancel();
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("thread", self.thread()).finish_non_exhaustive()
    }
}
