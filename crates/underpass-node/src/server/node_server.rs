//! The main thread of the server: which domains are registered, and its sleep.

use crate::messages::{NAME, NodeMessage};
use crate::page::layout::{LAYOUT_VERSION, LEN, PLACES, SERVER, at, row};
use crate::page::{PageView, close_row, open_row, ring};
use crate::policy::{Decision, NodePolicy, Rules};
use crate::server::look::{AskedFor, Looks};
use crate::server::member::{Applicant, RegisteredDomain};
use crate::server::pinned_domains::PinnedDomains;
use crate::server::reception::{NodeEvent, Reception, TOKENS, TokenBell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use underpass_os::clock::now_ns;
use underpass_os::futex::{self, FutexScope, Watch, Watched};
use underpass_os::{Directory, Listening, Memory, Poller, published, random};

pub use crate::server::reception::NodeServerEnd;

/// Events between two looks.
const EVENTS: usize = 64;
/// The time between two looks while a domain wants a processor, in ns.
const TICK: u64 = 1_000_000;
/// A domain may need a slice and some ticks of its monitor to give way, in ns.
const GRACE: u64 = 50_000_000;

/// A server of one user's domains. [The module's page](super) says what it does.
#[derive(Debug)]
pub struct NodeServer {
    events: Receiver<NodeEvent>,
    /// What the main thread sleeps on, beside the bells of domains.
    pub(super) doorbell: Arc<AtomicU32>,
    reception: JoinHandle<()>,
    pub(super) policy: NodePolicy,
    pub(super) processors: u32,
    /// The server's own page.
    pub(super) page: Memory,
    file: OwnedFd,
    pub(super) generation: u32,
    next_generation: u32,
    pub(super) members: Vec<RegisteredDomain>,
    pub(super) looks: Looks,
    pub(super) pinned: PinnedDomains,
    pub(super) directory: Directory,
    /// Where the receptionist finds the jobserver's watch.
    tokens: Arc<OnceLock<TokenBell>>,
    poller: Arc<Poller>,
    /// The asks that were not answered when it looked last.
    pub(super) asked_for: Vec<AskedFor>,
    /// What the policy has decided and is to be done.
    pub(super) decided: Vec<Decision>,
}

impl NodeServer {
    /// Starts a server for so many processors in `directory`. With `replace` it takes over from a
    /// server that runs there. A signal that `signals` reports ends it.
    ///
    /// # Errors
    /// `AddrInUse` if a server runs there, without `replace`. `Unsupported` if this kernel cannot
    /// watch several words in one sleep (Linux before 5.16). Otherwise the errors of sockets.
    pub fn start(
        directory: &Directory,
        processors: u32,
        replace: bool,
        signals: Option<BorrowedFd<'static>>,
    ) -> io::Result<Self> {
        if !futex::can_watch_several() {
            let said = "this kernel cannot watch several words in one sleep; it needs Linux 5.16 or later";
            return Err(io::Error::new(io::ErrorKind::Unsupported, said));
        }
        directory.ensure()?;
        let bind = if replace { Listening::replace } else { Listening::bind };
        let listening = Arc::new(bind(directory, NAME, 0o600)?);
        let (tell, events) = sync_channel(EVENTS);
        let doorbell = Arc::new(AtomicU32::new(0));
        let tokens = Arc::default();
        let reception = Reception::new(listening, signals, tell, doorbell.clone(), Arc::clone(&tokens))?;
        let poller = reception.poller();
        let reception = thread::Builder::new().name("reception".into()).spawn(|| reception.run())?;
        let (page, file) = published::create("underpass-node", LEN)?;
        let processors = processors.clamp(1, u32::from(u16::MAX >> 2));
        // A generation of another server of this user is hardly ever one of this server's.
        let generation = (random::number()? as u32 >> 2) + 1;
        Ok(Self {
            events,
            doorbell,
            reception,
            policy: NodePolicy::new(processors, Rules { grace: GRACE, ..Rules::default() }),
            processors,
            page,
            file,
            generation,
            next_generation: generation,
            members: Vec::new(),
            looks: Looks::default(),
            pinned: PinnedDomains::default(),
            directory: directory.clone(),
            tokens,
            poller,
            asked_for: Vec::new(),
            decided: Vec::new(),
        })
    }

    /// Runs until a signal comes or another server takes over.
    pub fn run(mut self) -> NodeServerEnd {
        // A domain that waits for a processor should not wait for another one's slice as well.
        let _ = underpass_os::thread::shorten_slice();
        loop {
            let doorbell = self.doorbell.load(Ordering::Acquire);
            let bells = self.bells();
            for _ in 0..EVENTS {
                match self.events.try_recv() {
                    Ok(NodeEvent::End(end)) => return self.end(end),
                    Ok(event) => self.handle(event),
                    Err(_) => break,
                }
            }
            self.look();
            let deadline = self.looks.is_wanted().then(|| now_ns() + TICK);
            self.sleep(doorbell, &bells, deadline);
        }
    }

    /// The values of the domains' bells for the server.
    fn bells(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.page.read(at(SERVER, row::BELL)) as u32).collect()
    }

    fn sleep(&self, doorbell: u32, bells: &[u32], deadline: Option<u64>) {
        let mut watch =
            Watch::of(Watched { word: &self.doorbell, expected: doorbell, scope: FutexScope::Private });
        if bells.len() != self.members.len() {
            // A domain has come or gone: look at its bell first.
            return;
        }
        for (member, &expected) in self.members.iter().zip(bells) {
            let word = member.page.futex(at(SERVER, row::BELL));
            watch.push(Watched { word, expected, scope: FutexScope::Shared });
        }
        watch.wait(deadline);
    }

    fn handle(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Applies(applicant) => self.admit(applicant),
            NodeEvent::Mapped(connection) => self.register(connection),
            NodeEvent::Gone(connection) => {
                self.settle(connection);
                self.unpin(connection);
            }
            NodeEvent::Pins { connection, socket, pid, weight } => {
                self.pin_command(connection, &socket, pid, weight);
            }
            NodeEvent::Status(socket) => {
                let status = NodeMessage::StatusIs(self.status().to_string());
                // One who asks and does not read gets nothing.
                let _ = socket.send(&status.encode(), &[]);
            }
            NodeEvent::End(_) => {}
        }
    }

    /// Gives a domain its page and the server's.
    fn admit(&mut self, applicant: Applicant) {
        let taken = |place: &usize| self.members.iter().any(|member| member.place == *place);
        let place = (SERVER + 1..PLACES).find(|place| !taken(place));
        let again = self.members.iter().any(|member| member.connection == applicant.connection);
        let socket = applicant.socket.clone();
        let generation = self.next_generation();
        let member = place
            .filter(|_| !again)
            .and_then(|place| RegisteredDomain::new(applicant, place, generation).ok());
        let Some(member) = member else {
            let _ = socket.send(&NodeMessage::Refused { version: LAYOUT_VERSION }.encode(), &[]);
            return socket.hang_up();
        };
        let welcome = NodeMessage::Welcome { place: member.place, generation, processors: self.processors };
        if member.send(&welcome, &[member.file(), self.file.as_fd()]).is_err() {
            return member.hang_up();
        }
        self.members.push(member);
        self.tell_surveyor();
    }

    /// The processes that have pages have changed.
    fn tell_surveyor(&self) {
        self.pinned.set_registered(self.members.iter().map(|member| member.pid));
    }

    /// Has the receptionist watch the jobserver's pipe.
    pub(super) fn watch_tokens(&self, tokens: TokenBell) -> io::Result<()> {
        let tokens = self.tokens.get_or_init(|| tokens);
        self.poller.add(&tokens.watch, TOKENS)
    }

    fn next_generation(&mut self) -> u32 {
        self.next_generation = (self.next_generation + 1) & (u32::MAX >> 1);
        self.next_generation.max(1)
    }

    /// R1 to R3: the domain has mapped its page, and takes part from now on.
    fn register(&mut self, connection: u64) {
        let Some(at) = self.members.iter().position(|member| member.connection == connection) else { return };
        if self.members[at].id.is_some() || self.members[at].close_page().is_err() {
            return self.members[at].hang_up();
        }
        let new = &self.members[at];
        let others = || self.members.iter().filter(|member| member.id.is_some());
        for other in others() {
            let told = new.send(&NodeMessage::Show { place: other.place }, &[other.file()]).is_ok();
            let tells = other.send(&NodeMessage::Show { place: new.place }, &[new.file()]).is_ok();
            // One that does not read is as one that has ended.
            if !told {
                new.hang_up();
            }
            if !tells {
                other.hang_up();
            }
        }
        open_row(&new.page, SERVER, self.generation);
        for other in others() {
            open_row(&new.page, other.place, other.generation);
            open_row(&other.page, new.place, new.generation);
            self.notify(other);
        }
        open_row(&self.page, new.place, new.generation);
        let now = now_ns();
        let id = self.policy.register(new.terms, now, &mut self.decided);
        self.policy.report(id, new.running.max(1), u64::MAX, now, &mut self.decided);
        self.members[at].id = Some(id);
        self.looks.stale();
        self.notify(&self.members[at]);
    }

    /// S1 to S4: the domain of this connection has ended.
    fn settle(&mut self, connection: u64) {
        let Some(at) = self.members.iter().position(|member| member.connection == connection) else { return };
        let gone = self.members.swap_remove(at);
        self.tell_surveyor();
        let Some(id) = gone.id else { return };
        for other in &mut self.members {
            if other.id.is_some() {
                other.base = other.base.wrapping_add(close_row(&other.page, gone.place));
                if other.send(&NodeMessage::Hide { place: gone.place }, &[]).is_err() {
                    other.hang_up();
                }
            }
        }
        let _ = close_row(&self.page, gone.place);
        self.policy.unregister(id, now_ns(), &mut self.decided);
        self.looks.stale();
        self.members.iter().for_each(|member| self.notify(member));
    }

    /// Has a domain look.
    pub(super) fn notify(&self, member: &RegisteredDomain) {
        ring(&self.page, member.place);
        self.wake(member.place);
    }

    /// Wakes the sleeper of the bell for `place`, which was rung.
    pub(super) fn wake(&self, place: usize) {
        futex::wake(self.page.futex(at(place, row::BELL)), FutexScope::Shared, 1);
    }

    /// The end: every domain finds its socket closed. The receptionist has ended, and removes the
    /// name.
    fn end(mut self, end: NodeServerEnd) -> NodeServerEnd {
        self.pinned.end(end == NodeServerEnd::Replaced);
        for member in &self.members {
            member.hang_up();
        }
        self.members.iter().for_each(|member| self.notify(member));
        // It cannot have panicked: nothing in it does.
        let _ = self.reception.join();
        end
    }
}
