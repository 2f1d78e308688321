//! What the monitor tells the server, and how it finds that the server is silent.

use crate::client::domain_client::{DomainClient, Session};
use crate::page::layout::{SERVER, at, head, row};
use crate::page::{PageView, PageWords, ReadyChange, publish_ready};
use std::sync::atomic::Ordering;
use underpass_os::clock::now_ns;
use underpass_processor::{Pool, ProcessorSharing};

/// A server that gives no sign of life for so long, while a domain wants a processor, is silent. In
/// ns. With a tick of the monitor it is well below 200 ms.
const SILENCE: u64 = 150_000_000;

/// The taker of a domain whose threads run looks so often whether its server has ended, in ns. A
/// server that is killed rings nobody, and a domain that wants nothing expects no sign of life.
const LOOK: u64 = 1_000_000_000;

impl ProcessorSharing for DomainClient {
    fn review(&self, pool: &'static Pool) {
        super::domain_client::client().look_for_server(pool);
    }

    fn publish(&self, pool: &Pool, wanted: u32) {
        super::domain_client::client().publish_wanted(pool, wanted);
    }

    fn want(&self, pool: &Pool) {
        let client = super::domain_client::client();
        if let Some(session) = client.active_session() {
            client.request(&session, pool);
        }
    }

    fn idle(&self, pool: &Pool) {
        super::domain_client::client().give_idle(pool);
    }

    fn is_wanted(&self) -> bool {
        super::domain_client::client().session().is_some_and(|session| session.is_any_wanted())
    }

    fn lend(&self, pool: &Pool) -> bool {
        super::domain_client::client().lend_in_hand(pool)
    }
}

impl DomainClient {
    /// Publishes what the domain wants now. If it has begun to want a processor, asks the borrowers
    /// and the server for one. Any thread does this.
    pub(super) fn request(&'static self, session: &Session, pool: &Pool) {
        if publish_ready(session.pages, || pool.wanted(), now_ns) == ReadyChange::Begins {
            self.recall(session, pool.wanted());
            ring_server(session);
        }
    }

    /// What the monitor does at each tick.
    fn publish_wanted(&'static self, pool: &Pool, wanted: u32) {
        let Some(session) = self.active_session() else { return };
        self.settle(&session, pool);
        let page = session.pages;
        let is_alone = page.read(head::ALONE) != 0;
        let now = now_ns();
        session.publish_running(pool);
        self.request(&session, pool);
        if now.saturating_sub(self.looked_at.load(Ordering::Relaxed)) >= LOOK {
            self.looked_at.store(now, Ordering::Relaxed);
            ring_taker(&session);
        }
        // Relaxed, all of the monitor's own.
        let before = self.wanted.swap(wanted, Ordering::Relaxed);
        if wanted == 0 {
            return;
        }
        // The taker may wait for memory, and so for an activation that waits for a processor.
        session.take_all(pool);
        let heartbeat = session.page_of(SERVER).read(head::HEARTBEAT);
        let beats = self.heartbeat.swap(heartbeat, Ordering::Relaxed) != heartbeat;
        if before == 0 || beats {
            self.heartbeat_at.store(now, Ordering::Relaxed);
        }
        if !beats {
            ring_server(&session);
        }
        let silent = now.saturating_sub(self.heartbeat_at.load(Ordering::Relaxed)) >= SILENCE;
        if silent && !is_alone {
            self.go_alone(&session, pool);
        }
    }

    /// The server is silent: the domain goes by its local invariant. The taker finds out whether
    /// the server has ended.
    fn go_alone(&self, session: &Session, pool: &Pool) {
        // In this order: the taker, which comes back if it finds `ALONE`, is not overtaken.
        pool.set_limited(false, None);
        // SYNC with the read of `ALONE` by the server, which rings when it goes on.
        session.pages.word(head::ALONE).store(1, Ordering::Release);
        ring_server(session);
        ring_taker(session);
    }
}

fn ring_server(session: &Session) {
    // SYNC with the load of the bell before the server's sleep: what was published.
    session.pages.word(at(SERVER, row::BELL)).fetch_add(1, Ordering::Release);
    session.wake(SERVER);
}

/// Has the taker of this domain look.
fn ring_taker(session: &Session) {
    // SYNC with the load of the bell before the taker's sleep.
    session.pages.word(at(session.place, row::BELL)).fetch_add(1, Ordering::Release);
    session.wake(session.place);
}
