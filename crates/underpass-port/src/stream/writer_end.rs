//! The writer's end of a stream.

use crate::bell::{Bell, Rung};
use crate::guard::lock;
use crate::quota::Charge;
use crate::room_spin::RoomSpin;
use crate::stream::bell_byte::BellByteTaker;
use crate::stream::binding::EndsWithBinding;
use crate::stream::errors::StreamSendError;
use crate::stream::words::{ABANDONED, CLOSED_WITH_BINDING, DROPPED, ENDED_WITH_BINDING, LIGHT, TAKEN};
use crate::wait_until::WaitUntil;
use crate::waiters::{Unwoken, Waiters};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};
use underpass_channel::{Doorbell, Fence, LaneMemory, LaneSender, MappedLane, Unposted};
use underpass_os::{barrier, failpoint, fork};
use underpass_sync::{Mutex, MutexGuard};
use underpass_wire::{Encode, Sink};

/// The reader has hung up, or its domain has died.
const HUNG_UP: u8 = 1;
/// The binding has ended.
const BINDING_ENDED: u8 = 2;

/// Every so many items the writer looks whether the reader's barriers have reached it.
const FENCE_LOOKS: u64 = 64;

/// The writer's end.
#[derive(Debug)]
pub(crate) struct WriterEnd {
    posting: Mutex<Posting>,
    spin: RoomSpin,
    memory: Arc<MappedLane>,
    /// The reader rings it when there is room.
    room: Bell,
    bell: BellByteTaker,
    waiters: Waiters,
    /// The tasks that wait for the end alone. They are not among `waiters`, since a send looks for
    /// room on behalf of those.
    awaiting_end: Mutex<Vec<Waker>>,
    over: AtomicU8,
    /// Whether the memory says already that nothing follows.
    finished: AtomicBool,
    _charge: Option<Charge>,
}

/// What sends need a lock for.
#[derive(Debug)]
pub(crate) struct Posting {
    lane: LaneSender<MappedLane>,
    fence: Fence,
}

