//! An interface whose calls last until the test ends them, its implementation, and an executor.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use std::collections::VecDeque;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use underpass::{CallError, Handler};

/// Short calls, and calls that last until somebody opens the gate.
#[underpass::interface(asynchronous)]
pub trait Slow {
    /// Returns its argument at once.
    fn short(&self, n: u32) -> Result<u32, CallError>;
    /// Waits at the gate. Returns `len` bytes, each the last byte of `id`.
    fn long(&self, id: u32, len: u32) -> Result<Vec<u8>, CallError>;
    /// Waits at the gate. Returns the file.
    fn carry(&self, file: OwnedFd) -> Result<OwnedFd, CallError>;
    /// Waits at the gate, and then panics.
    fn panic(&self) -> Result<(), CallError>;
    /// Waits at the gate. Counts in `told` if nobody wants the result before.
    fn watched(&self) -> Result<(), CallError>;
    /// Opens the gate, or shuts it.
    fn open(&self, open: bool) -> Result<(), CallError>;
    /// How many calls wait at the gate, and how many `watched` ones were told that nobody wants
    /// their results.
    fn waiting(&self) -> Result<(u32, u32), CallError>;
}

/// The gate, and the wakers of the calls that wait at it.
#[derive(Default)]
struct State {
    open: bool,
    wakers: Vec<Waker>,
}

/// The implementation.
#[derive(Clone, Default)]
pub struct Waiting {
    gate: Arc<Mutex<State>>,
    waiting: Arc<AtomicU32>,
    told: Arc<AtomicU32>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// Counts a call that waits.
struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Waiting {
    /// How many calls wait at the gate.
    pub fn count(&self) -> usize {
        self.waiting.load(Ordering::SeqCst) as usize
    }

    /// Opens the gate, or shuts it.
    pub fn admit(&self, open: bool) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        gate.open = open;
        let wakers = std::mem::take(&mut gate.wakers);
        drop(gate);
        wakers.into_iter().for_each(Waker::wake);
    }

    async fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _counted = Counted(self.waiting.clone());
        poll_fn(|cx| {
            let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            if gate.open {
                return Poll::Ready(());
            }
            gate.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl SlowAsync for Waiting {
    async fn short(&self, n: u32) -> Result<u32, CallError> {
        Ok(n)
    }

    async fn long(&self, id: u32, len: u32) -> Result<Vec<u8>, CallError> {
        self.wait().await;
        Ok(vec![id as u8; len as usize])
    }

    async fn carry(&self, file: OwnedFd) -> Result<OwnedFd, CallError> {
        self.wait().await;
        Ok(file)
    }

    async fn panic(&self) -> Result<(), CallError> {
        self.wait().await;
        panic!("after a while");
    }

    async fn watched(&self) -> Result<(), CallError> {
        let (cancelled, told) = (underpass::cancelled(), self.told.clone());
        std::thread::spawn(move || {
            run(Box::pin(async move {
                cancelled.await;
                told.fetch_add(1, Ordering::SeqCst);
            }));
        });
        self.wait().await;
        Ok(())
    }

    async fn open(&self, open: bool) -> Result<(), CallError> {
        self.admit(open);
        Ok(())
    }

    async fn waiting(&self) -> Result<(u32, u32), CallError> {
        Ok((self.waiting.load(Ordering::SeqCst), self.told.load(Ordering::SeqCst)))
    }
}

/// Unparks a kernel thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn own_waker() -> Waker {
    Waker::from(Arc::new(Unpark(std::thread::current())))
}

fn run(mut future: Handler) {
    let waker = own_waker();
    while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        std::thread::park();
    }
}

/// A handler on the executor's thread.
struct Task {
    handler: Mutex<Option<Handler>>,
    ready: Sender<Arc<Self>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let ready = self.ready.clone();
        // The executor's thread ends with the process.
        let _ = ready.send(self);
    }
}

/// An executor with one kernel thread.
pub fn one_thread() -> impl Fn(Handler) + Send + Sync {
    let (ready, tasks) = channel::<Arc<Task>>();
    std::thread::spawn(move || {
        for task in tasks {
            let mut handler = task.handler.lock().unwrap_or_else(PoisonError::into_inner);
            let waker = Waker::from(task.clone());
            let poll =
                handler.as_mut().map(|handler| handler.as_mut().poll(&mut Context::from_waker(&waker)));
            if poll.is_some_and(|poll| poll.is_ready()) {
                *handler = None;
            }
        }
    });
    move |handler| {
        let task = Task { handler: Mutex::new(Some(handler)), ready: ready.clone() };
        Arc::new(task).wake();
    }
}

/// The results of some futures that the calling kernel thread polls. `each` is called after each
/// round, with the number of futures that have not ended.
pub fn all<T>(
    futures: impl IntoIterator<Item = impl Future<Output = T>>,
    mut each: impl FnMut(usize),
) -> Vec<T> {
    let mut futures: VecDeque<_> = futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let mut results: Vec<_> = futures.iter().map(|_| None).collect();
    let waker = own_waker();
    loop {
        let mut left = 0;
        for (future, result) in futures.iter_mut().zip(&mut results) {
            let Some(running) = future else { continue };
            match Pin::new(running).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(value) => (*future, *result) = (None, Some(value)),
                Poll::Pending => left += 1,
            }
        }
        if left == 0 {
            return results.into_iter().flatten().collect();
        }
        each(left);
        std::thread::park();
    }
}

/// Makes `count` calls that last, and short ones while all of them last. Then it opens the gate.
///
/// # Errors
/// That of the first call that failed.
///
/// # Panics
/// If a thread or an answer is not as it should be.
pub fn call_slowly(client: &SlowClient, count: u32) -> Result<(), CallError> {
    let lens = [0, 30, 3_000, 100_000];
    let len = |id: u32| lens[id as usize % lens.len()];
    client.open(false)?;
    let helper = client.clone();
    let opener = std::thread::spawn(move || {
        // All of them wait, so they have given their slots back.
        crate::until("all calls to last", || {
            helper.waiting().is_ok_and(|(now, _)| now >= count).then_some(())
        });
        for n in 0..1_000 {
            assert_eq!(helper.short(n)?, n);
        }
        helper.open(true)
    });
    let calls = (0..count).map(|id| async move { (id, client.long_async(id, len(id)).await) });
    for (id, bytes) in all(calls, |_| {}) {
        assert_eq!(bytes?, vec![id as u8; len(id) as usize]);
    }
    opener.join().expect("no panic")
}
