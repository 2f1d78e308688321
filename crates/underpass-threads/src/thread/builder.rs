//! Starting a thread.

use crate::block::control::{Control, flag};
use crate::sched::stack_sizes::LEAST;
use crate::sched::stealing;
use crate::sched::unused_blocks;
use crate::thread::handle::JoinHandle;
use std::io;
use std::sync::atomic::Ordering;

/// A thread to be started.
///
/// # Examples
/// ```
/// use underpass::thread;
///
/// let thread = thread::Builder::new().name("editor").stack_size(64 * 1024).spawn(|| 1 + 1)?;
/// assert_eq!(thread.thread().name(), Some("editor"));
/// assert_eq!(thread.join().unwrap(), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
    stack: usize,
    flags: u32,
}

impl Builder {
    /// A pinned thread without a name, with a stack of 256 KiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names it. [`current`](crate::current), panics and dumps show the name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Gives it a stack of at least `bytes`. Only pages that it touches cost memory.
    ///
    /// Stacks of the usual size (256 KiB) are kept for the next threads. Others are made and
    /// unmapped each time.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack = bytes.max(LEAST);
        self
    }

    /// Gives it an activation of its own: for a thread that computes for long. Others never wait
    /// for it to pause.
    #[must_use]
    pub fn dedicated(mut self) -> Self {
        self.flags |= flag::DEDICATED;
        self
    }

    /// Lets it move to another activation, which is another kernel thread, whenever it blocks or
    /// yields.
    ///
    /// Such a thread never waits for a processor while one is idle, also after it has started. (All
    /// of OThreads' threads move in this way.)
    ///
    /// # Safety
    /// Whatever may block in it (locks, channels, joins, calls, sleeps, yields) may return on
    /// another kernel thread, and the compiler knows nothing of that. So across such a call the
    /// thread must not hold any of the following, nor may a function that is inlined into it
    /// remember any:
    /// * a reference to a `std::thread_local!` or a C `__thread` variable, `errno` included;
    /// * a `std::sync::MutexGuard` or another guard or value that is not `Send`, such as an `Rc`
    ///   that other threads of its kernel thread have clones of;
    /// * anything of a library that binds itself to its kernel thread (OpenGL contexts, event
    ///   loops).
    ///
    /// A variable of [`underpass_threads::thread_local!`](crate::thread_local) belongs to the
    /// user-level thread and is fine.
    #[must_use]
    pub unsafe fn migrating(mut self) -> Self {
        self.flags |= flag::MIGRATES;
        self
    }

    /// Starts it on one of this domain's activations. URPC's `FORK` (section 4.1).
    ///
    /// It gets its stack when it first runs. Until then any activation may take it. From then on it
    /// stays where it is, unless it is [`migrating`](Self::migrating).
    ///
    /// # Errors
    /// `InvalidInput`: the name holds a NUL, or the stack is larger than 4 GiB.
    pub fn spawn<F, T>(self, body: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let control = self.prepare()?;
        // SAFETY: the thread borrows nothing.
        Ok(unsafe { launch(control, body) })
    }

    /// A control block for the thread.
    pub(crate) fn prepare(self) -> io::Result<&'static Control> {
        let refuse = |why: &'static str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let Ok(stack) = u32::try_from(self.stack) else {
            return refuse("a stack has at most 4 GiB");
        };
        if self.name.as_ref().is_some_and(|name| name.contains('\0')) {
            return refuse("a thread's name holds no NUL");
        }
        let control = unused_blocks::take(self.flags);
        if stack > 0 {
            // Relaxed: submitting the thread publishes it.
            control.stack.store(stack, Ordering::Relaxed);
        }
        if let Some(name) = self.name {
            control.set_name(name.into_boxed_str());
        }
        Ok(control)
    }
}

/// Starts a thread that has a control block.
///
/// # Safety
/// What `body` borrows outlives the thread. What its result borrows outlives the taking of it.
#[inline]
pub(crate) unsafe fn launch<F: FnOnce() -> T, T>(control: &'static Control, body: F) -> JoinHandle<T> {
    // SAFETY: a block from the registry is empty and ours; the caller vouches for the rest.
    unsafe { stealing::start(control, body) };
    JoinHandle::new(control)
}

/// Starts a thread without a name. See [`Builder::spawn`].
///
/// # Examples
/// ```
/// let threads: Vec<_> = (0..10).map(|i| underpass::thread::spawn(move || i * i)).collect();
/// let squares: Vec<i32> = threads.into_iter().map(|t| t.join().unwrap()).collect();
/// assert_eq!(squares[9], 81);
/// ```
#[inline]
pub fn spawn<F, T>(body: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: the thread borrows nothing.
    unsafe { launch(unused_blocks::take(0), body) }
}
