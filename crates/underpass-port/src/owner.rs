//! A port as its owner has it: its lanes, and those that receivers look at. The steps R1, R2 and W1
//! to W3 are those of `README.md`.

use crate::arrival::{LaneEnded, SenderId, WhyEnded};
use crate::bell::Bell;
use crate::described::DescribedMessages;
use crate::guard::lock;
use crate::lane_slot::{BindingLanes, LaneSlot, Look, OwnedLane};
use crate::open::{OpenError, OpenRefused, Opened, PortOpen};
use crate::quota::{Charge, Quota};
use crate::waiters::Waiters;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use underpass_channel::{Fence, LaneHead, LaneReceiver, LaneSizes, MappedLane, WhenFull};
use underpass_os::{Socket, barrier, failpoint, fork};
use underpass_rpc::{CallError, Outcome, PassedSocket, Peer, binding_state, caller};
use underpass_sync::Mutex;
use underpass_threads::blocking;
use underpass_wire::Schema;

/// A port.
#[derive(Debug)]
pub(crate) struct PortCore {
    sizes: LaneSizes,
    /// The hash of the messages' type.
    of: u64,
    quota: Arc<Quota>,
    lanes: Mutex<Lanes>,
    pub(crate) waiters: Waiters,
    /// How often a receiver has rung for room.
    rings: AtomicU64,
}

/// The lanes of a port.
#[derive(Debug)]
pub(crate) struct Lanes {
    slots: Vec<Option<Box<LaneSlot>>>,
    /// Places of the ready list.
    ready: VecDeque<usize>,
    /// Lanes there are, and lanes that there ever were.
    count: usize,
    last: u64,
    receivers: usize,
    /// Whether senders can still connect.
    served: bool,
    /// Whether counts mean something to the receivers.
    counts: bool,
    /// How many lanes the receivers have looked at.
    looks: u64,
    /// What a sender does between W2 and W3.
    #[cfg(test)]
    pub(crate) acts_meanwhile: Option<fn(&LaneSlot)>,
}

/// What a receiver has taken.
pub(crate) enum Taken {
    /// A message, with its bytes in the receiver's buffer, and the lane of a sender that is to be
    /// rung for.
    Message(SenderId, LaneHead, Option<Arc<OwnedLane>>),
    /// Counts of a sender, each with its number and by how much it has grown.
    Counts(SenderId, Vec<(usize, u64)>),
    /// The end of a lane, which is to be dropped without the lock.
    Ended(LaneEnded, Box<LaneSlot>),
}

impl Lanes {
    /// *Receive, R1.* What comes next, if something is there.
    pub(crate) fn take(&mut self, into: &mut Vec<u8>) -> Option<Taken> {
        for _ in 0..self.ready.len() {
            let place = *self.ready.front()?;
            self.looks += 1;
            let Some(slot) = self.slots[place].as_mut() else {
                self.ready.pop_front();
                continue;
            };
            match slot.look(into) {
                Look::Nothing => self.ready.rotate_left(1),
                Look::Counts(counts) => {
                    let from = slot.lane.from;
                    self.ready.rotate_left(1);
                    // To a port they mean nothing, and no honest sender counts there.
                    if self.counts {
                        return Some(Taken::Counts(from, counts));
                    }
                }
                Look::Message(head, turn) => {
                    let room = slot.sender_waits().then(|| slot.lane.clone());
                    let taken = Taken::Message(slot.lane.from, head, room);
                    if turn {
                        self.ready.rotate_left(1);
                    }
                    return Some(taken);
                }
                Look::End(ended) => {
                    return self.remove(place).map(|slot| Taken::Ended(ended, slot));
                }
            }
        }
        None
    }

    fn remove(&mut self, place: usize) -> Option<Box<LaneSlot>> {
        let slot = self.slots[place].take()?;
        self.count -= 1;
        self.ready.retain(|&other| other != place);
        Some(slot)
    }

    /// *Wait, W1 to W3.* Returns whether a lane of the ready list has something.
    pub(crate) fn announce_wait(&mut self) -> bool {
        if self.ready.is_empty() {
            return false;
        }
        self.looks += self.ready.len() as u64;
        let slots = &mut self.slots;
        self.ready.retain(|&place| slots[place].as_ref().inspect(|slot| slot.announce_wait()).is_some());
        barrier::heavy();
        #[cfg(test)]
        if let Some(acts) = self.acts_meanwhile {
            slots.iter().flatten().for_each(|slot| acts(slot));
        }
        self.ready.retain(|&place| {
            let Some(slot) = slots[place].as_mut() else { return false };
            slot.is_ready = slot.has_something();
            slot.is_ready
        });
        !self.ready.is_empty()
    }

    #[cfg(any(test, fuzzing))]
    fn slot_of(&self, lane: u64) -> &LaneSlot {
        let mut slots = self.slots.iter().flatten();
        slots.find(|slot| slot.lane.from.lane == lane).expect("there is such a lane")
    }

