//! Credit for the items of one direction of a call: which messages may be under way. The README.md
//! of this folder has the rules, and the proof that nobody waits for ever.

use crate::remote::stream_messages::SMALL;
use std::collections::VecDeque;
use tonic::Status;

/// The most messages of items that are under way.
const MOST_MESSAGES: usize = 8;

/// While so many bytes of items are under way, there are no further ones.
const MOST_BYTES: usize = 128 << 10;

/// The most small messages of items that are under way. Further items wait, and go together. A
/// receiver that is busy leaves few small frames unread in this way, of which HTTP/2 keeps some
/// 2,000 for all calls of a connection.
const MOST_SMALL: usize = 2;

/// The lengths of messages, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Lengths {
    lengths: VecDeque<usize>,
    bytes: usize,
    small: usize,
}

impl Lengths {
    fn push(&mut self, length: usize) {
        self.lengths.push_back(length);
        self.bytes += length;
        self.small += usize::from(length < SMALL);
    }

    fn pop(&mut self) -> Option<usize> {
        let length = self.lengths.pop_front()?;
        self.bytes -= length;
        self.small -= usize::from(length < SMALL);
        Some(length)
    }

    fn have_room(&self) -> bool {
        self.lengths.len() < MOST_MESSAGES && self.bytes < MOST_BYTES
    }

    fn are_half(&self) -> bool {
        self.lengths.len() >= MOST_MESSAGES / 2 || self.bytes >= MOST_BYTES / 2
    }
}

/// The sender's count: messages that the peer has not said to have taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SendCredit(Lengths);

impl SendCredit {
    /// Whether a message of `length` bytes may be sent now.
    pub(super) fn may_send(&self, length: usize) -> bool {
        self.0.have_room() && (length >= SMALL || self.0.small < MOST_SMALL)
    }

    /// A message is about to be sent.
    pub(super) fn sent(&mut self, length: usize) {
        self.0.push(length);
    }

    /// The peer has taken the oldest `count` messages.
    ///
    /// # Errors
    /// There are not so many.
    pub(super) fn hear(&mut self, count: u32) -> Result<(), Status> {
        let lies = || Status::invalid_argument("the peer has taken more messages than were sent");
        (0..count).try_for_each(|_| self.0.pop().map(drop)).ok_or_else(lies)
    }
}

/// The receiver's count: messages that came, and those of them that were taken. A message counts
/// until the peer is told that it was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ReceiveCredit {
    waiting: Lengths,
    taken: Lengths,
}

impl ReceiveCredit {
    /// A message of `length` bytes has come.
    ///
    /// # Errors
    /// The peer had no credit for it.
    pub(super) fn came(&mut self, length: usize) -> Result<(), Status> {
        let all = self.waiting.lengths.len() + self.taken.lengths.len();
        if all >= MOST_MESSAGES || self.waiting.bytes + self.taken.bytes >= MOST_BYTES {
            return Err(Status::resource_exhausted("more items came than there is credit for"));
        }
        self.waiting.push(length);
        Ok(())
    }

    /// The oldest message that waits was taken. Returns whether the peer is to be told now.
    pub(super) fn took(&mut self) -> bool {
        if let Some(length) = self.waiting.pop() {
            self.taken.push(length);
        }
        self.taken.are_half() || (self.taken.small > 0 && self.waiting.lengths.is_empty())
    }

