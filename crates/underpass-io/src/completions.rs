//! Completions of futures for an event loop that knows only descriptors.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use underpass_os::EventFd;
use underpass_threads::critical;

/// Calls under way, for a program with an event loop of its own (epoll, libuv, asyncio): its
/// descriptor is readable when one may have ended.
///
/// The loop watches the descriptor (an `eventfd`) for reading, level- or edge-triggered, and calls
/// [`next`](Self::next) until it returns `None`. No thread waits, and no executor is needed. A call
/// that has not ended costs no time of the loop.
///
/// The futures are those of client stubs (`read_async`), or any others that wake their task from
/// another thread. They are polled in [`add`](Self::add) and [`next`](Self::next), on the loop's
/// own thread.
///
/// # Proof
/// *No completion is missed.* A waker enters its future into a list under a lock, and writes the
/// descriptor under the same lock if the list was empty. `next` first reads the descriptor, and
/// then takes the list under the lock. A list that is not empty was empty once, so a waker has
/// written the descriptor since, and `next` takes the list after each of its reads. So if `next`
/// returns `None`, each future that was woken has been polled afterwards, or the descriptor is
/// readable.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use underpass::CallError;
/// use underpass::io::Completions;
///
/// #[underpass::interface]
/// trait Adder {
///     fn add(&self, a: u32, b: u32) -> Result<u32, CallError>;
/// }
/// # struct Sum;
/// # impl Adder for Sum {
/// #     fn add(&self, a: u32, b: u32) -> Result<u32, CallError> {
/// #         Ok(a + b)
/// #     }
/// # }
///
/// # fn main() -> std::io::Result<()> {
/// # let adder = AdderClient::new(Sum);
/// let mut calls = Completions::new()?;
/// // let adder = AdderClient::import("adder")?;
/// let number = {
///     let adder = adder.clone();
///     calls.add(async move { adder.add_async(1, 2).await })
/// };
/// // A loop of its own would wait for more than one descriptor.
/// let ended = loop {
///     match calls.next() {
///         Some(ended) => break ended,
///         None => std::thread::sleep(Duration::from_millis(1)), // or `epoll_wait`
///     }
/// };
/// assert_eq!(ended, (number, Ok(3)));
/// # Ok(())
/// # }
/// ```
#[must_use = "its calls are abandoned when it is dropped"]
pub struct Completions<T> {
    woken: Arc<WokenFutures>,
    under_way: HashMap<u64, UnderWayFuture<T>>,
    ended: VecDeque<(u64, T)>,
    /// The number of the latest.
    latest: u64,
}

/// A future that has not ended.
struct UnderWayFuture<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    waker: Arc<FutureWaker>,
}

/// The futures that were woken, and the descriptor that says so.
struct WokenFutures {
    event: EventFd,
    list: Mutex<Vec<u64>>,
}

/// Wakes one future.
struct FutureWaker {
    number: u64,
    /// Whether the future is in the list. A second wake-up adds nothing.
    listed: AtomicBool,
    woken: Arc<WokenFutures>,
}

impl WokenFutures {
    /// The holder of this lock keeps its processor.
    fn list(&self) -> MutexGuard<'_, Vec<u64>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, number: u64) {
        let _held = critical();
        let mut list = self.list();
        if list.is_empty() {
            self.event.signal();
        }
        list.push(number);
    }

    fn take(&self) -> Vec<u64> {
        // The descriptor is this process's own, so it can be read.
        let _ = self.event.take();
        let _held = critical();
        std::mem::take(&mut *self.list())
    }
}

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // SYNC with the store in `poll`: what was done before this wake-up is seen by the poll that
        // follows, by this wake-up's entry or by that of the one that was first.
        if !self.listed.swap(true, Ordering::AcqRel) {
            self.woken.enter(self.number);
        }
    }
}

impl<T> Completions<T> {
    /// No calls yet.
    ///
    /// # Errors
    /// Too many open files: see `ulimit -n`.
    pub fn new() -> io::Result<Self> {
        let woken = WokenFutures { event: EventFd::new()?, list: Mutex::default() };
        let (under_way, ended) = (HashMap::new(), VecDeque::new());
        Ok(Self { woken: Arc::new(woken), under_way, ended, latest: 0 })
    }

    /// Starts a call, and returns its number, which no other has had. If it ends at once, the
    /// descriptor becomes readable nevertheless.
    pub fn add(&mut self, call: impl Future<Output = T> + Send + 'static) -> u64 {
        self.latest += 1;
        let number = self.latest;
        let waker = FutureWaker { number, listed: AtomicBool::new(false), woken: self.woken.clone() };
        let call = UnderWayFuture { future: Box::pin(call), waker: Arc::new(waker) };
        self.under_way.insert(number, call);
        self.poll(number);
        if !self.ended.is_empty() {
            self.woken.event.signal();
        }
        number
    }

    /// The next call that has ended, with its result, in the order of their ends. `None` if no
    /// further one has: wait for the descriptor.
    #[allow(clippy::should_implement_trait, reason = "it can return `None`, and `Some` later")]
    pub fn next(&mut self) -> Option<(u64, T)> {
        if self.ended.is_empty() {
            for number in self.woken.take() {
                self.poll(number);
            }
        }
        self.ended.pop_front()
    }

    /// Gives up a call. Its result is not told any more, and its server learns of it. Returns
    /// whether the call was under way.
    pub fn cancel(&mut self, number: u64) -> bool {
        self.ended.retain(|ended| ended.0 != number);
        self.under_way.remove(&number).is_some()
    }

    /// How many calls have not ended.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Polls a call, if it is under way.
    fn poll(&mut self, number: u64) {
        let Some(call) = self.under_way.get_mut(&number) else { return };
        // SYNC with the swap in `wake_by_ref`. A wake-up from here on enters the future anew.
        call.waker.listed.swap(false, Ordering::AcqRel);
        let waker = Waker::from(call.waker.clone());
        if let Poll::Ready(result) = call.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.under_way.remove(&number);
            self.ended.push_back((number, result));
        }
    }
}

impl<T> AsFd for Completions<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.event.as_fd()
    }
}

impl<T> AsRawFd for Completions<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl<T> fmt::Debug for Completions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (under_way, ended) = (self.under_way.len(), self.ended.len());
        f.debug_struct("Completions").field("under_way", &under_way).field("ended", &ended).finish()
    }
}

#[cfg(test)]
mod tests;
