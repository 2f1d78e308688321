//! The part of a channel that senders and receivers share.

use super::buffer::{Buffer, Chunk, PushError};
use crate::queue_wait::{QueueWait, nobody};
use crate::runtime::{Control, WaitLimit, Woken, me, wake};
use crate::select_token::SelectToken;
use crate::wait_queue::{ListEnd, QueueGuard, Verdict, WaitQueue};
use std::sync::Arc;
use underpass_seam::atomic::{AtomicUsize, Ordering};

/// The numbers of the lists of waiters.
const RECEIVERS: usize = 0;
const SENDERS: usize = 1;

/// How many threads are woken in each visit to the queue.
const BATCH: usize = 16;

/// A channel. As long as a receiver waits, the buffer is empty; as long as a sender waits, it is
/// full. Waiters whose select is decided elsewhere don't count: they are passed over.
///
/// | field | written by |
/// |---|---|
/// | `capacity` | no thread, once the channel is made |
/// | `inside` | see there |
/// | `senders`, `receivers` | the thread that makes or drops a sender or a receiver |
pub(crate) struct ChannelCore<T> {
    capacity: Option<usize>,
    inside: WaitQueue<State<T>, ChannelWaiter<T>, 2>,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

struct State<T> {
    buffer: Buffer<T>,
    senders_gone: bool,
    receivers_gone: bool,
}

/// A waiting sender with its message, or a waiting receiver with room for one.
///
/// A thread that takes a sender out takes its message too, unless the receivers are gone. A thread
/// that takes a receiver out leaves it a message, unless the senders are gone. So a waiter finds in
/// `message`, after its wake-up, what has happened.
struct ChannelWaiter<T> {
    message: Option<T>,
    /// For a select: its token and the number of this case.
    select: Option<(Arc<SelectToken>, usize)>,
}

/// Why a message could not be sent. It contains the message.
pub(crate) enum SendFailure<T> {
    Late(T),
    Gone(T),
    Cancelled(T),
}

/// Why no message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecvFailure {
    Late,
    Gone,
    Cancelled,
}

/// The end of a wait that belongs to a select.
pub(crate) enum Enrolled<T> {
    /// The case is ready: try it.
    Ready,
    /// The select was decided for this case. This is its message.
    Chosen(Option<T>),
    /// The select was decided otherwise. This is the message that the case had.
    Passed(Option<T>),
}

type Guard<'a, T> = QueueGuard<'a, State<T>, ChannelWaiter<T>, 2>;

impl<T> ChannelWaiter<T> {
    /// Whether the waiter may be taken. A waiter of a select may be taken once.
    fn claim(&self) -> bool {
        self.select.as_ref().is_none_or(|(token, case)| token.claim(*case))
    }

    /// Takes the waiter by calling `with`, unless its select is decided.
    fn take<R>(&mut self, with: impl FnOnce(&mut Self) -> R) -> Verdict<R> {
        match self.claim() {
            true => Verdict::Take(with(self)),
            false => Verdict::Drop,
        }
    }
}

impl<T> ChannelCore<T> {
    /// A channel with one sender and one receiver.
    pub(crate) fn new(capacity: Option<usize>) -> Arc<Self> {
        let state = State { buffer: Buffer::new(capacity), senders_gone: false, receivers_gone: false };
        let (senders, receivers) = (AtomicUsize::new(1), AtomicUsize::new(1));
        Arc::new(Self { capacity, inside: WaitQueue::new(state), senders, receivers })
    }

    pub(crate) fn len(&self) -> usize {
        self.inside.lock().buffer.len()
    }

