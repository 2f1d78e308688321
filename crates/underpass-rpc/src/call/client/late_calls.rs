//! Calls of a channel that have given their slots back, and the call that collects their answers.
//!
//! The steps and their proof are in `dispatch/late/README.md`.

use super::ClientEnd;
use crate::call::linkage::Linkage;
use crate::call::slot_queue::{SlotWish, Who};
use crate::call::task_wakeup::TaskWakeup;
use crate::dispatch::incoming::Status;
use crate::error::{CallError, Outcome};
use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};
use underpass_channel::layout::{COLLECT, SLOTS};
use underpass_channel::{Cell, PayloadPlace, Slot, Tag};
use underpass_os::failpoint;
use underpass_threads::critical;

/// How many given-up late calls a server may leave unanswered. Each takes some bytes of the table,
/// and no slot.
const MOST_GIVEN_UP: usize = 4096;

/// What a client's end knows of its late calls. *The lock* is that of `table`; it is taken before
/// the lock of the end, never after it.
#[derive(Default)]
pub(super) struct PendingLateCalls {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    calls: HashMap<u64, LateCall>,
    /// How many of them have no answer.
    unanswered: usize,
    given_up: usize,
    /// The slot of the call that collects, while it is under way.
    collect: Option<Slot>,
    /// The place in the queue for slots, if all slots were leased when the call was to be made.
    queued: Option<Arc<TaskWakeup>>,
    /// The given-up calls of which the server has still to be told.
    untold: Vec<u64>,
}

/// A call that has given its slot back.
enum LateCall {
    /// Its caller waits, or will wait soon. It was made over this row.
    Waits { who: Option<Who>, row: Tag },
    /// Its answer is here. If `early`, its caller has not seen yet that the call is late.
    Answered { answer: Collected, early: bool },
    /// Nobody wants the answer.
    GivenUp,
}

/// A late answer that was collected.
pub(super) struct Collected {
    pub(super) reply: Cell,
    /// The slot over which it came, if its bytes lie outside of the cell.
    pub(super) slot: Option<Slot>,
}

/// What a caller finds about its late call.
pub(super) enum LateLookup {
    /// The answer.
    Answer(Collected),
    /// There is none yet. The caller is entered, to be woken once.
    Nothing,
    /// The call is not there: the server has lied.
    Lost,
}

impl PendingLateCalls {
    /// The holder of this lock keeps its processor.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out everybody who waits for a late answer. The caller of this wakes them.
    pub(super) fn waiters(&self) -> Vec<Who> {
        self.take_waiters(|_| true)
    }

    /// The same for the calls over one row.
    pub(super) fn waiters_of(&self, tag: Tag) -> Vec<Who> {
        self.take_waiters(|row| row == tag)
    }

    fn take_waiters(&self, of: impl Fn(Tag) -> bool) -> Vec<Who> {
        let _held = critical();
        let mut table = self.table();
        let waits = table.calls.values_mut().filter_map(|call| match call {
            LateCall::Waits { who, row } if of(*row) => who.take(),
            _ => None,
        });
        waits.collect()
    }
}

impl Table {
    /// The call of `number` is late. Returns `false` if no honest server has given it this number.
    fn enter(&mut self, number: u64, call: LateCall) -> bool {
        match (self.calls.get_mut(&number), call) {
            (Some(LateCall::Answered { early, .. }), LateCall::Waits { .. }) if *early => *early = false,
            (Some(LateCall::Answered { early: true, .. }), LateCall::GivenUp) => {
                // Its slot comes back with the removed answer, which the caller of this drops.
                return true;
            }
            (None, call) => {
                self.unanswered += 1;
                self.given_up += usize::from(matches!(call, LateCall::GivenUp));
                self.calls.insert(number, call);
            }
            _ => return false,
        }
        true
    }

    /// Enters `who` as the caller of a call that is not answered yet.
    fn find(&mut self, number: u64, who: Who) -> LateLookup {
        match self.calls.get_mut(&number) {
            Some(LateCall::Waits { who: waiter, .. }) => {
                *waiter = Some(who);
                LateLookup::Nothing
            }
            Some(LateCall::Answered { .. }) => match self.calls.remove(&number) {
                Some(LateCall::Answered { answer, .. }) => LateLookup::Answer(answer),
                _ => LateLookup::Lost,
            },
            _ => LateLookup::Lost,
        }
    }

