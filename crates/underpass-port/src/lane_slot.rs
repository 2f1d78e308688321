//! A lane as its owner has it.

use crate::arrival::{LaneEnded, SenderId, WhyEnded};
use crate::bell::{Bell, Rung};
use crate::guard::lock;
use crate::owner::PortCore;
use crate::quota::Charge;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use underpass_channel::{Doorbell, Fence, LaneReceiver, MappedLane};
use underpass_os::fork;
use underpass_os::process::{ProcessState, state_of};
use underpass_rpc::PassedSocket;
use underpass_sync::Mutex;

/// The peer has closed its socket of the lane.
const HUNG_UP: u8 = 1;
/// The binding over which the lane was asked for has ended.
const BINDING_ENDED: u8 = 2;

/// What the thread of the bells and the binding know of a lane.
#[derive(Debug)]
pub(crate) struct OwnedLane {
    pub(crate) port: Weak<PortCore>,
    pub(crate) from: SenderId,
    /// Its place among the port's lanes.
    pub(crate) place: usize,
    pub(crate) bell: Bell,
    /// By which the owner rings when there is room.
    pub(crate) room: PassedSocket,
    pub(crate) fence: Fence,
    /// The sending process, 0 if this domain can't see it.
    pub(crate) pid: u32,
    pub(crate) over: AtomicU8,
    pub(crate) _charge: Charge,
}

impl OwnedLane {
    /// Whether no honest sender posts any more.
    pub(crate) fn is_over(&self) -> bool {
        // SYNC with `over` fetch_or in `ends`: what the sender had posted before.
        self.over.load(Ordering::Acquire) != 0
    }

    fn ends(&self, how: u8) {
        // SYNC with `over` load in `is_over`.
        self.over.fetch_or(how, Ordering::Release);
        self.look();
    }

    /// Has a receiver look at the lane.
    fn look(&self) {
        if let Some(port) = self.port.upgrade() {
            port.look_at(self.place, self.from);
        }
    }

    /// Rings for the sender, which waits for room.
    pub(crate) fn ring_for_room(&self) {
        // If the sender does not read its bell, a ring waits there already; if it is gone, nobody
        // waits.
        let _ = self.room.end().send(&[1], &[]);
    }

    /// Why the lane has ended, if its sender has not finished it.
    fn why(&self) -> WhyEnded {
        let hung_up = self.over.load(Ordering::Relaxed) & HUNG_UP != 0;
        let died = hung_up || matches!(state_of(self.pid), ProcessState::Exiting | ProcessState::Gone);
        if died { WhyEnded::PeerDied } else { WhyEnded::Revoked }
    }
}

impl Drop for OwnedLane {
    fn drop(&mut self) {
        // The file thread closes the socket later, and the sender is to hear of the end now.
        if !fork::is_forked() {
            self.room.end().hang_up();
        }
    }
}

impl Rung for OwnedLane {
    fn bell(&self) -> &Bell {
        &self.bell
    }

    fn rang(&self) {
        self.look();
    }

    fn hung_up(&self) {
        self.ends(HUNG_UP);
    }
}

/// The lanes of one binding, as the binding's state.
#[derive(Debug, Default)]
pub(crate) struct BindingLanes(Mutex<Vec<Weak<OwnedLane>>>);

impl BindingLanes {
    pub(crate) fn add(&self, lane: &Arc<OwnedLane>) {
        let mut lanes = lock(&self.0);
        lanes.retain(|lane| lane.strong_count() > 0);
        lanes.push(Arc::downgrade(lane));
    }
}

impl Drop for BindingLanes {
    fn drop(&mut self) {
        let lanes = std::mem::take(&mut *lock(&self.0));
        lanes.iter().filter_map(Weak::upgrade).for_each(|lane| lane.ends(BINDING_ENDED));
    }
}

/// A lane, under the port's lock.
#[derive(Debug)]
pub(crate) struct LaneSlot {
    pub(crate) lane: Arc<OwnedLane>,
    pub(crate) receiver: LaneReceiver<MappedLane>,
    /// Whether it is in the ready list.
    pub(crate) is_ready: bool,
    /// Messages in a row that were taken from it.
    burst: u32,
    /// Once the lane is over: what is still to be taken.
    rest: Option<Rest>,
}

/// What is still to be taken from a lane that is over.
#[derive(Debug)]
struct Rest {
    /// How many messages its sender had posted.
    until: u64,
    /// How many looks find something, if the sender is honest. A hostile one posts on.
    most: usize,
}

/// What a look at one lane has found.
pub(crate) enum Look {
    /// A message, and whether another lane comes next.
    Message(underpass_channel::LaneHead, bool),
    Nothing,
    /// Counts, each with its number and by how much it has grown.
    Counts(Vec<(usize, u64)>),
    /// The lane has ended.
    End(LaneEnded),
}

/// After this many messages in a row another lane comes next.
const BURST: u32 = 32;

impl LaneSlot {
    pub(crate) fn new(lane: Arc<OwnedLane>, receiver: LaneReceiver<MappedLane>) -> Self {
        Self { lane, receiver, is_ready: false, burst: 0, rest: None }
    }

    /// Once the lane is over, notes what is still to be taken. Returns whether it is over.
    pub(crate) fn note_end(&mut self) -> bool {
        let over = self.lane.is_over();
        if over && self.rest.is_none() {
            // One more look is for the counts.
            let most = self.receiver.sizes().items() + 1;
            self.rest = Some(Rest { until: self.receiver.posted(), most });
        }
        over
    }

    /// *Receive, R1*, from this lane.
    pub(crate) fn look(&mut self, into: &mut Vec<u8>) -> Look {
        // First, so that what is taken afterwards includes all that was posted before.
        let over = self.note_end();
        if let Some(rest) = &mut self.rest {
            if rest.most == 0 {
                return Look::End(self.ended(None));
            }
            rest.most -= 1;
        }
        if self.receiver.has_counts() {
            let counts = self.receiver.take_counts();
            if !counts.is_empty() {
                return Look::Counts(counts);
            }
        }
        if self.rest.as_ref().is_some_and(|rest| self.receiver.position() >= rest.until) {
            return Look::End(self.ended(None));
        }
        match self.receiver.take(into) {
            Ok(Some(head)) => {
                self.burst += 1;
                let turn = self.burst >= BURST;
                if turn {
                    self.burst = 0;
                }
                Look::Message(head, turn)
            }
            Ok(None) if over => Look::End(self.ended(None)),
            Ok(None) => Look::Nothing,
            Err(_) => Look::End(self.ended(Some(WhyEnded::Malformed))),
        }
    }

    /// The end of the lane, for `why` if that is known.
    pub(crate) fn ended(&self, why: Option<WhyEnded>) -> LaneEnded {
        let why = match why {
            Some(why) => why,
            None if self.receiver.is_finished() => WhyEnded::Finished,
            None => self.lane.why(),
        };
        LaneEnded { from: self.lane.from, why, messages: self.receiver.position() }
    }

    /// Whether a receiver finds something there.
    pub(crate) fn has_something(&self) -> bool {
        self.receiver.is_ready() || self.lane.is_over()
    }

    /// *Wait, W1.*
    pub(crate) fn announce_wait(&self) {
        self.lane.bell.listen();
        self.receiver.announce_wait();
    }

    /// Whether the sender waits for room, and is to be rung for.
    pub(crate) fn sender_waits(&self) -> bool {
        self.receiver.after_take(self.lane.fence) != Doorbell::None
    }
}
