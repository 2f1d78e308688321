//! Every interleaving of processors that change hands with deaths, settlements and the reuse of a
//! place.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use std::collections::HashMap;
use underpass_node::page::layout::{SERVER, TransferKind, at, head, row};
use underpass_node::page::{
    PageLink, PageView, PageWords, Snapshot, ask, asked_by, close_row, give, open_row, take,
};

/// The processors of the machine.
const MOST: u32 = 3;
/// Two domains.
pub const A: usize = 1;
pub const B: usize = 2;

/// The rows of a page that a model needs.
pub struct Rows(HashMap<usize, AtomicU64>);

impl Rows {
    /// A page with an open row for each of these places, of generation 1.
    pub fn to(places: &[usize]) -> Arc<Self> {
        let words = [
            row::GIVEN,
            row::LENT_GIVEN,
            row::TAKEN,
            row::LENT_TAKEN,
            row::LINK,
            row::ASKED,
            row::BELL,
            row::BENEFICIARY,
        ];
        let numbers = places.iter().flat_map(|&place| words.map(|word| at(place, word)));
        let page = Self(numbers.map(|number| (number, AtomicU64::new(0))).collect());
        places.iter().for_each(|&place| open_row(&page, place, 1));
        Arc::new(page)
    }

    /// The words of a page that say what its owner wants.
    pub fn head() -> Arc<Self> {
        let words = [head::READY, head::WAITING_SINCE];
        Arc::new(Self(words.into_iter().map(|number| (number, AtomicU64::new(0))).collect()))
    }
}

impl PageWords for Rows {
    fn word(&self, number: usize) -> &AtomicU64 {
        &self.0[&number]
    }
}

pub fn link(own_place: usize, place: usize) -> PageLink {
    PageLink { own_place, own_generation: 1, place, generation: 1 }
}

fn takes(page: &Rows, from: &Rows, link: PageLink) -> u32 {
    u32::from(take(page, from, &link, TransferKind::Kept, MOST))
}

#[test]
fn one_that_is_under_way_from_a_dead_domain_is_taken_or_free() {
    loom::model(|| {
        let (a, b) = (Rows::to(&[B]), Rows::to(&[A]));
        assert!(give(&*a, &link(A, B), TransferKind::Kept));
        // A has ended. B takes while the server settles.
        let taker = {
            let (a, b) = (a.clone(), b.clone());
            thread::spawn(move || takes(&b, &a, link(B, A)))
        };
        let base = close_row(&*b, A);
        assert_eq!(base, taker.join().unwrap());
        assert_eq!(takes(&b, &a, link(B, A)), 0, "the row is closed");
    });
}

#[test]
fn a_gift_to_a_dead_domain_stays_or_is_free() {
    loom::model(|| {
        let b = Rows::to(&[A]);
        let giver = {
            let b = b.clone();
            thread::spawn(move || give(&*b, &link(B, A), TransferKind::Lent))
        };
        let base = close_row(&*b, A);
        // B's count is its base and what it has: one, or none if it has given it.
        assert_eq!(base, if giver.join().unwrap() { u32::MAX } else { 0 });
        assert!(!give(&*b, &link(B, A), TransferKind::Lent));
    });
}

#[test]
fn two_threads_take_one_once() {
    loom::model(|| {
        let (a, b) = (Rows::to(&[B]), Rows::to(&[A]));
        assert!(give(&*a, &link(A, B), TransferKind::Kept));
        let other = {
            let (a, b) = (a.clone(), b.clone());
            thread::spawn(move || takes(&b, &a, link(B, A)))
        };
        assert_eq!(takes(&b, &a, link(B, A)) + other.join().unwrap(), 1);
    });
}

#[test]
fn a_late_gift_does_not_reach_the_next_domain_of_the_place() {
    loom::model(|| {
        let b = Rows::to(&[A]);
        let giver = {
            let b = b.clone();
            // B has read its link before.
            thread::spawn(move || give(&*b, &link(B, A), TransferKind::Kept))
        };
        let base = close_row(&*b, A);
        open_row(&*b, A, 2);
        let given = giver.join().unwrap();
        assert_eq!(base, if given { u32::MAX } else { 0 }, "it was of the first domain");
        let next = PageLink::read(&*b, B, 1, A).unwrap();
        assert_eq!(next.generation, 2);
        assert!(!link(B, A).holds(&*b) && next.holds(&*b));
        // The new row is as if nothing had been given.
        assert!(give(&*b, &next, TransferKind::Kept));
        assert_eq!(close_row(&*b, A), u32::MAX);
    });
}

