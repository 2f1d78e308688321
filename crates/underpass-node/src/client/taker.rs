//! The taker: takes what others give, owes what they ask for, and keeps the list of the others.

use crate::client::domain_client::{DomainClient, Session};
use crate::client::giving::bell_for;
use crate::messages::{LONGEST, NodeMessage};
use crate::page::layout::{PLACES, SERVER, TransferKind, head};
use crate::page::{PageLink, PageView, PageWords, take};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use underpass_os::Socket;
use underpass_os::clock::now_ns;
use underpass_os::futex::{FutexScope, Watch, Watched};
use underpass_processor::Pool;

/// For so long a new registration waits for its first processors before it goes by what it holds,
/// in ns. Meanwhile it goes by its local invariant.
const FIRST: u64 = 50_000_000;

/// The state of the taker's kernel thread.
pub(super) struct Taker {
    client: &'static DomainClient,
    session: Session,
    pool: &'static Pool,
    /// By place: of which generation the domain is there, and how much of what it has asked for is
    /// answered.
    answered: Vec<(u32, u32)>,
    /// The heartbeat that was seen last.
    heartbeat: u64,
    /// Until when it waits for its first processors.
    begins: Option<u64>,
}

/// Whether the registration goes on.
#[derive(PartialEq, Eq)]
enum Server {
    Lives,
    Gone,
}

impl Taker {
    pub(super) fn new(client: &'static DomainClient, session: Session, pool: &'static Pool) -> Self {
        let begins = Some(now_ns() + FIRST);
        Self { client, session, pool, answered: vec![(0, 0); PLACES], heartbeat: 0, begins }
    }

    /// Runs until the server has ended, and leaves the domain without one.
    pub(super) fn run(mut self, socket: &Socket) {
        loop {
            let bells = self.bells();
            if self.read_messages(socket) == Server::Gone {
                break;
            }
            self.serve_links();
            self.come_back();
            self.client.give_idle(self.pool);
            self.sleep(&bells);
        }
        // The order matters: the domain goes by its own maximum before what it holds is forgotten.
        self.pool.set_limited(false, None);
        self.client.set_identity(None);
        self.pool.set_limited(false, Some(0));
        self.client.owe_nothing();
        let _ = self.session.pages.own.hide();
    }

    /// Step 1 of the sleep: the value of each bell, with its place.
    fn bells(&self) -> Vec<(usize, u32)> {
        let bell = bell_for(&self.session);
        let value = |place: usize| match place == self.session.place {
            true => self.session.pages.read(bell),
            false => self.session.page_of(place).read(bell),
        };
        let there = |&place: &usize| {
            place == SERVER || place == self.session.place || self.session.link(place).is_some()
        };
        (0..PLACES).filter(there).map(|place| (place, value(place) as u32)).collect()
    }

    /// Step 3 of the sleep.
    fn sleep(&self, bells: &[(usize, u32)]) {
        let bell = bell_for(&self.session);
        let watched = |&(place, expected): &(usize, u32)| Watched {
            word: match place == self.session.place {
                true => self.session.pages.own.futex(bell),
                false => self.session.pages.others.futex(place, bell),
            },
            expected,
            scope: FutexScope::Shared,
        };
        let mut words = bells.iter().map(watched);
        let Some(first) = words.next() else { return };
        let mut watch = Watch::of(first);
        words.for_each(|word| watch.push(word));
        watch.wait(self.begins);
    }

    /// Reads what the server has sent.
    fn read_messages(&mut self, socket: &Socket) -> Server {
        let mut buffer = [0; LONGEST];
        loop {
            let got = match socket.receive_any(&mut buffer) {
                Ok(got) if got.len == 0 => return Server::Gone,
                Ok(got) => got,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Server::Lives,
                Err(_) => return Server::Gone,
            };
            let others = &self.session.pages.others;
            let done = match (NodeMessage::decode(&buffer[..got.len]), &got.files[..]) {
                (Some(NodeMessage::Show { place }), [page]) => others.show(place, page.as_fd()),
                (Some(NodeMessage::Hide { place }), []) => others.hide(place),
                _ => Ok(()),
            };
            if done.is_err() {
                return Server::Gone;
            }
        }
    }

    /// Takes what was given, and owes what was asked for.
    fn serve_links(&mut self) {
        let server = self.session.link(SERVER);
        for link in server.into_iter().chain(self.session.links_from(0)) {
            let page = self.session.page_of(link.place);
            for kind in TransferKind::ALL {
                while take(self.session.pages, &page, &link, kind, self.session.most) {
                    self.pool.add_processor();
                }
            }
            self.answer(&link);
        }
    }

    /// Owes what the domain of the link has asked for since the last time. What it does not have,
    /// it does not owe.
    fn answer(&mut self, link: &PageLink) {
        let asked = DomainClient::asked_by(&self.session, link);
        let (generation, answered) = &mut self.answered[link.place];
        if *generation != link.generation {
            (*generation, *answered) = (link.generation, 0);
        }
        let new = asked.wrapping_sub(*answered);
        *answered = asked;
        // More than the machine has is a lie. A domain gets back only what it has lent.
        let most = match link.place == SERVER {
            true => self.session.most,
            // Relaxed: only this thread adds to it.
            false => (self.session.borrowed(link.place).max(0) as u32)
                .saturating_sub(self.client.owed[link.place].load(Ordering::Relaxed)),
        };
        for _ in 0..new.min(most) {
            if !self.client.owe(self.pool, link.place) {
                return;
            }
        }
    }

    /// Goes by what the domain holds: when the first processors have come, and when a server that
    /// was silent gives a sign of life.
    fn come_back(&mut self) {
        let heartbeat = self.session.page_of(SERVER).read(head::HEARTBEAT);
        let beats = std::mem::replace(&mut self.heartbeat, heartbeat) != heartbeat;
        if let Some(begins) = self.begins {
            if self.pool.held() > 0 || now_ns() >= begins {
                self.begins = None;
                self.pool.set_limited(true, None);
            }
        } else if beats && self.session.pages.read(head::ALONE) != 0 {
            // SYNC with the read of `ALONE` by the server.
            self.session.pages.word(head::ALONE).store(0, Ordering::Release);
            self.client.heartbeat_at.store(now_ns(), Ordering::Relaxed);
            self.pool.set_limited(true, None);
        }
    }
}
