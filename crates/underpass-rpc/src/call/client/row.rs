//! A client's binding: a row of its connection, over which its calls go.

use super::closing::Ending;
use super::{ClientEnd, QUARANTINE};
use crate::counters::{Counters, SlotCount};
use crate::error::{CallError, Outcome};
use std::sync::{Mutex, OnceLock, PoisonError};
use underpass_channel::Tag;
use underpass_channel::layout::{CHANNELS, SLOTS};
use underpass_os::fork;
use underpass_seam::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How many slots of a channel the calls over one row may have, if the connection has other rows.
pub(crate) const SHARE: u32 = SLOTS / 2;

/// Of an open row its tag, and of a closed one this.
const CLOSED: u64 = 0;

/// One binding of a connection.
///
/// | field | who writes it |
/// |---|---|
/// | `open` | the thread that closes the row; never reset |
/// | `why` | the first thread that closes the row, or the connection |
/// | `turns_away` | callers that the server turns away; never reset |
/// | `quarantine` | the user |
/// | `count`, `further` | callers, under the lock of the channel's end |
#[derive(Debug)]
pub(crate) struct ClientRow {
    open: AtomicU64,
    tag: Tag,
    count: SlotCount,
    /// Set in few of the rows, and there may be many.
    why: Mutex<Option<Box<Ending>>>,
    turns_away: AtomicBool,
    /// How many slots of each channel the server may hold though nobody waits for their calls.
    quarantine: AtomicU32,
    /// What calls over the further channels have carried.
    further: OnceLock<Box<[SlotCount; CHANNELS - 1]>>,
}

impl ClientRow {
    /// The row with this tag, which the server has opened.
    pub(super) fn new(tag: Tag) -> Self {
        Self {
            open: AtomicU64::new(tag.word()),
            tag,
            count: SlotCount::default(),
            why: Mutex::default(),
            turns_away: AtomicBool::new(false),
            quarantine: AtomicU32::new(QUARANTINE),
            further: OnceLock::new(),
        }
    }

    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    /// The tag, while the row is open. Certain under the lock of an end.
    #[inline(always)]
    pub(super) fn open(&self) -> Option<Tag> {
        // Relaxed: a thread that closes the row takes the lock of each end afterwards.
        let open = self.open.load(Ordering::Relaxed);
        (open != CLOSED).then_some(Tag::of_word(open))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.open().is_none()
    }

    /// Closes it. Returns `false` if it was closed.
    pub(super) fn close(&self, ending: Ending) -> bool {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| Box::new(ending));
        self.open.swap(CLOSED, Ordering::Relaxed) != CLOSED
    }

    fn ending(&self) -> Option<Ending> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).as_deref().cloned()
    }

    /// Whether it is certain that the server takes no more calls over this row.
    pub(super) fn takes_no_more(&self) -> bool {
        self.ending().is_some_and(|ending| ending.takes_no_more)
    }

    /// Why the row is closed, as the error of a call of which `outcome` is known.
    #[cold]
    pub(crate) fn reason(&self, outcome: Outcome) -> Box<CallError> {
        // Before the lock, which another kernel thread of the parent's may have held.
        if fork::check().is_err() {
            return Box::new(CallError::Forked);
        }
        Box::new(match self.ending() {
            Some(ending) => ending.error(outcome),
            None => CallError::PeerDied(outcome),
        })
    }

    /// The server has turned a call away, because it drains: the error that its caller gets.
    #[cold]
    pub(crate) fn turned_away(&self) -> CallError {
        // Relaxed, here and below: the thread that asks comes after the calls about which it asks.
        self.turns_away.store(true, Ordering::Relaxed);
        CallError::Closed(Outcome::NotStarted)
    }

    /// Whether the binding has ended, or its server turns calls away.
    pub(crate) fn turns_away(&self) -> bool {
        self.is_closed() || self.turns_away.load(Ordering::Relaxed)
    }

    /// Sets how many slots of each channel the server may hold though nobody waits for their calls.
    pub(crate) fn set_quarantine(&self, most: u32) {
        // Relaxed: a number.
        self.quarantine.store(most, Ordering::Relaxed);
    }

    /// Whether the user has set that number.
    pub(super) fn has_own_quarantine(&self) -> bool {
        self.quarantine.load(Ordering::Relaxed) != QUARANTINE
    }

    /// The most such slots, if the row is `alone` or not.
    pub(super) fn quarantine(&self, alone: bool) -> u32 {
        let most = if alone { SLOTS } else { SHARE - SHARE / 4 };
        self.quarantine.load(Ordering::Relaxed).min(most)
    }

    /// What calls over the channel of `end` have carried. Written under the lock of `end`.
    #[inline(always)]
    pub(crate) fn count(&self, end: &ClientEnd) -> &SlotCount {
        match end.number() {
            0 => &self.count,
            number => self.count_beside(number),
        }
    }

    #[inline(never)]
    fn count_beside(&self, number: u8) -> &SlotCount {
        let further = self.further.get_or_init(Box::default);
        &further[usize::from(number).clamp(1, CHANNELS - 1) - 1]
    }

    /// What calls over channel `number` have carried.
    pub(super) fn carried(&self, number: u8) -> Counters {
        let mut sum = Counters::default();
        match (number, self.further.get()) {
            (0, _) => self.count.add_to(&mut sum),
            (_, None) => {}
            (_, Some(_)) => self.count_beside(number).add_to(&mut sum),
        }
        sum
    }
}
