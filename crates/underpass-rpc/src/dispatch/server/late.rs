//! The calls of a channel that are answered late: which async calls are under way, which of them
//! have given their slots back, and which answers wait to be collected.
//!
//! The steps and their proof are in `dispatch/late/README.md`.

use super::held_replies::HeldReplies;
use super::{Served, ServerEnd, by};
use crate::binding::limits::LateQuota;
use crate::binding::passing::replies_for;
use crate::binding::row::BindingRow;
use crate::control::timer;
use crate::dispatch::incoming::Status;
use crate::dispatch::late::AsyncCall;
use std::collections::{HashMap, VecDeque};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use underpass_channel::layout::{COLLECT, SECTION_NUMBERS, SLOTS};
use underpass_channel::{Cell, Doorbell, PayloadPlace, Tag};
use underpass_os::{clock, failpoint};
use underpass_seam::atomic::{AtomicU32, Ordering};
use underpass_threads::{critical, on_user_thread};

/// How often the sweep looks at the async calls that have slots. It gives the slot of a call back
/// at its second look, so after one to two of these.
const SWEEP: Duration = Duration::from_millis(1);
/// The same, while some calls can't give their slots back because their user may have no more late
/// answers.
const SWEEP_AT_LIMIT: Duration = Duration::from_millis(16);

/// Makes the reply of a call that has ended, for the slot that collects it.
type LateAnswer = Box<dyn FnOnce(&ServerEnd, u16) -> Cell + Send>;

/// What a server's end knows of its async calls. *The lock* is that of `state`; it is taken before
/// the lock of the end, never after it.
#[derive(Default)]
pub(super) struct LateCalls {
    state: Mutex<State>,
    /// How many requests may still be taken though the user has as many calls under way as it may,
    /// because the request that collects may lie behind them.
    overdraft: AtomicU32,
    /// The replies of the channel, late or not, that wait for room in the socket.
    pub(super) held: HeldReplies,
}

#[derive(Default)]
struct State {
    /// The async calls that have slots, by slot. Empty until the first one comes.
    in_slot: Vec<Option<Arc<AsyncCall>>>,
    /// A timer is set for the sweep.
    sweeps: bool,
    /// The last number that was given to a call. Numbers are never used again.
    last: u64,
    /// The calls that have given their slots back and have not ended.
    late: HashMap<u64, (Arc<AsyncCall>, LateQuota)>,
    /// Those that have ended, and wait to be collected.
    ready: VecDeque<Ready>,
    /// How many answers are being posted.
    posting: usize,
    /// The slot of the client's call that collects.
    collect: Option<u16>,
    closed: bool,
}

/// An answer that waits to be collected.
struct Ready {
    number: u64,
    row: Tag,
    answer: LateAnswer,
    quota: LateQuota,
}

impl State {
    /// The calls that have not ended.
    fn calls(&self) -> Vec<Arc<AsyncCall>> {
        self.in_slot.iter().flatten().chain(self.late.values().map(|(call, _)| call)).cloned().collect()
    }
}

/// Whether this is the request of a call that collects late answers.
pub(super) fn collects(request: &Cell) -> bool {
    request.what() == COLLECT && request.bounded && request.place == PayloadPlace::Inline
}

impl LateCalls {
    /// The holder of this lock keeps its processor.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a late call of the row has not ended, or its answer was not posted yet.
    pub(super) fn uses(&self, tag: Tag) -> bool {
        let _held = critical();
        let state = self.state();
        state.posting > 0
            || state.ready.iter().any(|ready| ready.row == tag)
            || state.late.values().any(|(call, _)| call.row().tag() == tag)
    }

    /// Wakes the handlers of the row's calls, so that they may ask.
    #[cold]
    pub(super) fn wake_handlers_of(&self, tag: Tag) {
        let held = critical();
        let mut calls = self.state().calls();
        drop(held);
        calls.retain(|call| call.row().tag() == tag);
        calls.iter().for_each(|call| call.signal.wake());
    }

    /// The async call over `slot`, if it is the one before which `before` others had ended.
    pub(super) fn in_slot(&self, slot: u16, before: u64) -> Option<Arc<AsyncCall>> {
        let _held = critical();
        let call = self.state().in_slot.get(usize::from(slot))?.clone();
        call.filter(|call| call.origin() == (slot, before))
    }

    /// The late call that has this number, if it has not ended.
    pub(super) fn find(&self, number: u64) -> Option<Arc<AsyncCall>> {
        let _held = critical();
        self.state().late.get(&number).map(|(call, _)| call.clone())
    }