    /// Nobody wants the answer any more. Returns it if it is here.
    fn gives_up(&mut self, number: u64) -> Option<Collected> {
        match self.calls.get_mut(&number) {
            Some(call @ LateCall::Waits { .. }) => {
                *call = LateCall::GivenUp;
                self.given_up += 1;
                None
            }
            Some(LateCall::Answered { .. }) => match self.calls.remove(&number) {
                Some(LateCall::Answered { answer, .. }) => Some(answer),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The number in a reply that says that its call is late, if it has the form.
fn number_in(reply: &Cell) -> Option<u64> {
    let inline = reply.place == PayloadPlace::Inline;
    reply.bytes().try_into().ok().filter(|_| inline).map(u64::from_le_bytes)
}

impl ClientEnd {
    /// *L2:* takes the reply that is in `linkage`, and says that its call is late. Returns its
    /// number.
    pub(super) fn enter_late_call(&self, linkage: &Linkage) -> Result<u64, Box<CallError>> {
        // Under one lock, so that the thread that collects finds the number here or there.
        let held = critical();
        let mut table = self.late.table();
        let (number, row) = (linkage.take().as_ref().and_then(number_in), linkage.row());
        let entered = number.filter(|&number| table.enter(number, LateCall::Waits { who: None, row }));
        drop(table);
        drop(held);
        entered.ok_or_else(|| Box::new(self.violated("a late call without a number of its own")))
    }

    /// The call over slot `number` was given up, and now it says that it is late. Returns `false`
    /// if no honest server writes what it says.
    #[cold]
    pub(super) fn abandoned_call_is_late(&self, number: u16) -> bool {
        let held = critical();
        let mut table = self.late.table();
        let linkage = self.linkage(number);
        let late = linkage.late_reply().as_ref().and_then(number_in);
        let entered = late.is_some_and(|late| table.enter(late, LateCall::GivenUp));
        let answered = late.and_then(|late| table.gives_up(late));
        linkage.clear();
        drop(table);
        drop(held);
        match (late.filter(|_| entered), answered) {
            (Some(_), Some(answer)) => self.drop_answer(answer),
            (Some(late), None) => self.tell_of_late_call(late),
            (None, _) => return false,
        }
        self.collect(None);
        true
    }

    /// Looks for the answer to a late call. If there is none yet, `who` is woken when it comes.
    pub(super) fn find_late_answer(&self, number: u64, who: Who) -> LateLookup {
        let _held = critical();
        self.late.table().find(number, who)
    }

    /// Nobody waits for the late call any more. Returns its answer if that has come. `tell`:
    /// whether the server can't know it by itself.
    #[cold]
    pub(super) fn give_up_late_call(&self, number: u64, tell: bool) -> Option<Collected> {
        let held = critical();
        let mut table = self.late.table();
        let answer = table.gives_up(number);
        let too_many = table.given_up > MOST_GIVEN_UP;
        drop(table);
        drop(held);
        if too_many {
            self.end(CallError::Captured(Outcome::Unknown), false);
        }
        if answer.is_none() && tell {
            self.tell_of_late_call(number);
        }
        answer
    }

    /// Gives back the slot of an answer that nobody reads, and closes its files.
    pub(super) fn drop_answer(&self, Collected { reply, slot }: Collected) {
        if reply.what() == Status::DoneWithInterfaces as u16 {
            self.release_interfaces_of(&reply);
        } else if reply.place == PayloadPlace::OutOfBand {
            self.mailbox.discard(reply.slot());
            self.count_entries(self.mailbox.entries());
        }
        if let Some(slot) = slot {
            self.give_back_unused(slot);
        }
    }

    #[cold]
    fn tell_of_late_call(&self, number: u64) {
        let held = critical();
        self.late.table().untold.push(number);
        drop(held);
        self.tell_unwanted_late();
    }

    /// Tells the server of all late calls that nobody waits for and of which it was not told.
    #[cold]
    pub(super) fn tell_unwanted_late(&self) {
        let held = critical();
        let mut untold = mem::take(&mut self.late.table().untold);
        drop(held);
        while let Some(&number) = untold.last() {
            self.kernel.entered(1);
            if !self.mailbox.unwanted_late(number) && !self.is_closed() {
                // The server does not read its socket. It is told later, if it goes on.
                let held = critical();
                self.late.table().untold.append(&mut untold);
                drop(held);
                return self.tell_again_soon();
            }
            untold.pop();
        }
    }

    /// *C1:* makes the call that collects the next late answer, unless there is one, or no late
    /// call is unanswered. Uses the slot `spare` for it, or gives that back.
    pub(super) fn collect(&self, spare: Option<Slot>) {
        let held = critical();
        let spare = self.collect_under(self.late.table(), spare);
        drop(held);
        spare.into_iter().for_each(|slot| self.give_back_unused(slot));
    }

    /// The same under the lock, which this leaves. As long as a call is unanswered, a slot is
    /// leased on its behalf at any time at which the lock is free: so sleepers of this channel
    /// announce themselves. Returns `spare` if it does not use it.
    fn collect_under(&self, mut table: MutexGuard<'_, Table>, spare: Option<Slot>) -> Option<Slot> {
        let is_needed = table.collect.is_none() && table.unanswered > 0 && !self.is_closed();
        if !is_needed {
            return spare;
        }
        let mut left = None;
        let mut inside = self.lock();
        let slot = match spare.or_else(|| self.slots.lease(SLOTS)) {
            Some(slot) => slot,
            None if table.queued.is_some() => return None,
            None => {
                drop(inside);
                // Enters the queue and then tries to lease: see `SlotQueue`.
                let waker = Waker::from(Arc::new(Collector(self.own.clone())));
                let wish = SlotWish { most: SLOTS, row: Tag::NONE };
                let place = self.queue.enter_task(true, wish, &waker);
                inside = self.lock();
                let Some(slot) = self.slots.lease(SLOTS) else {
                    table.queued = Some(place);
                    return None;
                };
                left = Some(place);
                slot
            }
        };
        let request = Cell { bounded: true, ..Cell::request(slot.number(), COLLECT, Tag::NONE) };
        self.linkage(slot.number()).collects();
        table.collect = Some(slot);
        drop(table);
        self.post(inside, &request, || self.call_server(), || (), || ());
        failpoint!("client-collects");
        if let Some(place) = left {
            self.queue.leave_task(place, |wish| {
                let _inside = self.lock();
                self.has_room(wish)
            });
        }
        None
    }

    /// *C4:* an answer has come to the call that collects, over slot `number`.
    #[cold]
    pub(super) fn collected(&self, number: u16) {
        let held = critical();
        let mut table = self.late.table();
        let reply = self.linkage(number).take_collected();
        // The binding may have ended meanwhile, and the slot was given back.
        let Some(reply) = reply else { return };
        let Some(slot) = table.collect.take() else { return };
        let late = self.channel.section_words(number).read()[0];
        let sound = Status::from(reply.what()).is_some_and(|status| status != Status::Late);
        let is_inline = reply.place == PayloadPlace::Inline;
        let (slot, spare) = if is_inline { (None, Some(slot)) } else { (Some(slot), None) };
        let answer = Collected { reply, slot };
        let (mut woken, mut unwanted) = (None, None);
        let known = sound
            && match table.calls.get_mut(&late) {
                Some(LateCall::Waits { who, .. }) => {
                    woken = who.take();
                    table.calls.insert(late, LateCall::Answered { answer, early: false });
                    table.unanswered -= 1;
                    true
                }
                Some(LateCall::GivenUp) => {
                    unwanted = Some(answer);
                    table.calls.remove(&late);
                    (table.unanswered, table.given_up) = (table.unanswered - 1, table.given_up - 1);
                    true
                }
                Some(LateCall::Answered { .. }) => false,
                None if self.says_late(late) => {
                    table.calls.insert(late, LateCall::Answered { answer, early: true });
                    true
                }
                None => false,
            };
        let spare = self.collect_under(table, spare);
        drop(held);
        failpoint!("client-collected");
        spare.into_iter().for_each(|slot| self.give_back_unused(slot));
        unwanted.into_iter().for_each(|answer| self.drop_answer(answer));
        if !known {
            self.violated("an answer to no late call");
        }
        if let Some(who) = woken {
            who.call();
        }
    }

    /// Whether a reply that says that its call is late, under this number, waits for its caller.
    fn says_late(&self, number: u64) -> bool {
        let said = |linkage: &Linkage| linkage.late_reply().as_ref().and_then(number_in);
        self.linkage.iter().any(|linkage| said(linkage) == Some(number))
    }

    /// The binding has ended: no late answer comes any more. Answers that have come are left to
    /// their callers.
    #[cold]
    pub(super) fn lose_late_calls(&self) {
        let held = critical();
        let mut table = self.late.table();
        let (slot, queued) = (table.collect.take(), table.queued.take());
        table.untold = Vec::new();
        table.calls.retain(|_, call| !matches!(call, LateCall::GivenUp));
        drop(table);
        drop(held);
        if let Some(slot) = slot {
            self.linkage(slot.number()).clear();
            self.give_back_unused(slot);
        }
        drop(queued);
        self.late.waiters().iter().for_each(Who::call);
    }
}

/// Makes the call that collects, once a slot is free for it.
struct Collector(Weak<ClientEnd>);

impl Wake for Collector {
    fn wake(self: Arc<Self>) {
        let Some(end) = self.0.upgrade() else { return };
        let held = critical();
        let place = end.late.table().queued.take();
        drop(held);
        drop(place);
        end.collect(None);
    }
}
