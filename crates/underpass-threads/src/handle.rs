//! What a program holds of a thread.

use crate::latch::Latch;
use crate::wait::wait_for;
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of a thread.
#[derive(Debug)]
pub(crate) struct Info {
    id: u64,
    name: Option<String>,
}

impl Info {
    pub(crate) fn new(name: Option<String>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self { id: NEXT.fetch_add(1, Ordering::Relaxed), name })
    }

    pub(crate) fn number(&self) -> u64 {
        self.id
    }
}

/// A thread, user-level or of the kernel.
#[derive(Clone, Debug)]
pub struct Thread {
    pub(crate) info: Arc<Info>,
}

impl Thread {
    /// Its name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.info.name.as_deref()
    }

    /// Its number, never used again in this process.
    pub fn id(&self) -> u64 {
        self.info.id
    }
}

/// Where a thread leaves its result.
#[derive(Debug)]
pub(crate) struct Packet<T> {
    result: Mutex<Option<std::thread::Result<T>>>,
    ended: Latch,
}

impl<T> Packet<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { result: Mutex::new(None), ended: Latch::default() })
    }

    pub(crate) fn fill(&self, result: std::thread::Result<T>) {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.ended.open();
    }
}

/// The right to wait for a thread's end.
///
/// Dropping it lets the thread run on by itself, as with `std`.
#[derive(Debug)]
pub struct JoinHandle<T> {
    pub(crate) packet: Arc<Packet<T>>,
    pub(crate) thread: Thread,
}

impl<T> JoinHandle<T> {
    /// Waits for the thread to end and gives its result. URPC's `JOIN` (section 4.1).
    ///
    /// # Errors
    /// What the thread panicked with.
    ///
    /// # Panics
    /// Never; the result is there once the thread has ended.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(underpass_threads::spawn(|| 6 * 7).join().unwrap(), 42);
    /// ```
    pub fn join(self) -> std::thread::Result<T> {
        wait_for(&self.packet.ended);
        let result = self.packet.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        result.expect("a thread leaves its result before it ends")
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.packet.ended.is_open()
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

/// The message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}