    /// Whether one more request may be taken, beyond what the user may have under way.
    pub(super) fn overdraws(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        // Relaxed: a count.
        self.overdraft.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// The binding has ended: drops the answers that nobody will collect, and wakes all handlers,
    /// so that they may ask.
    #[cold]
    pub(super) fn close(&self) {
        let held = critical();
        let mut state = self.state();
        state.closed = true;
        state.collect = None;
        let dropped = mem::take(&mut state.ready);
        let calls = state.calls();
        drop(state);
        drop(held);
        calls.iter().for_each(|call| call.signal.wake());
        for ready in dropped {
            // The user's code, which may panic.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(ready)));
        }
    }
}

impl ServerEnd {
    /// *S1:* an async call over `slot` begins. If it lasts, the sweep gives its slot back.
    pub(crate) fn async_call_begins(
        &self,
        row: Arc<BindingRow>,
        slot: u16,
        keeps_slot: bool,
    ) -> Arc<AsyncCall> {
        let call = Arc::new(AsyncCall::new(row, slot, self.calls_ended(slot), keeps_slot));
        let _held = critical();
        let mut state = self.late.state();
        if state.in_slot.is_empty() {
            state.in_slot = vec![None; SLOTS as usize];
        }
        state.in_slot[usize::from(slot)] = Some(call.clone());
        if !keeps_slot && !mem::replace(&mut state.sweeps, true) {
            drop(state);
            self.sweep_after(SWEEP);
        }
        call
    }

    fn sweep_after(&self, pause: Duration) {
        let own = self.own.clone();
        timer::set(clock::deadline_ns(pause), move || {
            if let Some(end) = own.upgrade() {
                end.sweep();
            }
        });
    }

    /// Gives back the slots of the async calls that an earlier sweep has seen already. Runs on the
    /// clerk's thread.
    fn sweep(&self) {
        let mut doorbells = Vec::new();
        let held = critical();
        let mut state = self.late.state();
        let (mut young, mut refused) = (false, false);
        for slot in 0..state.in_slot.len() {
            let Some(call) = state.in_slot[slot].clone().filter(|call| !call.keeps_slot()) else { continue };
            if !call.was_swept() {
                young = true;
                continue;
            }
            match self.quota().shared().late_answer() {
                Some(quota) => self.gives_back(&mut state, call, quota, &mut doorbells),
                None => refused = true,
            }
        }
        state.sweeps = (young || refused) && !state.closed;
        let again = state.sweeps;
        drop(state);
        drop(held);
        doorbells.into_iter().for_each(|doorbell| self.posted(doorbell));
        if again {
            self.sweep_after(if young { SWEEP } else { SWEEP_AT_LIMIT });
        }
    }

    /// *S2 and S3:* `call` gives its slot back, unless it has ended. Under the lock, so that no
    /// answer to the call is posted before this. What its client is to be rung with goes to
    /// `doorbells`.
    fn gives_back(
        &self,
        state: &mut State,
        call: Arc<AsyncCall>,
        quota: LateQuota,
        doorbells: &mut Vec<Option<Doorbell>>,
    ) {
        state.last += 1;
        let number = state.last;
        if !call.turn.goes_late(number) {
            return;
        }
        let slot = call.slot();
        state.in_slot[usize::from(slot)] = None;
        state.late.insert(number, (call, quota));
        let reply = Cell::inline(slot, Status::Late as u16, &number.to_le_bytes());
        let reply = reply.expect("a number fits into a cell");
        let served = &self.slots[usize::from(slot)];
        let inside = self.lock.enter();
        // The call stays under way. With this count its slot belongs to no call any more.
        served.count.out(u64::from(reply.length));
        let doorbell = self.post(&reply);
        // The call has a hold on its binding, and needs the row no more.
        served.ends();
        drop(inside);
        failpoint!("server-late");
        doorbells.push(doorbell);
    }

