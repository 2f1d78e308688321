//! A sender's end of its lane, which the clones of the sender share.

use crate::arrival::WhyEnded;
use crate::bell::{Bell, Rung};
use crate::errors::{ConnectError, PortSendError};
use crate::guard::lock;
use crate::open::{OpenError, Opened, PortOpen, PortOpenClient};
use crate::room_spin::RoomSpin;
use crate::wait_until::WaitUntil;
use crate::waiters::{Unwoken, Waiters};
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use underpass_channel::{Doorbell, Fence, LaneSender, LaneSizes, MappedLane, Unposted, WhenFull};
use underpass_os::{Connected, barrier, clock, failpoint, fork};
use underpass_rpc::{CallError, PassedSocket};
use underpass_sync::{Mutex, MutexGuard};
use underpass_wire::Encode;

/// How long an owner that lives may take to say so.
const ANSWERS: Duration = Duration::from_secs(2);

/// The lock of a lane's sending end.
pub(crate) type HeldLane<'a> = MutexGuard<'a, LaneSender<MappedLane>>;

/// A sender's end.
#[derive(Debug)]
pub(crate) struct SenderEnd {
    lane: Mutex<LaneSender<MappedLane>>,
    spin: RoomSpin,
    /// The owner rings it when there is room.
    room: Bell,
    /// Rings for the owner when there is a message.
    ring: PassedSocket,
    fence: Fence,
    waiters: Waiters,
    /// How often this end has rung.
    rings: AtomicU64,
    ended: AtomicBool,
    /// The owner's process, 0 if this domain can't see it.
    owner: u32,
    number: u64,
    stub: PortOpenClient,
}

impl Rung for SenderEnd {
    fn bell(&self) -> &Bell {
        &self.room
    }

    fn rang(&self) {
        self.waiters.ring();
    }

    fn hung_up(&self) {
        // SYNC with `ended` load in `has_ended`: the last value of the receiver's count.
        self.ended.store(true, Ordering::Release);
        self.waiters.ring();
    }
}

impl SenderEnd {
    fn connect(stub: PortOpenClient, of: u64) -> Result<Arc<Self>, ConnectError> {
        let (room, theirs) = Bell::new().map_err(ConnectError::System)?;
        let opened = stub.open(of, barrier::register(), theirs).map_err(|e| match e {
            OpenError::Call(e) => ConnectError::Call(e),
            OpenError::Refused(why) => ConnectError::Refused(why),
        })?;
        failpoint!("sender-opened");
        let end = Arc::new(Self::of(stub, room, opened).map_err(ConnectError::System)?);
        Bell::watch(&end).map_err(ConnectError::System)?;
        failpoint!("sender-mapped");
        Ok(end)
    }

    fn of(stub: PortOpenClient, room: Bell, opened: Opened) -> io::Result<Self> {
        let nonsense =
            |_| io::Error::new(io::ErrorKind::InvalidData, "the owner offers a lane of no valid size");
        // First, so that the file thread closes it whatever comes.
        let ring = PassedSocket::adopt(opened.bell)?;
        let size = |told: u64| usize::try_from(told).unwrap_or(usize::MAX);
        let when_full = if opened.drop_oldest { WhenFull::DropOldest } else { WhenFull::Refuse };
        let (items, longest, bytes) = (size(opened.items), size(opened.longest), size(opened.bytes));
        let sizes = LaneSizes::with_bytes(items, longest, bytes, when_full).map_err(nonsense)?;
        let memory = Arc::new(MappedLane::adopt(std::os::fd::AsFd::as_fd(&opened.memory), sizes)?);
        let owner = ring.end().peer().map_or(0, |owner| owner.pid.unsigned_abs());
        Ok(Self {
            lane: Mutex::new(LaneSender::new(memory.clone(), sizes)),
            spin: RoomSpin::new(memory, sizes),
            room,
            ring,
            // The owner says `light` only if this side does.
            fence: if opened.light && barrier::register() { Fence::Light } else { Fence::Full },
            waiters: Waiters::new(),
            rings: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            owner,
            number: opened.lane,
            stub,
        })
    }

    /// Why the lane has ended, if it has.
    pub(crate) fn why_ended(&self) -> Option<WhyEnded> {
        if !self.has_ended() {
            return None;
        }
        Some(match self.stub.with_deadline(ANSWERS).ask() {
            Err(CallError::Revoked(_)) => WhyEnded::Revoked,
            Err(CallError::ProtocolViolation(_)) => WhyEnded::Malformed,
            Err(CallError::PeerDied(_)) => WhyEnded::PeerDied,
            Ok(()) | Err(_) => WhyEnded::Finished,
        })
    }

    /// The number of the lane.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How often this end has rung.
    pub(crate) fn rings(&self) -> u64 {
        self.rings.load(Ordering::Relaxed)
    }

