//! Finding the server, and registering with it.

use crate::client::domain_client::{DomainClient, Session};
use crate::client::taker::Taker;
use crate::messages::{LONGEST, NAME, NodeMessage};
use crate::page::PageWords;
use crate::page::layout::{PLACES, SERVER, head};
use crate::policy::Terms;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use underpass_os::clock::deadline_ns;
use underpass_os::futex::can_watch_several;
use underpass_os::{Connected, Directory, Socket, process};
use underpass_processor::Pool;

/// A server that does not answer a registration for so long is as none.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time between two looks for the next server, of a domain that runs threads and had one.
const AGAIN: Duration = Duration::from_secs(1);

/// Whether a taker runs, or is about to.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl DomainClient {
    /// Registers with the server of this user's directory, if there is one and the domain is not
    /// registered yet. The launcher calls this.
    pub(super) fn look_for_server(&'static self, pool: &'static Pool) {
        if TAKEN.load(Ordering::Relaxed) {
            return;
        }
        let Some(socket) = connect() else { return };
        if !can_watch_several() || TAKEN.swap(true, Ordering::Relaxed) {
            return;
        }
        let begun = std::thread::Builder::new().name("underpass-taker".into()).spawn(move || {
            self.take_part(socket, pool);
            // Relaxed: the launcher looks again at its next review.
            TAKEN.store(false, Ordering::Relaxed);
        });
        if begun.is_err() {
            TAKEN.store(false, Ordering::Relaxed);
        }
    }

    /// Takes part until there is no server any more. If another has taken over, it is found at
    /// once. Otherwise the domain looks for the next one now and then while it runs threads. An
    /// idle one finds it at its next review.
    fn take_part(&'static self, first: Socket, pool: &'static Pool) {
        let mut next = Some(first);
        while let Some(socket) = next {
            let Ok(taker) = self.register(&socket, pool) else { return };
            taker.run(&socket);
            drop(socket);
            next = connect();
            while next.is_none() && pool.running() > 0 {
                std::thread::sleep(AGAIN);
                next = connect();
            }
        }
    }

    /// Registers over a new connection. On return the domain has its page, and goes by its local
    /// invariant still.
    fn register(&'static self, socket: &Socket, pool: &'static Pool) -> io::Result<Taker> {
        let terms = Terms { weight: weight(), minimum: 0, maximum: pool.own_maximum() as u32 };
        let running = pool.running() as u32;
        socket.send(&NodeMessage::Register { terms, running }.encode(), &[])?;
        if !socket.wait(deadline_ns(PATIENCE))? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut buffer = [0; LONGEST];
        let got = socket.receive(&mut buffer)?;
        let welcome = NodeMessage::decode(&buffer[..got.len]);
        let (Some(NodeMessage::Welcome { place, generation, processors }), [page, server]) =
            (welcome, &got.files[..])
        else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let pages = self.map()?;
        (0..PLACES).try_for_each(|place| pages.others.hide(place))?;
        pages.own.show(page.as_fd())?;
        pages.others.show(SERVER, server.as_fd())?;
        pages.word(head::READY).store(0, Ordering::Relaxed);
        self.owe_nothing();
        self.wanted.store(0, Ordering::Relaxed);
        self.processors.store(processors, Ordering::Relaxed);
        let session = Session { pages, place, generation, most: processors };
        self.begin_session(&session);
        socket.send(&NodeMessage::Mapped.encode(), &[])?;
        Ok(Taker::new(self, session, pool))
    }
}

/// Connects to the server of this user's directory. Only one of this user, or root's, divides this
/// domain's processors.
fn connect() -> Option<Socket> {
    let socket = Socket::connect(&Directory::from_environment(), NAME).ok()?;
    let trusted = |uid| uid == process::user() || uid == 0;
    socket.peer().is_ok_and(|peer| trusted(peer.uid)).then_some(socket)
}

/// The weight that this domain's environment gives it.
fn weight() -> u16 {
    let set = std::env::var("UNDERPASS_WEIGHT").ok().and_then(|text| text.parse().ok());
    set.filter(|weight| (1..=1000).contains(weight)).unwrap_or(1)
}
