//! The order of one sender's messages: O1 to O3 of `README.md`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// What has come from one sender, by its numbers. All of it is under the lane's lock.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    /// The number that is pushed next.
    next: u64,
    /// A number this far ahead of `next`, or farther, is refused.
    most: u64,
    /// Numbers beyond `next`: messages that came early. `None` for a number that was skipped.
    early: BTreeMap<u64, Option<T>>,
}

/// What has become of a message that the lane has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It was pushed.
    InTurn,
    /// It waits for those before it.
    Early,
}

impl<T> Turns<T> {
    /// Of a sender that may have `most` messages under way.
    pub(crate) fn new(most: u64) -> Self {
        Self { next: 0, most, early: BTreeMap::new() }
    }

    /// *D2:* `item` has come with this number. Pushes what is next.
    ///
    /// # Errors
    /// The item: its number was used or skipped before, or is too far ahead.
    #[inline]
    pub(crate) fn comes(&mut self, number: u64, item: T, mut push: impl FnMut(T)) -> Result<Placed, T> {
        match number.checked_sub(self.next) {
            Some(0) => {
                self.next += 1;
                push(item);
                self.go_on(push);
                Ok(Placed::InTurn)
            }
            Some(ahead) if ahead < self.most => match self.early.entry(number) {
                Entry::Vacant(place) => {
                    place.insert(Some(item));
                    Ok(Placed::Early)
                }
                Entry::Occupied(_) => Err(item),
            },
            _ => Err(item),
        }
    }

    /// The sender gives this number up. Pushes what is next then. If its message is early, it stays
    /// so.
    pub(crate) fn skip(&mut self, number: u64, push: impl FnMut(T)) {
        match number.checked_sub(self.next) {
            Some(0) => {
                self.next += 1;
                self.go_on(push);
            }
            Some(ahead) if ahead < self.most => {
                self.early.entry(number).or_insert(None);
            }
            _ => {}
        }
    }

    #[inline]
    fn go_on(&mut self, mut push: impl FnMut(T)) {
        while !self.early.is_empty()
            && let Some(early) = self.early.remove(&self.next)
        {
            self.next += 1;
            early.into_iter().for_each(&mut push);
        }
    }

    /// The early message of this number.
    pub(crate) fn early(&mut self, number: u64) -> Option<&mut T> {
        self.early.get_mut(&number)?.as_mut()
    }

    /// Takes the early messages that are `unwanted` out. Their numbers count as skipped.
    pub(crate) fn withdraw(&mut self, unwanted: impl Fn(&T) -> bool) -> Vec<T> {
        self.early.values_mut().filter_map(|early| early.take_if(|item| unwanted(item))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(turns: &mut Turns<u64>, number: u64) -> Vec<u64> {
        let mut pushed = Vec::new();
        assert!(turns.comes(number, number, |item| pushed.push(item)).is_ok());
        pushed
    }

    #[test]
    fn early_messages_wait_for_those_before_them() {
        let mut turns = Turns::new(8);
        assert_eq!(after(&mut turns, 0), [0]);
        assert_eq!(after(&mut turns, 3), []);
        assert_eq!(after(&mut turns, 2), []);
        assert_eq!(after(&mut turns, 1), [1, 2, 3]);
        assert_eq!(after(&mut turns, 4), [4]);
    }

    #[test]
    fn all_orders_of_arrival_and_skips_push_each_message_once_and_in_order() {
        const NUMBERS: u64 = 6;
        /// Permutations of the numbers that are left, each message sent or skipped.
        fn all(left: &[u64], done: &mut Vec<(u64, bool)>) {
            if left.is_empty() {
                let mut turns = Turns::new(NUMBERS);
                let mut pushed = Vec::new();
                for &(number, skipped) in done.iter() {
                    match skipped {
                        true => turns.skip(number, |item| pushed.push(item)),
                        false => {
                            assert!(turns.comes(number, number, |item| pushed.push(item)).is_ok());
                        }
                    }
                }
                let mut sent: Vec<_> = done.iter().filter(|(_, skipped)| !skipped).map(|one| one.0).collect();
                sent.sort_unstable();
                assert_eq!((pushed, turns.next), (sent, NUMBERS), "{done:?}");
                return;
            }
            for (at, &number) in left.iter().enumerate() {
                let rest: Vec<_> =
                    left.iter().enumerate().filter(|one| one.0 != at).map(|one| *one.1).collect();
                // Every second number may be skipped.
                for skipped in [false, number % 2 == 1] {
                    done.push((number, skipped));
                    all(&rest, done);
                    done.pop();
                }
            }
        }
        all(&(0..NUMBERS).collect::<Vec<_>>(), &mut Vec::new());
    }

    #[test]
    fn numbers_that_no_honest_sender_uses_are_refused() {
        let mut turns = Turns::new(4);
        let refused = |turns: &mut Turns<u64>, number| turns.comes(number, 7, |_| ()) == Err(7);
        assert_eq!(after(&mut turns, 0), [0]);
        assert!(refused(&mut turns, 0), "it was used");
        assert!(refused(&mut turns, 5) && refused(&mut turns, u64::MAX), "too far ahead");
        assert_eq!(after(&mut turns, 3), []);
        assert!(refused(&mut turns, 3), "it is early already");
        turns.skip(2, |_| ());
        assert!(refused(&mut turns, 2), "it was skipped");
        for far in [5, u64::MAX, 0] {
            turns.skip(far, |_| panic!("nothing comes of it"));
        }
        assert_eq!((turns.early.len(), after(&mut turns, 1)), (2, vec![1, 3]));
    }

    #[test]
    fn a_message_that_was_withdrawn_holds_nothing_back() {
        let mut turns = Turns::new(8);
        assert_eq!(
            (after(&mut turns, 1), after(&mut turns, 2), after(&mut turns, 3)),
            (vec![], vec![], vec![])
        );
        assert_eq!(turns.withdraw(|item| *item != 2), [1, 3]);
        assert!(turns.early(1).is_none() && turns.early(2).is_some());
        assert_eq!(after(&mut turns, 0), [0, 2]);
        assert_eq!(after(&mut turns, 4), [4]);
    }
}
