//! How the sender of a full lane polls for room before it blocks.

use crate::guard::lock;
use crate::wait_until::WaitUntil;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use underpass_channel::{LaneMemory, LaneSizes, LaneWord, MappedLane};
use underpass_sync::Mutex;
use underpass_threads::{WaitSpin, yield_now};

/// What a sending end has learnt of how soon its full lane has room.
#[derive(Debug)]
pub(crate) struct RoomSpin {
    memory: Arc<MappedLane>,
    /// How many items the receiver takes before it counts as room.
    some: u64,
    /// The thread that waits has it.
    spin: Mutex<WaitSpin>,
}

impl RoomSpin {
    pub(crate) fn new(memory: Arc<MappedLane>, sizes: LaneSizes) -> Self {
        // A few items at once: the receiver, which has many, is the slower side.
        Self { memory, some: sizes.items() as u64 / 8, spin: Mutex::default() }
    }

    /// Polls until there is room or the lane `is_over`, and calls `block` if neither comes soon.
    pub(crate) fn spin_then<E>(
        &self,
        limit: WaitUntil,
        is_over: impl Fn() -> bool,
        block: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut spin = std::mem::take(&mut *lock(&self.spin));
        let before = self.taken();
        let has_come = || self.taken().wrapping_sub(before) > self.some || is_over();
        let waited = spin.spin_then(&mut (), |()| has_come(), |()| limit.is_over(), |()| block());
        let gives_way = spin.gives_way();
        *lock(&self.spin) = spin;
        if gives_way {
            yield_now();
        }
        waited.unwrap_or(Ok(()))
    }

    /// How many items the receiver has taken, as it says: a hint.
    fn taken(&self) -> u64 {
        self.memory.word(LaneWord::Taken).load(Ordering::Relaxed)
    }
}