    /// *E1 to E3:* an async call has ended, and `answer` makes its reply. Any thread may call it.
    pub(crate) fn async_call_ends(
        &self,
        call: &AsyncCall,
        answer: impl FnOnce(&Self, u16) -> Cell + Send + 'static,
    ) {
        let slot = call.slot();
        let Some(number) = call.turn.ends() else {
            let held = critical();
            let gone = self.late.state().in_slot[usize::from(slot)].take();
            drop(held);
            drop(gone);
            self.answer(&self.made(answer, slot));
            return call.row().rests();
        };
        // The slot that it will have belongs to no binding.
        let row = call.row().clone();
        let answer = Box::new(move |end: &Self, slot| replies_for(&row, || answer(end, slot)));
        let held = critical();
        let mut state = self.late.state();
        let (_, quota) = state.late.remove(&number).expect("a late call is there until it ends");
        let ready = Ready { number, row: call.row().tag(), answer, quota };
        let overdraws = state.ready.is_empty() && state.collect.is_none() && !state.closed;
        let unwanted = match state.closed {
            true => Some(ready),
            false => {
                state.ready.push_back(ready);
                None
            }
        };
        drop(state);
        drop(held);
        // The user's code, which may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unwanted)));
        // After the answer was entered: until it is posted, `under_way` sees the one or the other.
        let inside = self.lock.enter();
        let left = self.one_less_under_way();
        drop(inside);
        self.call_ended(left);
        if overdraws {
            self.late.overdraft.store(SLOTS, Ordering::Relaxed);
            self.let_go_if_held();
        }
        self.answer_late();
        if !on_user_thread() && self.unnotified.take() {
            self.wake_spare_now();
        }
        call.row().rests();
    }

    fn made(&self, answer: impl FnOnce(&Self, u16) -> Cell, slot: u16) -> Cell {
        let made = catch_unwind(AssertUnwindSafe(|| answer(self, slot)));
        made.unwrap_or_else(|_| self.refuse(slot, Status::Panicked, "the result could not be dropped"))
    }

    /// A request to collect was taken, and counted as under way like any other.
    #[cold]
    pub(super) fn takes_counted_collect(&self, cell: &Cell, slot: &Served) {
        let inside = self.lock.enter();
        // It is the connection's call, and no row's, whatever its tag says.
        slot.row.end();
        slot.by.store(by::COLLECT, Ordering::Relaxed);
        // It is no work of the server's.
        let left = self.one_less_under_way();
        drop(inside);
        self.call_ended(left);
        self.takes_collect(cell.slot());
    }

    /// *C2:* the client wants the next late answer over `slot`, which is marked.
    #[cold]
    pub(super) fn takes_collect(&self, slot: u16) {
        let held = critical();
        let mut state = self.late.state();
        let another = !state.closed && state.collect.replace(slot).is_some();
        drop(state);
        drop(held);
        if another {
            // An honest client collects with one call at a time.
            return self.violated();
        }
        self.answer_late();
    }

    /// *E3:* posts answers, as long as there are any and the client collects.
    fn answer_late(&self) {
        loop {
            let held = critical();
            let mut state = self.late.state();
            if state.ready.is_empty() || state.collect.is_none() {
                return;
            }
            let taken = state.ready.pop_front().zip(state.collect.take());
            state.posting += 1;
            drop(state);
            drop(held);
            if let Some((Ready { number, answer, quota, .. }, slot)) = taken {
                self.post_late(number, answer, slot, quota);
            }
        }
    }

    /// An answer was posted, or will never be.
    pub(super) fn late_was_posted(&self, quota: LateQuota) {
        drop(quota);
        let _held = critical();
        self.late.state().posting -= 1;
    }

    fn post_late(&self, number: u64, answer: LateAnswer, slot: u16, quota: LateQuota) {
        let reply = self.made(answer, slot);
        let mut numbers = [0; SECTION_NUMBERS];
        numbers[0] = number;
        self.channel.section_words(slot).write(numbers);
        if matches!(reply.place, PayloadPlace::OutOfBand | PayloadPlace::OverflowBuffer) {
            self.was_large();
            if self.waits_for_room(&reply) {
                return self.hold_reply(reply, Some(quota));
            }
        }
        failpoint!("server-collected");
        self.post_collected(&reply);
        self.late_was_posted(quota);
    }

    fn post_collected(&self, reply: &Cell) {
        let inside = self.lock.enter();
        let doorbell = self.post(reply);
        self.slots[usize::from(reply.slot())].by.store(by::NOBODY, Ordering::Relaxed);
        drop(inside);
        self.posted(doorbell);
    }

    /// Posts an answer that waited for room in the socket, or says that there was none.
    pub(super) fn post_held_late(&self, reply: &Cell, quota: LateQuota) {
        self.post_collected(reply);
        self.late_was_posted(quota);
        if !on_user_thread() && self.unnotified.take() {
            self.wake_spare_now();
        }
    }

    /// The client says that nobody waits any more for the late call of this number. If it has ended
    /// meanwhile, its answer goes out all the same.
    #[cold]
    pub(super) fn late_call_is_unwanted(&self, number: u64) {
        if let Some(call) = self.late.find(number) {
            let (slot, before) = call.origin();
            call.signal.give_up();
            self.tell_nested(slot, before);
        }
    }
}
