//! Giving processors to others: idle ones, those that are lent for a blocking call, and those that
//! were asked for. All of this takes neither lock nor memory.

use crate::client::domain_client::{DomainClient, Session};
use crate::page::layout::{SERVER, TransferKind, at, head, row};
use crate::page::{LinkWord, PageLink, PageView, PageWords, beneficiary_of, give, take};
use std::sync::atomic::Ordering;
use underpass_os::clock::now_ns;
use underpass_processor::{Pool, freed_cpu};

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
        let cpu = freed_cpu().map_or(0, |cpu| cpu as u64 + 1);
        // Relaxed: a hint, which G2 publishes.
        self.pages.word(head::GAVE_CPU).store(cpu, Ordering::Relaxed);
        let given = give(self.pages, link, kind);
        if given {
            self.wake(link.place);
        }
        given
    }

    /// Says how many activations run, and how many wait for a processor.
    pub(super) fn publish_running(&self, pool: &Pool) {
        // SYNC with the reads by the server, which rings domains with idle processors: hints.
        self.pages.word(head::RUNNING).store(pool.running() as u64, Ordering::Release);
        self.pages.word(head::PARKED).store(pool.waiting() as u64, Ordering::Release);
    }

    /// For how long a processor goes to that domain: one that was borrowed there goes back.
    fn kind_for(&self, link: &PageLink) -> TransferKind {
        match self.borrowed(link.place) > 0 {
            true => TransferKind::Lent,
            false => TransferKind::Kept,
        }
    }

    /// As [`take_from`](Self::take_from), from all others.
    pub(super) fn take_all(&self, pool: &Pool) {
        self.take_from(pool, self.link(SERVER).into_iter().chain(self.links_from(0)));
    }

    /// T1 to T4: takes everything that these others have given. Several threads may do so at once.
    pub(super) fn take_from(&self, pool: &Pool, links: impl Iterator<Item = PageLink>) {
        let mut comes = false;
        for link in links {
            let page = self.page_of(link.place);
            for kind in TransferKind::ALL {
                while take(self.pages, &page, &link, kind, self.most) {
                    comes = true;
                    // A hint: any number is right.
                    let cpu = page.read(head::GAVE_CPU).checked_sub(1);
                    pool.add_processor(cpu.and_then(|cpu| cpu.try_into().ok()));
                }
            }
        }
        if comes && self.wants() {
            // What the page calls ready may be about to run there.
            // SYNC with the read by the server: a hint.
            self.pages.word(head::WAITING_SINCE).store(now_ns(), Ordering::Release);
        }
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

    /// Gives a processor that the domain at `place` has asked for: to `beneficiary`, if it wants
    /// one still, or else to that domain.
    fn give_owed(&self, place: usize, beneficiary: Option<PageLink>) -> bool {
        let wants = |link: &PageLink| self.page_of(link.place).read(head::READY) != 0;
        if beneficiary.filter(wants).is_some_and(|link| self.give(&link, self.kind_for(&link))) {
            return true;
        }
        let kind = if place == SERVER { TransferKind::Kept } else { TransferKind::Lent };
        self.link(place).is_some_and(|link| self.give(&link, kind))
    }

    /// The server, if it wants a processor for programs without the runtime.
    fn server_that_wants(&self) -> Option<PageLink> {
        let wants = self.page_of(SERVER).read(head::READY) != 0;
        wants.then(|| self.link(SERVER)).flatten()
    }
}

impl DomainClient {
    /// Gives away what is owed, publishes what this domain wants, and gives away what is idle and
    /// wanted elsewhere.
    pub(super) fn give_idle(&'static self, pool: &Pool) {
        let Some(now) = self.session() else { return };
        now.publish_running(pool);
        // Relaxed: the taker gives what it owes itself if this is too early.
        let is_owed = self.owed_in_all.load(Ordering::Relaxed) != 0;
        let is_published = now.pages.read(head::READY) == u64::from(pool.wanted());
        if !is_owed && is_published && !now.is_any_wanted() {
            return;
        }
        let Some(session) = self.active_session() else { return };
        self.settle(&session, pool);
        // After the gift of what is owed, which another domain waits for.
        self.request(&session, pool);
        if !session.is_any_wanted() || session.wants() {
            return;
        }
        while let Some(link) = session.find_wanting(self).or_else(|| session.server_that_wants()) {
            if !pool.take_idle_processor() {
                return;
            }
            if !session.give(&link, session.kind_for(&link)) {
                pool.add_processor(None);
                return;
            }
        }
    }