impl WriterEnd {
    pub(crate) fn new(
        lane: LaneSender<MappedLane>,
        memory: Arc<MappedLane>,
        room: Bell,
        bell: BellByteTaker,
        charge: Option<Charge>,
    ) -> Self {
        Self {
            spin: RoomSpin::new(memory.clone(), lane.sizes()),
            posting: Mutex::new(Posting { lane, fence: Fence::Full }),
            memory,
            room,
            bell,
            waiters: Waiters::new(),
            awaiting_end: Mutex::new(Vec::new()),
            over: AtomicU8::new(0),
            finished: AtomicBool::new(false),
            _charge: charge,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Posting> {
        lock(&self.posting)
    }

    /// Why nothing can be sent any more.
    #[inline]
    pub(crate) fn over(&self) -> Option<StreamSendError> {
        // SYNC with `over` fetch_or in `ends`: what the reader has said of its end.
        match self.over.load(Ordering::Acquire) {
            0 if !fork::is_forked() => None,
            how => Some(self.why(how)),
        }
    }

    #[cold]
    fn why(&self, how: u8) -> StreamSendError {
        // A child has none of its parent's lanes.
        if fork::is_forked() {
            return StreamSendError::ReaderDropped;
        }
        let closed = self.lock().lane.closed();
        if how & BINDING_ENDED != 0 || closed & CLOSED_WITH_BINDING != 0 {
            StreamSendError::BindingEnded
        } else if closed & TAKEN != 0 && closed & DROPPED == 0 {
            StreamSendError::PeerDied
        } else {
            StreamSendError::ReaderDropped
        }
    }

    fn ends(&self, how: u8) {
        // SYNC with `over` load in `over`.
        self.over.fetch_or(how, Ordering::Release);
        self.waiters.ring();
        let wakers = std::mem::take(&mut *lock(&self.awaiting_end));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until nothing can be sent any more, for a task.
    pub(crate) fn poll_end(&self, task: &Context<'_>) -> Poll<StreamSendError> {
        if let Some(why) = self.over() {
            return Poll::Ready(why);
        }
        let mut wakers = lock(&self.awaiting_end);
        if !wakers.iter().any(|other| other.will_wake(task.waker())) {
            wakers.push(task.waker().clone());
        }
        drop(wakers);
        // `ends` sets `over` before it takes this lock. So either it takes the waker, or this look
        // sees what it has set.
        self.over().map_or(Poll::Pending, Poll::Ready)
    }

    /// Sends a record, once. `Full` if there is no room.
    #[inline]
    pub(crate) fn try_send(&self, kind: u8, value: &(impl Encode + ?Sized)) -> Result<(), StreamSendError> {
        if let Some(why) = self.over() {
            // Others may wait for room in vain.
            self.waiters.ring();
            return Err(why);
        }
        let mut posting = self.lock();
        let mut record = posting.lane.reserve(1 + value.size()).map_err(refusal)?;
        failpoint!("stream-writer-reserved");
        record.put(&[kind]);
        value.encode(&mut record);
        failpoint!("stream-writer-filled");
        let (number, _) = record.commit(0).map_err(refusal)?;
        failpoint!("stream-writer-posted");
        if number.is_multiple_of(FENCE_LOOKS) {
            posting.learn_fence();
        }
        self.posted(posting);
        Ok(())
    }

    /// A record was posted: rings if the reader waits, and hands on to threads that wait for room.
    #[inline]
    fn posted(&self, mut posting: MutexGuard<'_, Posting>) {
        let doorbell = posting.lane.after_post(posting.fence);
        let hand_on = self.waiters.any() && self.announce_wait(&mut posting, 0);
        drop(posting);
        if doorbell != Doorbell::None {
            self.bell.ring();
            failpoint!("stream-writer-rung");
        }
        if hand_on {
            self.waiters.ring();
        }
    }

    /// *Wait, W1 to W3.* Returns whether there may be room for `most` bytes.
    fn announce_wait(&self, posting: &mut MutexGuard<'_, Posting>, most: usize) -> bool {
        self.room.listen();
        posting.lane.announce_wait();
        barrier::heavy();
        // A lane that makes no sense refuses the item.
        posting.lane.could_post(most).unwrap_or(true)
    }

    /// Waits until there may be room for a record of `most` bytes.
    #[cold]
    pub(crate) fn wait_for_room(&self, most: usize, limit: WaitUntil) -> Result<(), StreamSendError> {
        self.spin.spin_then(limit, || self.over().is_some(), || self.block_for_room(most, limit))
    }

    fn block_for_room(&self, most: usize, limit: WaitUntil) -> Result<(), StreamSendError> {
        let mut posting = self.lock();
        let waiting = self.waiters.enter();
        let room = self.announce_wait(&mut posting, most);
        failpoint!("stream-writer-waits");
        drop(posting);
        if room || self.over().is_some() {
            return Ok(());
        }
        let woken = self.waiters.wait(limit);
        drop(waiting);
        woken.map_err(|why| match why {
            Unwoken::Late => StreamSendError::Timeout,
            Unwoken::Cancelled => StreamSendError::Cancelled,
        })
    }

    /// Sends a record, and waits for room without blocking a thread.
    pub(crate) async fn send_async(
        &self,
        kind: u8,
        value: &(impl Encode + ?Sized),
    ) -> Result<(), StreamSendError> {
        loop {
            match self.try_send(kind, value) {
                Err(StreamSendError::Full) => {}
                sent => return sent,
            }
            // If it is woken for other room than it needs, it tries in vain, and waits again.
            let mut polled = false;
            poll_fn(|task| match std::mem::replace(&mut polled, true) {
                true => Poll::Ready(()),
                false => self.poll_room(1 + value.size(), task),
            })
            .await;
        }
    }

    /// As [`wait_for_room`](Self::wait_for_room), for a task.
    fn poll_room(&self, most: usize, task: &Context<'_>) -> Poll<()> {
        let mut posting = self.lock();
        self.waiters.leave_waker(task.waker());
        let room = self.announce_wait(&mut posting, most);
        drop(posting);
        if room || self.over().is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// How many items the reader has not taken.
    pub(crate) fn queued(&self) -> u64 {
        if fork::is_forked() { 0 } else { self.lock().lane.queued().unwrap_or(0) }
    }

    /// Tells the reader that nothing follows, and why, unless that was told already.
    pub(crate) fn finish(&self, why: u64) {
        // Relaxed: it only decides who writes the word.
        if !self.finished.swap(true, Ordering::Relaxed) {
            self.memory.finish(why);
            failpoint!("stream-writer-finished");
        }
    }
}

impl Posting {
    #[cold]
    fn learn_fence(&mut self) {
        // The reader's barriers reach every registered domain.
        if self.lane.closed() & LIGHT != 0 && barrier::register() {
            self.fence = Fence::Light;
        }
    }
}

impl Rung for WriterEnd {
    fn bell(&self) -> &Bell {
        &self.room
    }

    fn rang(&self) {
        self.waiters.ring();
    }

    fn hung_up(&self) {
        self.ends(HUNG_UP);
    }
}

impl EndsWithBinding for WriterEnd {
    fn binding_ended(&self) {
        // The binding of a remote call ends when its streams are over. If the reader went before,
        // that is why nothing can be sent.
        let reader_gone = self.lock().lane.closed() & DROPPED != 0;
        self.finish(ENDED_WITH_BINDING);
        self.ends(if reader_gone { HUNG_UP } else { BINDING_ENDED });
        self.bell.hang_up();
    }
}

impl Drop for WriterEnd {
    fn drop(&mut self) {
        if !fork::is_forked() {
            self.finish(ABANDONED);
        }
    }
}

/// The error for what the lane refuses.
fn refusal(why: Unposted) -> StreamSendError {
    match why {
        Unposted::Full => StreamSendError::Full,
        Unposted::TooLong => StreamSendError::TooLong,
        Unposted::Damaged => StreamSendError::NoMemory,
        Unposted::Malformed => StreamSendError::Malformed,
    }
}