    pub(crate) fn peek<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.inside.lock().buffer.first().map(look)
    }

    pub(crate) fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    /// Sends a message; waits up to `limit` for room or for a receiver.
    #[inline]
    pub(crate) fn send(&self, message: T, limit: WaitLimit) -> Result<(), SendFailure<T>> {
        let mut message = message;
        loop {
            let mut held = self.inside.lock();
            if held.receivers_gone {
                return Err(SendFailure::Gone(message));
            }
            match Self::offer(&mut held, message) {
                Ok(receiver) => {
                    drop(held);
                    receiver.inspect(|who| wake(who));
                    return Ok(());
                }
                Err(PushError::NoRoom(back)) => {
                    drop(held);
                    self.make_room();
                    message = back;
                }
                Err(PushError::Full(back)) if limit == WaitLimit::None => {
                    return Err(SendFailure::Late(back));
                }
                Err(PushError::Full(back)) => return self.wait_to_send(held, back, limit),
            }
        }
    }

    /// Receives a message; waits up to `limit` for one.
    #[inline]
    pub(crate) fn receive(&self, limit: WaitLimit) -> Result<T, RecvFailure> {
        let mut held = self.inside.lock();
        if let Some((message, sender, spent)) = Self::accept(&mut held) {
            drop(held);
            sender.inspect(|who| wake(who));
            drop(spent);
            return Ok(message);
        }
        if held.senders_gone {
            return Err(RecvFailure::Gone);
        }
        if limit == WaitLimit::None {
            return Err(RecvFailure::Late);
        }
        self.wait_to_receive(held, limit)
    }

    /// Gives the message to the buffer, or to a receiver. The caller has to wake that receiver.
    #[inline]
    fn offer(held: &mut Guard<'_, T>, message: T) -> Result<Option<&'static Control>, PushError<T>> {
        let mut message = Some(message);
        let taken = held.take(RECEIVERS, |_, _, party| party.take(|party| party.message = message.take()));
        match (taken, message) {
            (Some((receiver, ())), _) => Ok(Some(receiver)),
            (None, Some(message)) => held.buffer.push(message).map(|()| None),
            (None, None) => Ok(None),
        }
    }

    /// Takes a message from the buffer or from a sender. The caller has to wake that sender.
    #[inline]
    #[allow(clippy::type_complexity)] // A struct with named fields would be no clearer.
    fn accept(held: &mut Guard<'_, T>) -> Option<(T, Option<&'static Control>, Option<Chunk<T>>)> {
        let oldest = held.buffer.pop();
        let sender = held.take(SENDERS, |_, _, party| party.take(|party| party.message.take()));
        let (who, waiting) = sender.unzip();
        let waiting = waiting.flatten();
        match (oldest, waiting) {
            (Some((message, spent)), Some(waiting)) => {
                // There is room: a message has just left.
                let pushed = held.buffer.push(waiting);
                debug_assert!(pushed.is_ok());
                Some((message, who, spent))
            }
            (Some((message, spent)), None) => Some((message, who, spent)),
            (None, Some(message)) => Some((message, who, None)),
            (None, None) => None,
        }
    }

    #[cold]
    fn make_room(&self) {
        let chunk = Buffer::chunk();
        let unused = self.inside.lock().buffer.supply(chunk);
        drop(unused);
    }

    fn wait_to_send(&self, held: Guard<'_, T>, message: T, limit: WaitLimit) -> Result<(), SendFailure<T>> {
        let me = me();
        let party = ChannelWaiter { message: Some(message), select: None };
        let (woken, party) = held.enlist(me, SENDERS, ListEnd::Back, party, |entry| {
            QueueWait::new(entry, "room in a channel", self, &nobody).suspend(me, limit, true)
        });
        let Some(message) = party.message else { return Ok(()) };
        Err(match woken {
            Woken::Woken => SendFailure::Gone(message),
            Woken::Late => SendFailure::Late(message),
            Woken::Cancelled => SendFailure::Cancelled(message),
        })
    }

    fn wait_to_receive(&self, held: Guard<'_, T>, limit: WaitLimit) -> Result<T, RecvFailure> {
        let me = me();
        let party = ChannelWaiter { message: None, select: None };
        let (woken, party) = held.enlist(me, RECEIVERS, ListEnd::Back, party, |entry| {
            QueueWait::new(entry, "a message", self, &nobody).suspend(me, limit, true)
        });
        party.message.ok_or(match woken {
            Woken::Woken => RecvFailure::Gone,
            Woken::Late => RecvFailure::Late,
            Woken::Cancelled => RecvFailure::Cancelled,
        })
    }

    /// Waits for a message as case `case` of a select, as long as `then` runs.
    pub(crate) fn enroll_receiver(
        &self,
        token: &Arc<SelectToken>,
        case: usize,
        then: &mut dyn FnMut(),
    ) -> Enrolled<T> {
        let mut held = self.inside.lock();
        let ready = held.senders_gone || held.buffer.len() > 0 || Self::others(&mut held, SENDERS, token);
        self.enroll(held, ready, RECEIVERS, None, (token, case), then)
    }

    /// Waits for room as case `case` of a select, as long as `then` runs.
    pub(crate) fn enroll_sender(
        &self,
        message: T,
        token: &Arc<SelectToken>,
        case: usize,
        then: &mut dyn FnMut(),
    ) -> (Enrolled<T>, Option<T>) {
        let mut held = self.inside.lock();
        let room = self.capacity.is_none_or(|most| held.buffer.len() < most);
        let ready = held.receivers_gone || room || Self::others(&mut held, RECEIVERS, token);
        if ready {
            return (Enrolled::Ready, Some(message));
        }
        (self.enroll(held, false, SENDERS, Some(message), (token, case), then), None)
    }

    /// Whether another thread than the select of `token` waits in `list`. It may count a waiter of
    /// a select that is decided already. Then the caller tries once in vain, and passes that waiter
    /// over.
    fn others(held: &mut Guard<'_, T>, list: usize, token: &Arc<SelectToken>) -> bool {
        let mut found = false;
        held.take::<()>(list, |_, _, party| match &party.select {
            Some((of, _)) if Arc::ptr_eq(of, token) => Verdict::Skip,
            _ => {
                found = true;
                Verdict::Stop
            }
        });
        found
    }

    fn enroll(
        &self,
        held: Guard<'_, T>,
        ready: bool,
        list: usize,
        message: Option<T>,
        (token, case): (&Arc<SelectToken>, usize),
        then: &mut dyn FnMut(),
    ) -> Enrolled<T> {
        if ready {
            return Enrolled::Ready;
        }
        let party = ChannelWaiter { message, select: Some((Arc::clone(token), case)) };
        let ((), party) = held.enlist(me(), list, ListEnd::Back, party, |_| then());
        match token.chosen() == Some(case) {
            true => Enrolled::Chosen(party.message),
            false => Enrolled::Passed(party.message),
        }
    }

    pub(crate) fn add_sender(&self) {
        // Relaxed, as in `Arc`: the caller has a sender already.
        self.senders.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_receiver(&self) {
        // Relaxed: as above.
        self.receivers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn drop_sender(&self) {
        // Relaxed: only the count matters. The rest is done under the lock.
        if self.senders.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.inside.lock().senders_gone = true;
            self.wake_all(RECEIVERS);
        }
    }

    pub(crate) fn drop_receiver(&self) {
        // Relaxed: as above.
        if self.receivers.fetch_sub(1, Ordering::Relaxed) == 1 {
            let mut held = self.inside.lock();
            held.receivers_gone = true;
            // Nothing is sent any more, so it doesn't matter that the new buffer has no room.
            let unread = std::mem::replace(&mut held.buffer, Buffer::new(None));
            drop(held);
            self.wake_all(SENDERS);
            drop(unread);
        }
    }

    /// Wakes all waiters in `list`, because the other side is gone. No thread joins them any more.
    fn wake_all(&self, list: usize) {
        loop {
            let mut held = self.inside.lock();
            let mut some = [None; BATCH];
            for one in &mut some {
                *one = held.take(list, |_, _, party| party.take(|_| ()));
            }
            drop(held);
            some.into_iter().flatten().for_each(|(who, ())| wake(who));
            if some[BATCH - 1].is_none() {
                return;
            }
        }
    }
}