    /// The bell of a lane.
    #[cfg(test)]
    pub(crate) fn bell_of(&self, lane: u64) -> &Bell {
        &self.slot_of(lane).lane.bell
    }

    /// The binding of a lane.
    #[cfg(test)]
    pub(crate) fn binding_of(&self, lane: u64) -> u64 {
        self.slot_of(lane).lane.from.binding
    }

    /// Rings for the sender of a lane, whether that waits or not.
    #[cfg(test)]
    pub(crate) fn ring_for_room(&self, lane: u64) {
        self.slot_of(lane).lane.ring_for_room();
    }

    /// Whether there is such a lane.
    #[cfg(fuzzing)]
    pub(crate) fn has(&self, lane: u64) -> bool {
        self.slots.iter().flatten().any(|slot| slot.lane.from.lane == lane)
    }

    /// Writes a word of a lane.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn spoil(&self, lane: u64, word: underpass_channel::LaneWord, value: u64) {
        self.slot_of(lane).receiver.spoil(word, value);
    }

    /// How many lanes a receiver looks at.
    #[cfg(test)]
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many lanes the receivers have looked at.
    pub(crate) fn looks(&self) -> u64 {
        self.looks
    }

    fn has_something(&mut self) -> bool {
        let slots = &self.slots;
        let looked = self.ready.iter().position(|&place| {
            let slot = slots[place].as_ref();
            slot.is_some_and(|slot| slot.has_something())
        });
        self.looks += looked.map_or(self.ready.len(), |before| before + 1) as u64;
        looked.is_some()
    }

    /// Whether nothing will ever come.
    pub(crate) fn is_over(&self) -> bool {
        !self.served && self.count == 0
    }

    /// How many messages wait, how long the oldest one has waited as its sender says, in ms, and
    /// how many lanes there are.
    pub(crate) fn queued(&self, now_ms: u32) -> (u64, Option<u32>, usize) {
        let slots = self.slots.iter().flatten();
        let queued = slots.clone().map(|slot| slot.receiver.queued()).sum();
        let oldest = slots.filter_map(|slot| slot.receiver.oldest_stamp_ms());
        (queued, oldest.map(|stamp| now_ms.wrapping_sub(stamp)).max(), self.count)
    }
}

impl PortCore {
    pub(crate) fn new(sizes: LaneSizes, of: u64, memory_of_user: u64) -> Self {
        let lanes = Lanes {
            slots: Vec::new(),
            ready: VecDeque::new(),
            count: 0,
            last: 0,
            receivers: 1,
            served: true,
            counts: false,
            looks: 0,
            #[cfg(test)]
            acts_meanwhile: None,
        };
        barrier::register();
        Self {
            sizes,
            of,
            quota: Quota::new(memory_of_user),
            lanes: Mutex::new(lanes),
            waiters: Waiters::new(),
            rings: AtomicU64::new(0),
        }
    }

    /// From now on receivers take counts, too.
    pub(crate) fn with_counts(self) -> Self {
        self.lanes().counts = true;
        self
    }

