//! The taker: takes what others give, owes what they ask for, and keeps the list of the others.

use crate::client::domain_client::{DomainClient, Session};
use crate::client::giving::bell_for;
use crate::messages::{LONGEST, NodeMessage};
use crate::page::layout::{PLACES, SERVER, head};
use crate::page::{PageLink, PageView, PageWords};
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

/// The time between two looks for the server's end, while the domain is alone or its threads run,
/// in ns. A server that is killed rings nobody.
const NEXT_LOOK: u64 = 1_000_000_000;

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
    /// The value of each bell, with its place. It has room for all, and so have the next two: an
    /// activation that waits for this thread may hold the lock of the allocator.
    bells: Vec<(usize, u32)>,
    /// The links to all others, as the last look found them, that to the server first.
    links: Vec<PageLink>,
    watch: Watch<'static>,
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
        let own = watched(&session, session.place, 0);
        Self {
            client,
            session,
            pool,
            answered: vec![(0, 0); PLACES],
            heartbeat: 0,
            begins,
            bells: Vec::with_capacity(PLACES),
            links: Vec::with_capacity(PLACES),
            watch: Watch::with_room(own),
        }
    }

    /// Runs until the server has ended, and leaves the domain without one.
    pub(super) fn run(mut self, socket: &Socket) {
        // Between two hops of a processor that changes hands, nobody should wait for a slice.
        let _ = underpass_os::thread::shorten_slice();
        loop {
            self.read_bells();
            self.answer_all();
            self.session.take_from(self.pool, self.links.iter().copied());
            if self.read_messages(socket) == Server::Gone {
                break;
            }
            self.come_back();
            self.client.give_idle(self.pool);
            self.sleep();
        }
        // The order matters: the domain goes by its own maximum before what it holds is forgotten.
        // And no thread is between two steps that change what it holds.
        self.pool.set_limited(false, None);
        self.client.end_session();
        self.pool.set_limited(false, Some(0));
        self.client.owe_nothing();
        let _ = self.session.pages.own.hide();
    }

    /// Step 1 of the sleep. The server's bell comes first: a link that changes after the look at it
    /// is rung there.
    fn read_bells(&mut self) {
        let (session, bell) = (&self.session, bell_for(&self.session));
        let value = |place| session.page_of(place).read(bell) as u32;
        self.links.clear();
        self.bells.clear();
        self.bells.push((session.place, session.pages.read(bell) as u32));
        self.bells.push((SERVER, value(SERVER)));
        self.links.extend(session.link(SERVER));
        for link in session.links_from(0) {
            self.bells.push((link.place, value(link.place)));
            self.links.push(link);
        }
    }

    /// Step 3 of the sleep.
    fn sleep(&mut self) {
        let session = &self.session;
        let mut words = self.bells.iter().map(|&(place, expected)| watched(session, place, expected));
        let Some(first) = words.next() else { return };
        self.watch.begin_again(first);
        words.for_each(|word| self.watch.push(word));
        let is_alone = session.pages.read(head::ALONE) != 0;
        // A domain whose threads run looks as well, though it wants nothing and rings nobody.
        let looks = is_alone || self.pool.running() > 0;
        let next_look = || looks.then(|| now_ns() + NEXT_LOOK);
        self.watch.wait(self.begins.or_else(next_look));
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

    /// Owes what others have asked for.
    fn answer_all(&mut self) {
        for at in 0..self.links.len() {
            let link = self.links[at];
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
        if link.place == SERVER && new > 0 {
            self.client.note_beneficiary(&self.session, link, (new == 1).then_some(asked));
        }
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

/// The bell of the domain at `place`, as this one sleeps on it.
fn watched(session: &Session, place: usize, expected: u32) -> Watched<'static> {
    let bell = bell_for(session);
    let word = match place == session.place {
        true => session.pages.own.futex(bell),
        false => session.pages.others.futex(place, bell),
    };
    Watched { word, expected, scope: FutexScope::Shared }
}