    /// The owner's process.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    pub(crate) fn lock(&self) -> HeldLane<'_> {
        lock(&self.lane)
    }

    /// Whether the lane has ended.
    pub(crate) fn has_ended(&self) -> bool {
        // SYNC with `ended` store in `hung_up`.
        self.ended.load(Ordering::Acquire) || fork::is_forked()
    }

    /// This end's clock, for messages.
    pub(crate) fn now_ms() -> u32 {
        (clock::tick_ns() / 1_000_000) as u32
    }

    /// Sends a message, once. `Full` if there is no room.
    #[inline]
    pub(crate) fn try_send(&self, message: &(impl Encode + ?Sized)) -> Result<u64, PortSendError> {
        Ok(self.try_send_told(message)?.0)
    }

    /// As [`try_send`](Self::try_send). Returns whether it has rung, too.
    #[inline]
    pub(crate) fn try_send_told(
        &self,
        message: &(impl Encode + ?Sized),
    ) -> Result<(u64, bool), PortSendError> {
        if self.has_ended() {
            return Err(self.disconnected());
        }
        let mut lane = self.lock();
        let mut room = lane.reserve(message.size()).map_err(refusal)?;
        failpoint!("sender-reserved");
        message.encode(&mut room);
        failpoint!("sender-filled");
        let (number, _) = room.commit(Self::now_ms()).map_err(refusal)?;
        failpoint!("sender-posted");
        Ok((number, self.posted(lane)))
    }

    /// A message was posted: rings if the owner waits, and hands on to threads that wait for room.
    /// Returns whether it has rung.
    #[inline]
    pub(crate) fn posted(&self, mut lane: HeldLane<'_>) -> bool {
        let doorbell = lane.after_post(self.fence);
        let token = self.waiters.any() && self.announce_wait(&mut lane, 0);
        drop(lane);
        if doorbell != Doorbell::None {
            // Relaxed: a count.
            self.rings.fetch_add(1, Ordering::Relaxed);
            // If the owner does not read its bell, a ring waits there already.
            let _ = self.ring.end().send(&[1], &[]);
            failpoint!("sender-rung");
        }
        if token {
            self.waiters.ring();
        }
        doorbell != Doorbell::None
    }

    /// Adds to a count. Returns whether it has rung.
    pub(crate) fn count(&self, number: usize, more: u64) -> Result<bool, PortSendError> {
        if self.has_ended() {
            return Err(self.disconnected());
        }
        let mut lane = self.lock();
        lane.count(number, more);
        failpoint!("sender-counted");
        Ok(self.posted(lane))
    }

    /// Nothing can be sent any more. Others may wait for room in vain.
    fn disconnected(&self) -> PortSendError {
        self.waiters.ring();
        PortSendError::Disconnected
    }

    /// *Wait, W1 to W3.* Returns whether there may be room for `most` bytes.
    fn announce_wait(&self, lane: &mut HeldLane<'_>, most: usize) -> bool {
        self.room.listen();
        lane.announce_wait();
        barrier::heavy();
        // A lane that makes no sense refuses the message.
        lane.could_post(most).unwrap_or(true)
    }

    /// Waits until there may be room for `most` bytes.
    #[cold]
    pub(crate) fn wait_for_room(&self, most: usize, limit: WaitUntil) -> Result<(), PortSendError> {
        self.spin.spin_then(limit, || self.has_ended(), || self.block_for_room(most, limit))
    }

    fn block_for_room(&self, most: usize, limit: WaitUntil) -> Result<(), PortSendError> {
        let mut lane = self.lock();
        let waiting = self.waiters.enter();
        let room = self.announce_wait(&mut lane, most);
        failpoint!("sender-waits");
        drop(lane);
        if room || self.has_ended() {
            return Ok(());
        }
        let woken = self.waiters.wait(limit);
        drop(waiting);
        woken.map_err(|why| match why {
            Unwoken::Late => PortSendError::Timeout,
            Unwoken::Cancelled => PortSendError::Cancelled,
        })
    }

    /// As [`wait_for_room`](Self::wait_for_room), for a task.
    pub(crate) fn poll_room(&self, most: usize, task: &Context<'_>) -> Poll<()> {
        let mut lane = self.lock();
        self.waiters.leave_waker(task.waker());
        match self.announce_wait(&mut lane, most) || self.has_ended() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// A hold on a sender's end, which the senders of this domain share. With the last one the lane is
/// finished.
#[derive(Clone, Debug)]
pub(crate) struct SharedEnd {
    end: Arc<SenderEnd>,
    last: Arc<Finish>,
}

/// Finishes a lane when it is dropped, on the thread of the program. The end itself may be dropped
/// by the thread of the bells, when this process has ended already.
#[derive(Debug)]
struct Finish(Arc<SenderEnd>);

impl SharedEnd {
    /// Asks the owner at the other end of `stub` for a lane.
    pub(crate) fn connect(stub: PortOpenClient, of: u64) -> Result<Self, ConnectError> {
        let end = SenderEnd::connect(stub, of)?;
        Ok(Self { last: Arc::new(Finish(end.clone())), end })
    }
}

impl Deref for SharedEnd {
    type Target = SenderEnd;

    #[inline]
    fn deref(&self) -> &SenderEnd {
        &self.end
    }
}

impl Drop for SharedEnd {
    fn drop(&mut self) {
        // A child has none of its parent's lanes, and must not unmap them.
        if fork::is_forked() {
            std::mem::forget(self.last.clone());
        }
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.lock().finish();
        failpoint!("sender-finished");
        // The file thread closes the socket later, and the owner is to hear of the end now.
        self.0.ring.end().hang_up();
    }
}

/// The error for what the lane refuses.
pub(crate) fn refusal(why: Unposted) -> PortSendError {
    match why {
        Unposted::Full => PortSendError::Full,
        Unposted::TooLong => PortSendError::TooLong,
        Unposted::Damaged => PortSendError::NoMemory,
        Unposted::Malformed => PortSendError::Disconnected,
    }
}