    /// Lends the processor of the permit in hand. Returns `false` if nobody took it; then the
    /// caller still has the permit.
    pub(super) fn lend_in_hand(&'static self, pool: &Pool) -> bool {
        let Some(session) = self.active_session() else { return false };
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

    /// The server has asked for the `number`th time, and for one processor. What it asks for may go
    /// straight to the domain that gets it, unless more than this one is owed.
    pub(super) fn note_beneficiary(&self, session: &Session, link: &PageLink, number: Option<u32>) {
        // Relaxed, and in `beneficiary`: it stands in for what `owed` says, and is checked again.
        let alone = self.owed[SERVER].load(Ordering::Relaxed) == 0;
        let named = number
            .filter(|_| alone)
            .and_then(|number| beneficiary_of(session.pages, &session.page_of(SERVER), link, number));
        let bits = named.map_or(0, |named| named.place as u64 | u64::from(named.generation) << 32);
        self.beneficiary.store(bits, Ordering::Relaxed);
    }

    /// The domain that gets what is owed to the server, if that is one processor and the server has
    /// named one.
    fn beneficiary(&self, session: &Session) -> Option<PageLink> {
        let bits = self.beneficiary.load(Ordering::Relaxed);
        if bits == 0 || self.owed[SERVER].load(Ordering::Relaxed) != 1 {
            return None;
        }
        session.link((bits as u32) as usize).filter(|link| link.generation == (bits >> 32) as u32)
    }

    /// The domain at `place` has asked for one more processor. Returns whether it gets one.
    pub(super) fn owe(&self, pool: &Pool, place: usize) -> bool {
        let owes = pool.owe_processor();
        if owes {
            // Relaxed, here and below: the holder of `settling` reads again at each tick.
            self.owed[place].fetch_add(1, Ordering::Relaxed);
            self.owed_in_all.fetch_add(1, Ordering::Relaxed);
            // An activation that gives way finds what it is to give.
            pool.end_excess();
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
                let beneficiary = if place == SERVER { self.beneficiary(session) } else { None };
                self.owed[place].fetch_sub(1, Ordering::Relaxed);
                self.owed_in_all.fetch_sub(1, Ordering::Relaxed);
                if !session.give_owed(place, beneficiary) {
                    // That domain is gone.
                    pool.add_processor(None);
                }
            }
        }
    }

    /// Nothing is owed any more: there is no registration, and no thread settles.
    pub(super) fn owe_nothing(&self) {
        self.owed.iter().for_each(|owed| owed.store(0, Ordering::Relaxed));
        self.recalled.iter().for_each(|recalled| recalled.store(0, Ordering::Relaxed));
        self.owed_in_all.store(0, Ordering::Relaxed);
        self.beneficiary.store(0, Ordering::Relaxed);
    }

    /// Asks the borrowers for lent processors, `wanted` of them at most. Any thread does this.
    pub(super) fn recall(&'static self, session: &Session, wanted: u32) {
        let mut left = wanted;
        for link in session.links_from(0) {
            if left == 0 {
                return;
            }
            let lent = session.borrowed(link.place).min(0).unsigned_abs();
            let count = LinkWord::unpack(session.pages.read(TransferKind::Lent.given(link.place))).count;
            let more = self.note_recall(&link, lent.min(left), count);
            for _ in 0..more {
                crate::page::ask(session.pages, &link);
            }
            if more > 0 {
                session.wake(link.place);
                left -= more;
            }
        }
    }

    /// How many of `lent` processors the domain there is to be asked for: each loan is asked for
    /// once. `count` is how many were lent since the link began.
    fn note_recall(&self, link: &PageLink, lent: u32, count: u32) -> u32 {
        let word = &self.recalled[link.place];
        // Relaxed, all of it: the word orders nothing. Of several threads each asks for others.
        let mut bits = word.load(Ordering::Relaxed);
        loop {
            let asked = if (bits >> 32) as u32 == link.generation { bits as u32 } else { 0 };
            let more = lent.min(count.wrapping_sub(asked));
            let next = u64::from(link.generation) << 32 | u64::from(asked.wrapping_add(more));
            match word.compare_exchange_weak(bits, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return more,
                Err(now) => bits = now,
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
