//! Giving processors to others: idle ones, those that are lent for a blocking call, and those that
//! were asked for. All of this takes neither lock nor memory.

use crate::client::domain_client::{DomainClient, Session};
use crate::page::layout::{SERVER, TransferKind, at, head, row};
use crate::page::{LinkWord, PageLink, PageView, PageWords, give};
use std::sync::atomic::Ordering;
use underpass_processor::Pool;

impl Session {
    /// How many processors of that domain this one has borrowed and not given back. Negative: it
    /// has lent more than it has back.
    pub(super) fn borrowed(&self, place: usize) -> i32 {
        let count = |number| LinkWord::unpack(self.pages.read(number)).count;
        let taken = count(TransferKind::Lent.taken(place));
        taken.wrapping_sub(count(TransferKind::Lent.given(place))) as i32
    }

    /// G2 and G3, of a processor that the caller has taken out of those that the domain holds.
    /// Returns `false` if the domain is gone; then the caller has the processor still.
    fn give(&self, link: &PageLink, kind: TransferKind) -> bool {
        let given = give(self.pages, link, kind);
        if given {
            self.wake(link.place);
        }
        given
    }

    /// Whether any domain wants a processor: a hint.
    #[inline]
    pub(super) fn is_any_wanted(&self) -> bool {
        self.page_of(SERVER).read(head::WANTED) != 0
    }

    /// Whether this domain wants one itself.
    fn wants(&self) -> bool {
        self.pages.read(head::READY) != 0
    }

    /// The next domain that wants a processor.
    fn find_wanting(&self, client: &DomainClient) -> Option<PageLink> {
        // Relaxed: any place to begin at is right.
        let first = client.next.load(Ordering::Relaxed);
        let wants =
            |link: &PageLink| self.page_of(link.place).read(head::READY) != 0 && link.holds(self.pages);
        let found = self.links_from(first).find(wants)?;
        client.next.store(found.place + 1, Ordering::Relaxed);
        Some(found)
    }
}

impl DomainClient {
    /// Gives away what is owed, and then what is idle and wanted elsewhere.
    pub(super) fn give_idle(&'static self, pool: &Pool) {
        let Some(session) = self.session() else { return };
        self.settle(&session, pool);
        // SYNC with the read by the server, which rings domains with idle processors: a hint.
        session.pages.word(head::RUNNING).store(pool.running() as u64, Ordering::Release);
        if !session.is_any_wanted() || session.wants() {
            return;
        }
        while let Some(link) = session.find_wanting(self) {
            if !pool.take_idle_processor() {
                return;
            }
            let kind = match session.borrowed(link.place) > 0 {
                true => TransferKind::Lent,
                false => TransferKind::Kept,
            };
            if !session.give(&link, kind) {
                pool.add_processor();
                return;
            }
        }
    }

    /// Lends the processor of the permit in hand. Returns `false` if nobody took it; then the
    /// caller still has the permit.
    pub(super) fn lend_in_hand(&'static self, pool: &Pool) -> bool {
        let Some(session) = self.session() else { return false };
        if session.wants() {
            return false;
        }
        let Some(link) = session.find_wanting(self) else { return false };
        if !pool.take_processor_in_hand() {
            return false;
        }
        let lent = session.give(&link, TransferKind::Lent);
        if !lent {
            pool.put_processor_in_hand();
        }
        lent
    }

    /// The domain at `place` has asked for one more processor. Returns whether it gets one.
    pub(super) fn owe(&self, pool: &Pool, place: usize) -> bool {
        let owes = pool.owe_processor();
        if owes {
            // Relaxed, here and below: the holder of `settling` reads again at each tick.
            self.owed[place].fetch_add(1, Ordering::Relaxed);
            self.owed_in_all.fetch_add(1, Ordering::Relaxed);
        }
        owes
    }

    /// Gives the processors that are owed and no longer in use.
    pub(super) fn settle(&'static self, session: &Session, pool: &Pool) {
        if self.owed_in_all.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(_settling) = self.settling.try_lock() else { return };
        for place in 0..self.owed.len() {
            while self.owed[place].load(Ordering::Relaxed) > 0
                && self.owed_in_all.load(Ordering::Relaxed) > pool.excess()
            {
                self.owed[place].fetch_sub(1, Ordering::Relaxed);
                self.owed_in_all.fetch_sub(1, Ordering::Relaxed);
                let kind = match place != SERVER {
                    true => TransferKind::Lent,
                    false => TransferKind::Kept,
                };
                if !session.link(place).is_some_and(|link| session.give(&link, kind)) {
                    // That domain is gone.
                    pool.add_processor();
                }
            }
        }
    }

    /// Nothing is owed any more: the registration has ended.
    pub(super) fn owe_nothing(&self) {
        self.owed.iter().for_each(|owed| owed.store(0, Ordering::Relaxed));
        self.recalled.iter().for_each(|recalled| recalled.store(0, Ordering::Relaxed));
        self.owed_in_all.store(0, Ordering::Relaxed);
    }

    /// Asks the borrowers for lent processors, `wanted` of them at most. Returns whether any was
    /// asked.
    pub(super) fn recall(&'static self, session: &Session, wanted: u32) {
        let mut left = wanted;
        for link in session.links_from(0) {
            if left == 0 {
                return;
            }
            let lent = session.borrowed(link.place).min(0).unsigned_abs();
            let count = LinkWord::unpack(session.pages.read(TransferKind::Lent.given(link.place))).count;
            // Relaxed: the monitor alone asks.
            let asked = self.recalled[link.place].load(Ordering::Relaxed);
            // Each loan is asked for once: those that are out, less those that were asked for
            // since.
            let more = lent.min(count.wrapping_sub(asked)).min(left);
            for _ in 0..more {
                crate::page::ask(session.pages, &link);
            }
            if more > 0 {
                self.recalled[link.place].store(asked.wrapping_add(more), Ordering::Relaxed);
                session.wake(link.place);
                left -= more;
            }
        }
    }

    /// For how many processors the link's other end has asked since the link began.
    pub(super) fn asked_by(session: &Session, link: &PageLink) -> u32 {
        crate::page::asked_by(&session.page_of(link.place), link)
    }
}

/// The number of the bell that the domain at `place` rings for `session`.
pub(super) fn bell_for(session: &Session) -> usize {
    at(session.place, row::BELL)
}
