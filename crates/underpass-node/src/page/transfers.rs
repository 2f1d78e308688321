//! The steps by which a processor changes hands: G2, G3, T1 to T3. The permits' word has G1 and T4.

use crate::page::layout::{PLACES, TransferKind, at, row};
use crate::page::link_word::{self, LinkWord};
use crate::page::words::{PageView, PageWords};
use underpass_seam::atomic::Ordering;

/// The bits of a place, beside the number of an ask.
const PLACE_BITS: u32 = 8;
const _: () = assert!(PLACES <= 1 << PLACE_BITS);

/// The two ends of a link, as its owner sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLink {
    /// The owner's place.
    pub own_place: usize,
    /// The owner's generation.
    pub own_generation: u32,
    /// The other's place.
    pub place: usize,
    /// The other's generation.
    pub generation: u32,
}

impl PageLink {
    /// The link of the domain at `own_place` to `place`, as its own page says. `None` if no domain
    /// is there.
    pub fn read(page: &impl PageView, own_place: usize, own_generation: u32, place: usize) -> Option<Self> {
        let word = LinkWord::unpack(page.read(at(place, row::LINK)));
        // The count of this word says whether a domain is there.
        let there = word.count == 1 && place != own_place;
        there.then_some(Self { own_place, own_generation, place, generation: word.generation })
    }

    /// Whether the same domain is still there.
    pub fn holds(&self, page: &impl PageView) -> bool {
        Self::read(page, self.own_place, self.own_generation, self.place) == Some(*self)
    }
}

/// G2 and G3: gives the processor that the caller has taken out of its permits. Returns `false` if
/// the domain is gone; then the caller keeps the processor. Otherwise the caller wakes the sleepers
/// of the bell.
pub fn give(page: &impl PageWords, link: &PageLink, kind: TransferKind) -> bool {
    let given = link_word::add(page.word(kind.given(link.place)), link.generation, |_| true);
    if given {
        ring(page, link.place);
    }
    given
}

/// T1 to T3: takes one processor that the other has given. `most` is how many processors the
/// machine has: more cannot be under way. Returns whether the caller has one more now.
pub fn take(
    page: &impl PageWords,
    other: &impl PageView,
    link: &PageLink,
    kind: TransferKind,
    most: u32,
) -> bool {
    let given = LinkWord::unpack(other.read(kind.given(link.own_place)));
    if given.generation != link.own_generation {
        return false;
    }
    let some = |taken: LinkWord| matches!(given.count.wrapping_sub(taken.count), under_way if under_way > 0 && under_way <= most);
    link_word::add(page.word(kind.taken(link.place)), link.generation, some)
}

/// Asks the other for one processor. The caller wakes the sleepers of the bell.
pub fn ask(page: &impl PageWords, link: &PageLink) {
    let word = page.word(at(link.place, row::ASKED));
    let mut bits = word.load(Ordering::Relaxed);
    loop {
        let now = LinkWord::unpack(bits);
        // The first one asked of this domain begins the count anew.
        let count = if now.generation == link.generation { now.count.wrapping_add(1) } else { 1 };
        let next = LinkWord { count, generation: link.generation, closed: false };
        // SYNC with the load in `asked_by`: nothing but the count passes.
        match word.compare_exchange_weak(bits, next.pack(), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return ring(page, link.place),
            Err(other) => bits = other,
        }
    }
}

/// For how many processors the other has asked since the link began, modulo 2³².
pub fn asked_by(other: &impl PageView, link: &PageLink) -> u32 {
    let asked = LinkWord::unpack(other.read(at(link.own_place, row::ASKED)));
    if asked.generation == link.own_generation { asked.count } else { 0 }
}

/// As [`ask`], and names the domain for which: its place and its generation. The asked one may give
/// that domain its processor itself. One thread at a time asks in this way.
pub fn ask_for(page: &impl PageWords, link: &PageLink, beneficiary: Option<(usize, u32)>) {
    // Relaxed: only this thread asks.
    let asked = LinkWord::unpack(page.word(at(link.place, row::ASKED)).load(Ordering::Relaxed));
    let number = if asked.generation == link.generation { asked.count.wrapping_add(1) } else { 1 };
    let bits = beneficiary.map_or(0, |(place, generation)| {
        LinkWord { count: number << PLACE_BITS | place as u32, generation, closed: false }.pack()
    });
    // SYNC with the read in `beneficiary_of`, behind the ask.
    page.word(at(link.place, row::BENEFICIARY)).store(bits, Ordering::Release);
    ask(page, link);
}

/// The domain for which `other` has asked the owner of `page` for the `number`th time, if `other`
/// has named one and it is still there.
pub fn beneficiary_of(
    page: &impl PageView,
    other: &impl PageView,
    link: &PageLink,
    number: u32,
) -> Option<PageLink> {
    let named = LinkWord::unpack(other.read(at(link.own_place, row::BENEFICIARY)));
    let place = (named.count & ((1 << PLACE_BITS) - 1)) as usize;
    // A later ask has another number, in as many bits as there is room for.
    if place == 0 || place >= PLACES || named.count >> PLACE_BITS != number << PLACE_BITS >> PLACE_BITS {
        return None;
    }
    let found = PageLink::read(page, link.own_place, link.own_generation, place)?;
    (found.generation == named.generation).then_some(found)
}

/// Has the domain at `place` look at the owner's words for it. The caller wakes the sleepers of the
/// bell.
pub fn ring(page: &impl PageWords, place: usize) {
    // SYNC with the load of the bell before a sleep: what was changed before the ring.
    page.word(at(place, row::BELL)).fetch_add(1, Ordering::Release);
}