/// A takes what the server has granted it, and gives it to B. It ends after `steps` of its steps.
fn life_of_a(a: &Rows, server: &Rows, steps: u32) {
    if steps > 0 && takes(a, server, link(A, SERVER)) == 1 && steps > 1 {
        give(a, &link(A, B), TransferKind::Kept);
    }
}

#[test]
fn whenever_a_domain_ends_its_processor_is_free_or_the_others_once() {
    for steps in 0..=2 {
        loom::model(move || {
            let (server, a, b) = (Rows::to(&[A, B]), Rows::to(&[SERVER, B]), Rows::to(&[SERVER, A]));
            // One processor of three goes to A.
            assert!(give(&*server, &link(SERVER, A), TransferKind::Kept));
            let taker = {
                let (a, b) = (a.clone(), b.clone());
                thread::spawn(move || takes(&b, &a, link(B, A)))
            };
            life_of_a(&a, &server, steps);
            // A has ended: the server settles it, in the server's page and in B's.
            let _ = close_row(&*server, A);
            let base = close_row(&*b, A);
            let has = taker.join().unwrap();
            let living = Snapshot::take(&[(SERVER, &*server), (B, &*b)]).unwrap();
            assert_eq!(living.count(1, base, MOST), has, "what B has is what is counted");
            assert_eq!(living.coming(1, MOST), 0);
        });
    }
}

#[test]
fn a_snapshot_finds_each_processor_once() {
    loom::model(|| {
        let (a, b) = (Rows::to(&[B]), Rows::to(&[A]));
        // A has one processor by its base.
        let mover = {
            let (a, b) = (a.clone(), b.clone());
            thread::spawn(move || {
                give(&*a, &link(A, B), TransferKind::Kept);
                takes(&b, &a, link(B, A))
            })
        };
        if let Some(seen) = Snapshot::take(&[(A, &*a), (B, &*b)]) {
            let all =
                seen.count(0, 1, MOST) + seen.count(1, 0, MOST) + seen.coming(0, MOST) + seen.coming(1, MOST);
            assert_eq!(all, 1);
        }
        assert_eq!(mover.join().unwrap(), 1);
    });
}

#[test]
fn a_sleeper_of_the_bell_sees_the_gift_or_does_not_sleep() {
    loom::model(|| {
        let (a, b) = (Rows::to(&[B]), Rows::to(&[A]));
        let before = a.read(at(B, row::BELL));
        let giver = {
            let a = a.clone();
            thread::spawn(move || {
                give(&*a, &link(A, B), TransferKind::Kept);
                ask(&*a, &link(A, B));
            })
        };
        let bell = a.read(at(B, row::BELL));
        let (taken, asked) = (takes(&b, &a, link(B, A)), asked_by(&*a, &link(B, A)));
        // The sleep begins only if the bell has not changed since it was read.
        let sleeps = a.read(at(B, row::BELL)) == bell;
        if sleeps && bell != before {
            assert_eq!(taken, 1, "the first ring comes after the gift");
            assert!(bell == before + 1 || asked == 1);
        }
        giver.join().unwrap();
    });
}

#[test]
fn a_domain_that_comes_is_in_the_list_with_an_open_row() {
    loom::model(|| {
        let b = Rows::to(&[A]);
        close_row(&*b, A);
        let server = {
            let b = b.clone();
            thread::spawn(move || open_row(&*b, A, 2))
        };
        if let Some(found) = PageLink::read(&*b, B, 1, A) {
            assert_eq!(found.generation, 2);
            assert!(give(&*b, &found, TransferKind::Kept), "the row is open before the link is set");
        }
        server.join().unwrap();
    });
}

#[test]
fn a_reader_that_finds_the_same_link_twice_has_read_one_domains_words() {
    loom::model(|| {
        let b = Rows::to(&[A]);
        let a = Rows::to(&[B]);
        let server = {
            let (a, b) = (a.clone(), b.clone());
            thread::spawn(move || {
                close_row(&*b, A);
                // The next domain's page is shown at the place.
                open_row(&*a, B, 7);
                open_row(&*b, A, 2);
            })
        };
        if let Some(found) = PageLink::read(&*b, B, 1, A) {
            let shown = PageLink::read(&*a, A, 1, B).map(|link| link.generation);
            if found.holds(&*b) && found.generation == 2 {
                assert_eq!(shown, Some(7));
            }
        }
        server.join().unwrap();
    });
}
