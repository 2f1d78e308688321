//! What the owner keeps of one sender, and the queue of all of them.

use crate::arrival::SenderId;
use crate::guard::lock;
use crate::sync::message::{PortRequest, SyncMessage};
use crate::sync::turns::{Placed, Turns};
use crate::waiters::Waiters;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use underpass_os::{failpoint, fork};
use underpass_sync::{Mutex, mpmc};
use underpass_wire::Schema;

/// What dispatchers need of a port.
pub(crate) struct SyncQueue<M: SyncMessage, R: Schema + Send + 'static> {
    pub(crate) messages: u64,
    pub(crate) longest: u64,
    /// How many senders there ever were.
    lanes: AtomicU64,
    /// How many there are.
    live: Arc<AtomicUsize>,
    queue: mpmc::Sender<PortRequest<M, R>>,
    /// Tasks that receive. Threads wait at the queue itself.
    tasks: Arc<Waiters>,
}

/// One sender.
pub(crate) struct SyncLane<M: SyncMessage, R: Schema + Send + 'static> {
    port: Arc<SyncQueue<M, R>>,
    pub(crate) from: SenderId,
    turns: Mutex<Turns<EarlyMessage<M, R>>>,
}

/// A message in its lane.
struct EarlyMessage<M: SyncMessage, R: Schema + Send + 'static> {
    message: PortRequest<M, R>,
    /// While it is early: completes when nobody wants it any more.
    watch: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<M: SyncMessage, R: Schema + Send + 'static> SyncQueue<M, R> {
    pub(crate) fn new(
        messages: u64,
        longest: u64,
        queue: mpmc::Sender<PortRequest<M, R>>,
        tasks: Arc<Waiters>,
    ) -> Self {
        Self { messages, longest, lanes: AtomicU64::new(0), live: Arc::default(), queue, tasks }
    }

    /// The number of senders, for receivers.
    pub(crate) fn live(&self) -> Arc<AtomicUsize> {
        self.live.clone()
    }

    /// The next lane, for the sender over this binding.
    pub(crate) fn lane(self: &Arc<Self>, binding: u64) -> SyncLane<M, R> {
        // Relaxed: a number.
        let lane = self.lanes.fetch_add(1, Ordering::Relaxed) + 1;
        let turns = Mutex::new(Turns::new(self.messages));
        self.live.fetch_add(1, Ordering::Relaxed);
        SyncLane { port: self.clone(), from: SenderId { lane, binding }, turns }
    }

    /// Pushes a message. Returns it if there are no receivers any more.
    #[inline]
    fn push(&self, message: PortRequest<M, R>) -> Option<PortRequest<M, R>> {
        self.queue.send(message).err().map(mpmc::SendError::into_inner)
    }

    /// Wakes the tasks that receive. After a push.
    #[inline]
    fn pushed(&self) {
        if self.tasks.any() {
            self.tasks.ring();
        }
    }
}

impl<M: SyncMessage, R: Schema + Send + 'static> Drop for SyncQueue<M, R> {
    fn drop(&mut self) {
        if fork::is_forked() {
            return;
        }
        // No message comes any more. The task that looks next must see that.
        let (last, _) = mpmc::unbounded();
        drop(std::mem::replace(&mut self.queue, last));
        self.tasks.ring();
    }
}

impl<M: SyncMessage, R: Schema + Send + 'static> SyncLane<M, R> {
    /// A message without a number has come.
    pub(crate) fn comes(&self, message: PortRequest<M, R>) {
        drop(self.port.push(message));
        self.port.pushed();
    }

    /// *D2.* A message with this number has come.
    #[inline]
    pub(crate) fn comes_as(self: &Arc<Self>, number: u64, message: PortRequest<M, R>) {
        let mut back = Vec::new();
        let message = EarlyMessage { message, watch: None };
        let mut turns = lock(&self.turns);
        let came = turns.comes(number, message, |next| back.extend(self.port.push(next.message)));
        failpoint!("sync-owner-pushed");
        drop(turns);
        self.port.pushed();
        if came.as_ref().is_ok_and(|came| *came == Placed::Early) {
            self.watch(number);
        }
        // Their senders learn that nobody has received them.
        drop((back, came));
    }

    /// The sender gives this number up.
    pub(crate) fn skip(&self, number: u64) {
        let mut back = Vec::new();
        lock(&self.turns).skip(number, |next| back.extend(self.port.push(next.message)));
        self.port.pushed();
        drop(back);
    }

    /// *O4.* The message of this number is early: it is dropped when nobody wants it any more.
    #[cold]
    fn watch(self: &Arc<Self>, number: u64) {
        let cancelled = || Some(lock(&self.turns).early(number)?.message.right().cancellation()?.cancelled());
        let Some(cancelled) = cancelled() else { return };
        let mut watch: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(cancelled);
        let waker = Waker::from(Arc::new(Withdraws { lane: Arc::downgrade(self) }));
        match watch.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => waker.wake(),
            Poll::Pending => {
                let mut turns = lock(&self.turns);
                let watch = match turns.early(number) {
                    Some(early) => early.watch.replace(watch),
                    None => Some(watch),
                };
                drop(turns);
                drop(watch);
            }
        }
    }

    /// Drops the early messages that nobody wants any more.
    fn withdraw(&self) {
        let unwanted = |early: &EarlyMessage<M, R>| !early.message.right().is_wanted();
        let withdrawn = lock(&self.turns).withdraw(unwanted);
        drop(withdrawn);
    }
}

impl<M: SyncMessage, R: Schema + Send + 'static> Drop for SyncLane<M, R> {
    fn drop(&mut self) {
        // Relaxed: a count.
        self.port.live.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Has the early messages of a lane withdrawn that nobody wants any more.
struct Withdraws<M: SyncMessage, R: Schema + Send + 'static> {
    lane: Weak<SyncLane<M, R>>,
}

impl<M: SyncMessage, R: Schema + Send + 'static> Wake for Withdraws<M, R> {
    fn wake(self: Arc<Self>) {
        // To drop a message runs the user's code, and the waking thread has other things to do.
        if let Some(lane) = self.lane.upgrade() {
            drop(underpass_threads::spawn(move || lane.withdraw()));
        }
    }
}