    /// The lanes, under their lock.
    pub(crate) fn lanes(&self) -> underpass_sync::MutexGuard<'_, Lanes> {
        lock(&self.lanes)
    }

    /// Rings for the sender of `lane`, which waits for room.
    pub(crate) fn ring_for_room(&self, lane: &OwnedLane) {
        // Relaxed: a count.
        self.rings.fetch_add(1, Ordering::Relaxed);
        failpoint!("owner-room");
        lane.ring_for_room();
    }

    /// How often a receiver has rung for room.
    pub(crate) fn rings(&self) -> u64 {
        self.rings.load(Ordering::Relaxed)
    }

    pub(crate) fn sizes(&self) -> LaneSizes {
        self.sizes
    }

    /// *R2.* Returns whether the caller has to give a token, without the lock.
    #[inline]
    pub(crate) fn hand_on(&self, lanes: &mut Lanes) -> bool {
        self.waiters.any() && (lanes.has_something() || lanes.announce_wait())
    }

    /// Puts a lane into the ready list: its sender has rung, or it is over.
    pub(crate) fn look_at(&self, place: usize, from: SenderId) {
        // A child has none of its parent's lanes.
        if fork::is_forked() {
            return;
        }
        let mut lanes = self.lanes();
        let Some(slot) = lanes.slots.get_mut(place).and_then(Option::as_mut) else { return };
        if slot.lane.from != from {
            return;
        }
        slot.note_end();
        if !std::mem::replace(&mut slot.is_ready, true) {
            lanes.ready.push_back(place);
        }
        drop(lanes);
        failpoint!("owner-heard");
        self.waiters.ring();
    }

    /// Ends the lane of `from`: a message of it was no value of the port's type.
    pub(crate) fn end(&self, from: SenderId) -> LaneEnded {
        let mut lanes = self.lanes();
        let mut slots = lanes.slots.iter();
        let place = slots.position(|slot| slot.as_ref().is_some_and(|slot| slot.lane.from == from));
        let slot = place.and_then(|place| lanes.remove(place));
        drop(lanes);
        match slot {
            Some(slot) => slot.ended(Some(WhyEnded::Malformed)),
            None => LaneEnded { from, why: WhyEnded::Malformed, messages: 0 },
        }
    }

    pub(crate) fn add_receiver(&self) {
        self.lanes().receivers += 1;
    }

    /// A receiver is gone. With the last one go all lanes.
    pub(crate) fn drop_receiver(&self) {
        let mut lanes = self.lanes();
        lanes.receivers -= 1;
        if lanes.receivers == 0 {
            let slots = std::mem::take(&mut lanes.slots);
            (lanes.count, lanes.ready) = (0, VecDeque::new());
            drop(lanes);
            drop(slots);
        }
    }

    /// Makes the lane of `peer`. `None` if there are no receivers.
    fn lane(
        self: &Arc<Self>,
        peer: &Peer,
        light: bool,
        room: PassedSocket,
        charge: Charge,
    ) -> io::Result<Option<Made>> {
        let (memory, file) = MappedLane::create(self.sizes)?;
        let (bell, theirs) = Bell::new()?;
        failpoint!("owner-made");
        let mut lanes = self.lanes();
        if lanes.receivers == 0 {
            return Ok(None);
        }
        let empty = lanes.slots.iter().position(Option::is_none);
        let place = empty.unwrap_or(lanes.slots.len());
        lanes.last += 1;
        let lane = Arc::new(OwnedLane {
            port: Arc::downgrade(self),
            from: SenderId { lane: lanes.last, binding: peer.binding_id() },
            place,
            bell,
            room,
            fence: if light { Fence::Light } else { Fence::Full },
            pid: peer.pid(),
            over: AtomicU8::new(0),
            _charge: charge,
        });
        Bell::watch(&lane)?;
        let slot = LaneSlot::new(lane.clone(), LaneReceiver::new(Arc::new(memory), self.sizes));
        // Nobody can have posted yet, so this needs no barrier.
        slot.announce_wait();
        if empty.is_none() {
            lanes.slots.push(None);
        }
        lanes.slots[place] = Some(Box::new(slot));
        lanes.count += 1;
        failpoint!("owner-listed");
        Ok(Some(Made { lane, file, theirs }))
    }
}

/// A lane that was made, and the files for its sender.
struct Made {
    lane: Arc<OwnedLane>,
    file: OwnedFd,
    theirs: OwnedFd,
}

/// The implementation of the internal interface. When it is dropped, no sender connects any more.
#[derive(Debug)]
pub(crate) struct Opener(Arc<PortCore>, Option<fn() -> DescribedMessages>);

impl Opener {
    /// Of a port with messages of type `T`.
    pub(crate) fn of<T: Schema>(port: &Arc<PortCore>) -> Self {
        Self(port.clone(), Some(DescribedMessages::of::<T>))
    }

    /// Of a port whose messages are signals, which no type describes.
    pub(crate) fn of_signals(port: &Arc<PortCore>) -> Self {
        Self(port.clone(), None)
    }

    fn make(&self, of: u64, light: bool, room: OwnedFd) -> Result<Opened, OpenError> {
        let port = &self.0;
        let refused = |why| Err(OpenError::Refused(why));
        if !Socket::is_one(&room) {
            // To close a file of an unknown kind may take long.
            blocking(|| drop(room));
            return Err(CallError::ProtocolViolation("the bell is no connection".to_owned()).into());
        }
        let no_room = |e: io::Error| OpenError::Refused(OpenRefused::NoResources(e.to_string()));
        let room = PassedSocket::adopt(room).map_err(no_room)?;
        if of != port.of {
            return refused(OpenRefused::AnotherType);
        }
        let Some(peer) = caller() else { return refused(OpenRefused::NoReceivers) };
        let own = peer.pid() == std::process::id();
        let Some(charge) = port.quota.charge(peer.uid(), port.sizes.memory() as u64, own) else {
            return refused(OpenRefused::MemoryOfUser);
        };
        let light = light && barrier::register();
        let Some(made) = port.lane(&peer, light, room, charge).map_err(no_room)? else {
            return refused(OpenRefused::NoReceivers);
        };
        if let Some(lanes) = binding_state(BindingLanes::default) {
            lanes.add(&made.lane);
        }
        Ok(Opened {
            lane: made.lane.from.lane,
            items: port.sizes.items() as u64,
            longest: port.sizes.longest() as u64,
            bytes: port.sizes.bytes() as u64,
            drop_oldest: port.sizes.when_full() == WhenFull::DropOldest,
            light,
            memory: made.file,
            bell: made.theirs,
        })
    }
}

impl PortOpen for Opener {
    fn open(&self, port: u64, light: bool, room: OwnedFd) -> Result<Opened, OpenError> {
        self.make(port, light, room)
    }

    fn ask(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn messages(&self) -> Result<DescribedMessages, CallError> {
        self.1.map(|describe| describe()).ok_or(CallError::Unsupported(Outcome::Executed))
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        if fork::is_forked() {
            return;
        }
        self.0.lanes().served = false;
        self.0.waiters.ring();
    }
}
