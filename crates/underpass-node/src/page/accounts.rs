//! The server's steps: opening and closing rows (R1 to R3, S1 to S4), and what it counts.

use crate::page::layout::{TransferKind, at, row};
use crate::page::link_word::{self, LinkWord};
use crate::page::transfers::ring;
use crate::page::words::{PageView, PageWords};
use underpass_seam::atomic::Ordering;

/// R1 to R3: the owner of `page` has a link to the domain of this generation at `place` from now
/// on. The row is new or closed. The caller wakes the sleepers of the bell.
pub fn open_row(page: &impl PageWords, place: usize, generation: u32) {
    for kind in TransferKind::ALL {
        link_word::open(page.word(kind.given(place)), generation);
        link_word::open(page.word(kind.taken(place)), generation);
    }
    let there = LinkWord { count: 1, generation, closed: false };
    // SYNC with the read of `LINK` in `PageLink::read`: the open row.
    page.word(at(place, row::LINK)).store(there.pack(), Ordering::Release);
    ring(page, place);
}

/// S1 to S3: the domain at `place` has ended. Returns what S4 adds to the base of the owner of
/// `page`, modulo 2³².
pub fn close_row(page: &impl PageWords, place: usize) -> u32 {
    // SYNC with the read of `LINK` in `PageLink::read`. A party that has read it before finds its
    // row closed.
    page.word(at(place, row::LINK)).store(0, Ordering::Release);
    TransferKind::ALL.into_iter().fold(0, |sum: u32, kind| {
        let taken = link_word::close(page.word(kind.taken(place))).count;
        let given = link_word::close(page.word(kind.given(place))).count;
        sum.wrapping_add(taken).wrapping_sub(given)
    })
}

/// The counts of one row: given and taken, each for good and lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RowCounts {
    given: [u32; 2],
    taken: [u32; 2],
}

impl RowCounts {
    fn read(page: &impl PageView, place: usize) -> Self {
        let count = |number| LinkWord::unpack(page.read(number)).count;
        Self {
            given: TransferKind::ALL.map(|kind| count(kind.given(place))),
            taken: TransferKind::ALL.map(|kind| count(kind.taken(place))),
        }
    }
}

/// The counts of all rows of the living parties at one moment.
#[derive(Debug)]
pub struct Snapshot {
    parties: usize,
    rows: Vec<RowCounts>,
}

impl Snapshot {
    /// So often the rows are read before a look gives up.
    const TRIES: u32 = 8;

    /// Reads the rows of `parties`, each a place and its page. `None` if the words change all the
    /// time.
    ///
    /// Each word only grows, or was closed. So if two readings in a row find the same values, all
    /// of them held at one moment between the two.
    pub fn take<P: PageView>(parties: &[(usize, &P)]) -> Option<Self> {
        let collect = || -> Vec<_> {
            let mut rows = Vec::with_capacity(parties.len() * parties.len());
            for &(own, page) in parties {
                rows.extend(parties.iter().map(|&(place, _)| match place == own {
                    true => RowCounts::default(),
                    false => RowCounts::read(page, place),
                }));
            }
            rows
        };
        let mut rows = collect();
        for _ in 0..Self::TRIES {
            let again = collect();
            if again == rows {
                return Some(Self { parties: parties.len(), rows });
            }
            rows = again;
        }
        None
    }

    fn row(&self, party: usize, other: usize) -> RowCounts {
        self.rows[party * self.parties + other]
    }

    /// How many processors the party of this index has, if `base` is its base: at most `most`,
    /// which is what the machine has.
    pub fn count(&self, party: usize, base: u32, most: u32) -> u32 {
        let total = (0..self.parties).filter(|&other| other != party).fold(base, |sum, other| {
            let RowCounts { given, taken } = self.row(party, other);
            (0..2).fold(sum, |sum, kind| sum.wrapping_add(taken[kind]).wrapping_sub(given[kind]))
        });
        (total as i32).clamp(0, most as i32) as u32
    }

    /// How many processors living parties have given this one, modulo 2³². Their pages say so, and
    /// not its own.
    pub fn given_to(&self, party: usize) -> u32 {
        let givers = (0..self.parties).filter(|&giver| giver != party);
        givers.flat_map(|giver| self.row(giver, party).given).fold(0, u32::wrapping_add)
    }

    /// The temporary processors of the party: what other living parties have lent it.
    pub fn temporary(&self, party: usize) -> u32 {
        let lent = |other| {
            let RowCounts { given, taken } = self.row(party, other);
            (taken[1].wrapping_sub(given[1]) as i32).max(0) as u32
        };
        (0..self.parties).filter(|&other| other != party).map(lent).fold(0, u32::saturating_add)
    }

    /// How many processors are under way from one party to another. What cannot be counts as none.
    pub fn under_way(&self, giver: usize, taker: usize, most: u32) -> u32 {
        let (given, taken) = (self.row(giver, taker).given, self.row(taker, giver).taken);
        let under_way = |kind: usize| match given[kind].wrapping_sub(taken[kind]) {
            under_way if under_way > most => 0,
            under_way => under_way,
        };
        (under_way(0) + under_way(1)).min(most)
    }

    /// How many processors are under way to a party from all others.
    pub fn coming(&self, taker: usize, most: u32) -> u32 {
        let givers = (0..self.parties).filter(|&giver| giver != taker);
        givers.map(|giver| self.under_way(giver, taker, most)).sum::<u32>().min(most)
    }
}