    /// How many messages the peer is told of now.
    pub(super) fn tell(&mut self) -> u32 {
        // There are 8 at most.
        let count = u32::try_from(self.taken.lengths.len()).unwrap_or(u32::MAX);
        self.taken = Lengths::default();
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Both sides of one direction, and what is between them.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
    struct Direction {
        send: SendCredit,
        receive: ReceiveCredit,
        /// Messages on their way, and *Taken* on its way back.
        coming: VecDeque<usize>,
        telling: VecDeque<u32>,
        /// The peer is to be told.
        due: bool,
        /// How many messages were sent.
        sent: usize,
    }

    impl Direction {
        /// Checks what holds in all states.
        fn check(&self) {
            let (send, receive) = (&self.send.0, &self.receive);
            let longest = send.lengths.back().copied().unwrap_or_default();
            assert!(send.lengths.len() <= MOST_MESSAGES && send.small <= MOST_SMALL, "{self:?}");
            assert!(send.bytes < MOST_BYTES + longest, "{self:?}");
            let told: u32 = self.telling.iter().sum();
            let own = receive.waiting.lengths.len() + receive.taken.lengths.len() + self.coming.len();
            assert_eq!(send.lengths.len(), own + told as usize, "each message is at one place: {self:?}");
        }

        /// All that may happen next, other than that a further message is sent.
        fn steps(&self) -> Vec<Self> {
            let mut next = Vec::new();
            let mut step = |happens: bool, what: &dyn Fn(&mut Self)| {
                if happens {
                    let mut after = self.clone();
                    what(&mut after);
                    after.check();
                    next.push(after);
                }
            };
            step(!self.coming.is_empty(), &|after| {
                let length = after.coming.pop_front().unwrap();
                after.receive.came(length).expect("an honest peer has credit");
            });
            step(!self.receive.waiting.lengths.is_empty(), &|after| after.due |= after.receive.took());
            step(self.due, &|after| {
                after.due = false;
                let count = after.receive.tell();
                after.telling.push_back(count);
            });
            step(!self.telling.is_empty(), &|after| {
                let count = after.telling.pop_front().unwrap();
                after.send.hear(count).expect("an honest peer took what was sent");
            });
            next
        }

        /// The same, after a message was sent. None if there is no credit.
        fn sending(&self, length: usize) -> Option<Self> {
            let mut after = self.clone();
            after.send.may_send(length).then(|| {
                after.send.sent(length);
                after.coming.push_back(length);
                after.sent += 1;
                after.check();
                after
            })
        }
    }

    /// Sends messages of `lengths`, one after the other, again and again, up to `most` of them.
    fn explore(lengths: &[usize], most: usize) -> usize {
        let mut seen = HashSet::new();
        let mut ahead = vec![Direction::default()];
        while let Some(state) = ahead.pop() {
            if !seen.insert(state.clone()) {
                continue;
            }
            let mut next = state.steps();
            if state.sent < most {
                let sent = state.sending(lengths[state.sent % lengths.len()]);
                assert!(sent.is_some() || !next.is_empty(), "the sender waits for ever: {state:?}");
                next.extend(sent);
            }
            ahead.extend(next);
        }
        seen.len()
    }

    #[test]
    fn every_order_of_steps_keeps_the_rules() {
        const LARGE: usize = 20 << 10;
        const HALF: usize = MOST_BYTES / 2;
        let mut states = 0;
        for lengths in [
            &[1][..],
            &[SMALL],
            &[LARGE],
            &[HALF - 1],
            &[HALF],
            &[MOST_BYTES - 1],
            &[4 << 20],
            &[1, LARGE],
            &[SMALL, 1],
            &[1, HALF - 1, HALF + 1],
            &[HALF - 1, MOST_BYTES],
            &[1, 1, 4 << 20, LARGE],
            &[LARGE, LARGE, LARGE, 1],
        ] {
            states += explore(lengths, 12);
        }
        assert!(states > 5_000, "{states}");
    }

    #[test]
    fn a_fast_stream_is_told_once_for_half_of_the_window() {
        let mut receive = ReceiveCredit::default();
        for n in 1..=40 {
            receive.came(1000).unwrap();
            assert_eq!(receive.took(), n % 4 == 0, "{n}");
            if n % 4 == 0 {
                assert_eq!(receive.tell(), 4);
            }
        }
    }

    #[test]
    fn a_peer_that_lies_is_found_out() {
        let mut receive = ReceiveCredit::default();
        (0..8).for_each(|_| receive.came(1).unwrap());
        assert!(receive.came(1).is_err(), "a ninth message");
        let mut receive = ReceiveCredit::default();
        receive.came(MOST_BYTES).unwrap();
        assert!(receive.came(1).is_err(), "a message beyond the bytes");
        let mut send = SendCredit::default();
        send.sent(1);
        assert!(send.clone().hear(2).is_err(), "one was sent");
        assert!(send.hear(u32::MAX).is_err() && send.may_send(1));
    }
}
