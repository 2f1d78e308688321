//! Handles of threads: waking, cancelling and joining them. Also `park`.

use crate::block::control::{Control, flag};
use crate::block::suspension::Woken;
use crate::block::suspension::{Awaited, Wait};
use crate::block::thread_id::ThreadId;
use crate::sched::activations;
use crate::sched::scheduler::Scheduler;
use crate::sched::thread_end::{detach, release};
use crate::wait::me;
use crate::wait::suspend::suspend;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;
use std::time::Duration;
use underpass_os::barrier;

/// A thread, user-level or of the kernel.
pub struct Thread {
    pub(crate) control: &'static Control,
}

impl Thread {
    /// One more handle of a thread that has a handle.
    pub(crate) fn of(control: &'static Control) -> Self {
        // Relaxed: the existing handle keeps the block from being used again.
        let holders = control.holders.fetch_add(1, Ordering::Relaxed);
        // As in `Arc`: handles that are made and leaked must not make the count overflow, since the
        // block would be used again.
        if holders > u32::MAX / 2 {
            std::process::abort();
        }
        Self { control }
    }

    /// Its number.
    pub fn id(&self) -> ThreadId {
        ThreadId(self.control.id())
    }

    /// Its name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        let name = self.control.with_name(|name| name.map(std::ptr::from_ref))?;
        // SAFETY: a name is set before the thread starts, and removed when the last handle is
        // dropped. `self` is a handle.
        Some(unsafe { &*name })
    }

    /// Lets its [`park`] return: the one that waits, or else the next one.
    ///
    /// # Examples
    /// ```
    /// use underpass::thread;
    ///
    /// let thread = thread::spawn(thread::park);
    /// thread.thread().unpark();
    /// thread.join().unwrap();
    /// ```
    #[inline]
    pub fn unpark(&self) {
        if let Some(waiter) = self.control.token.open() {
            // SAFETY: the gate gives out each waiter once, to the opener or to `abandon`.
            unsafe { waiter.wake() };
        }
    }

    /// Asks the thread to end. The thread learns of it by [`cancelled`](crate::cancelled). Blocking
    /// calls return early, or with an error that says so.
    ///
    /// These return early: `park`, `sleep`, waits at a condition variable. These return an error:
    /// channels, semaphores, I/O, and calls of other domains (the server is told). Locks and joins
    /// are not interrupted.
    ///
    /// # Examples
    /// ```
    /// use underpass::thread::{cancelled, park, spawn};
    /// let thread = spawn(|| while !cancelled() { park() });
    /// thread.thread().cancel();
    /// thread.join().unwrap();
    /// ```
    pub fn cancel(&self) {
        let control = self.control;
        crate::wait::call_cancellation::let_calls_end();
        control.set(flag::CANCELLED, true);
        let home = control.home().or_else(|| {
            // The thread may start just now: either it sees the request, or we see its home.
            barrier::heavy();
            control.home()
        });
        match home {
            None => {
                control.parker().unpark();
            }
            Some(home) => {
                let thread = self.clone();
                activations::at(home).inject(Box::new(move |own| own.cancel(thread)));
            }
        }
    }
}

impl Scheduler {
    /// The thread is asked to end. If it is suspended here in a wait that can be cancelled, it goes
    /// on.
    fn cancel(&self, thread: Thread) {
        match thread.control.home() {
            Some(home) if home == self.number => self.give_up(thread.control, Woken::Cancelled),
            Some(home) => activations::at(home).inject(Box::new(move |own| own.cancel(thread))),
            None => {}
        }
    }
}

impl From<&Thread> for ThreadId {
    fn from(thread: &Thread) -> Self {
        thread.id()
    }
}

impl Clone for Thread {
    fn clone(&self) -> Self {
        Self::of(self.control)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        release(self.control);
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id().to_string()).field("name", &self.name()).finish()
    }
}

/// The right to wait for a thread's end and to take its result.
///
/// If it is dropped, the thread runs on by itself, as with `std`.
pub struct JoinHandle<T> {
    /// `join` takes it without dropping it.
    thread: ManuallyDrop<Thread>,
    result: PhantomData<fn() -> T>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(control: &'static Control) -> Self {
        Self { thread: ManuallyDrop::new(Thread { control }), result: PhantomData }
    }

    /// Waits for the thread to end and gives its result. URPC's `JOIN` (section 4.1).
    ///
    /// # Errors
    /// What the thread panicked with.
    ///
    /// # Panics
    /// If the thread joins itself.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(underpass::thread::spawn(|| 6 * 7).join().unwrap(), 42);
    /// ```
    #[inline]
    pub fn join(self) -> std::thread::Result<T> {
        let control = self.thread.control;
        let me = me::control();
        // Asserted while the handle exists, so that a panic drops it.
        assert!(!std::ptr::eq(me, control), "a thread can't wait for its own end");
        std::mem::forget(self);
        if control.ended.register(me) {
            // SAFETY: the caller has registered itself just now, and `End` withdraws it.
            unsafe { suspend(me, &End(control), None, false) };
        }
        // SAFETY: the thread has ended and left a result of this type, and only its one handle
        // takes it.
        let result = unsafe { control.body.take() };
        release(control);
        result
    }

    /// Whether the thread has ended, so that [`join`](Self::join) does not wait.
    pub fn is_finished(&self) -> bool {
        self.thread.control.ended.is_open()
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Asks the thread to end. See [`Thread::cancel`].
    pub fn cancel(&self) {
        self.thread.cancel();
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        // SAFETY: this is the thread's one handle.
        unsafe { detach(self.thread.control) };
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("thread", &*self.thread).finish_non_exhaustive()
    }
}

/// The end of a thread, as something to wait for.
struct End(&'static Control);

impl Wait for End {
    fn abandon(&self, thread: &'static Control) -> bool {
        self.0.ended.withdraw(thread)
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: Awaited::END, address: std::ptr::from_ref(self.0).addr(), holder: Some(self.0.id()) }
    }

    #[inline]
    fn holder(&self) -> Option<&'static Control> {
        Some(self.0)
    }
}

/// Blocks until somebody calls [`Thread::unpark`]. Returns at once if that has happened since the
/// last `park`. May return early if the thread is cancelled.
#[inline(always)]
pub fn park() {
    park_until(None);
}

/// As [`park`], but no longer than `span`.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use underpass::thread;
/// thread::park_timeout(Duration::from_millis(1));
/// ```
pub fn park_timeout(span: Duration) {
    park_until(Some(underpass_os::clock::deadline_ns(span)));
}

#[inline(always)]
fn park_until(deadline_ns: Option<u64>) {
    let me = me::control();
    if me.token.register(me) {
        // SAFETY: the caller has registered itself just now, and `Token` withdraws it.
        let woken = unsafe { suspend(me, &Token(me), deadline_ns, true) };
        if woken != crate::block::suspension::Woken::Woken {
            return;
        }
    }
    me.token.pass();
}

/// The token of `unpark`, as something to wait for.
struct Token(&'static Control);

impl Wait for Token {
    fn abandon(&self, thread: &'static Control) -> bool {
        self.0.token.withdraw(thread)
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: "unpark", address: std::ptr::from_ref(self.0).addr(), holder: None }
    }
}

/// The message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}
