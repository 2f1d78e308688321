//! The number of processors that a domain wants, and the domain that the server names with an ask.

use super::page::{A, B, Rows, link};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use underpass_node::page::layout::{SERVER, at, head, row};
use underpass_node::page::{PageView, ReadyChange, ask_for, asked_by, beneficiary_of, publish_ready};

/// A domain that has work, and its page.
struct Domain {
    page: Arc<Rows>,
    work: AtomicU32,
}

impl Domain {
    fn publish(&self) -> ReadyChange {
        publish_ready(&*self.page, || self.work.load(Ordering::Relaxed), || 5)
    }
}

#[test]
fn when_all_is_quiet_the_page_says_whether_work_waits() {
    loom::model(|| {
        let domain = Arc::new(Domain { page: Rows::head(), work: AtomicU32::new(0) });
        let maker = {
            let domain = domain.clone();
            thread::spawn(move || {
                domain.work.store(1, Ordering::Relaxed);
                domain.publish()
            })
        };
        // An activation goes idle, or the monitor ticks.
        let other = domain.publish();
        let begins = [maker.join().unwrap(), other].iter().filter(|&&c| c == ReadyChange::Begins).count();
        assert_eq!(domain.page.read(head::READY), 1);
        assert_eq!(domain.page.read(head::WAITING_SINCE), 5);
        assert!(begins >= 1, "the server is rung");
    });
}

#[test]
fn work_that_is_taken_at_once_is_wanted_no_more() {
    loom::model(|| {
        let domain = Arc::new(Domain { page: Rows::head(), work: AtomicU32::new(1) });
        let taker = {
            let domain = domain.clone();
            thread::spawn(move || {
                domain.work.store(0, Ordering::Relaxed);
                domain.publish()
            })
        };
        domain.publish();
        taker.join().unwrap();
        assert_eq!(domain.page.read(head::READY), 0);
    });
}

#[test]
fn an_ask_and_the_name_that_a_victim_reads_belong_together() {
    loom::model(|| {
        let (server, a) = (Rows::to(&[A, B]), Rows::to(&[SERVER, B]));
        let asker = {
            let server = server.clone();
            thread::spawn(move || {
                ask_for(&*server, &link(SERVER, A), Some((B, 1)));
                ask_for(&*server, &link(SERVER, A), None);
            })
        };
        let to_server = link(A, SERVER);
        let number = asked_by(&*server, &to_server);
        let named = beneficiary_of(&*a, &*server, &to_server, number);
        // The second ask has no name, and the first one's is not taken for it.
        assert!(named.is_none() || number == 1);
        assert!(named.is_none_or(|named| named == link(A, B)));
        asker.join().unwrap();
        assert_eq!(asked_by(&*server, &to_server), 2);
        assert_eq!(beneficiary_of(&*a, &*server, &to_server, 2), None);
    });
}

#[test]
fn a_name_of_a_domain_that_has_left_names_nobody() {
    loom::model(|| {
        let (server, a) = (Rows::to(&[A, B]), Rows::to(&[SERVER, B]));
        ask_for(&*server, &link(SERVER, A), Some((B, 1)));
        assert_eq!(beneficiary_of(&*a, &*server, &link(A, SERVER), 1), Some(link(A, B)));
        underpass_node::page::close_row(&*a, B);
        underpass_node::page::open_row(&*a, B, 2);
        assert_eq!(beneficiary_of(&*a, &*server, &link(A, SERVER), 1), None);
        let bits = server.read(at(A, row::BENEFICIARY));
        assert_ne!(bits, 0, "the server does not take it back");
    });
}
