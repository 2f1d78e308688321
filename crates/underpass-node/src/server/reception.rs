//! The receptionist: accepts connections, reads messages, and notices that a domain has ended.

use crate::messages::{LONGEST, NodeMessage};
use crate::page::layout::PLACES;
use crate::pinned::SurveyorBell;
use crate::server::member::Applicant;
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};
use underpass_os::futex::{self, FutexScope};
use underpass_os::{Connected, FifoWatch, Listening, Poller, Ready, Socket, process};

/// What the main thread is told.
#[derive(Debug)]
pub(super) enum NodeEvent {
    /// A domain wants to register.
    Applies(Applicant),
    /// The domain of this connection has mapped its page.
    Mapped(u64),
    /// The connection has ended.
    Gone(u64),
    /// Somebody asks for the status.
    Status(Arc<Socket>),
    /// The processes below this one are to take part.
    Pins { connection: u64, socket: Arc<Socket>, pid: u32, weight: u16 },
    /// The server is to end.
    End(NodeServerEnd),
}

/// Why a server has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeServerEnd {
    /// By a signal.
    Signal,
    /// Another server has taken its name over.
    Replaced,
}

const LISTENING: u64 = 0;
const SIGNALS: u64 = 1;
/// The key of the jobserver's watch.
pub(super) const TOKENS: u64 = 2;
/// Connections that say nothing have room beside those of domains.
const MOST_CONNECTIONS: usize = 2 * PLACES;

pub(super) struct Reception {
    listening: Arc<Listening>,
    poller: Arc<Poller>,
    connections: HashMap<u64, Arc<Socket>>,
    next: u64,
    tell: SyncSender<NodeEvent>,
    /// The bell of the main thread.
    doorbell: Arc<AtomicU32>,
    /// Set before the watch is added to the poller.
    tokens: Arc<OnceLock<TokenBell>>,
}

/// The watch of the jobserver's pipe, and the clients that it concerns.
#[derive(Debug)]
pub(super) struct TokenBell {
    pub(super) watch: FifoWatch,
    pub(super) bell: SurveyorBell,
}

impl Reception {
    pub(super) fn new(
        listening: Arc<Listening>,
        signals: Option<BorrowedFd<'static>>,
        tell: SyncSender<NodeEvent>,
        doorbell: Arc<AtomicU32>,
        tokens: Arc<OnceLock<TokenBell>>,
    ) -> io::Result<Self> {
        let poller = Arc::new(Poller::new()?);
        poller.add(&*listening, LISTENING)?;
        if let Some(signals) = signals {
            poller.add(signals, SIGNALS)?;
        }
        Ok(Self { listening, poller, connections: HashMap::new(), next: TOKENS + 1, tell, doorbell, tokens })
    }

    pub(super) fn poller(&self) -> Arc<Poller> {
        self.poller.clone()
    }

    /// Runs until the server ends.
    pub(super) fn run(mut self) {
        loop {
            let Ok(ready) = self.poller.wait(None) else { return };
            for ready in ready {
                let goes_on = match ready {
                    Ready::File(LISTENING) => self.accept(),
                    Ready::File(SIGNALS) => {
                        self.tell(NodeEvent::End(NodeServerEnd::Signal));
                        false
                    }
                    Ready::File(TOKENS) => {
                        if let Some(tokens) = self.tokens.get().filter(|tokens| tokens.watch.clear()) {
                            tokens.bell.ring();
                        }
                        true
                    }
                    Ready::File(connection) => self.read(connection),
                    Ready::Bell => true,
                };
                if !goes_on {
                    return;
                }
            }
        }
    }

    /// Tells the main thread. Returns `false` if that has ended.
    fn tell(&self, event: NodeEvent) -> bool {
        let told = self.tell.send(event).is_ok();
        // SYNC with the load of the doorbell before the main thread's sleep. The channel itself
        // synchronizes.
        self.doorbell.fetch_add(1, Ordering::Release);
        futex::wake(&self.doorbell, FutexScope::Private, 1);
        told
    }

    fn accept(&mut self) -> bool {
        while let Ok(socket) = self.listening.accept() {
            let known = socket.peer().is_ok_and(|peer| peer.uid == process::user() || peer.uid == 0);
            if !known || self.connections.len() >= MOST_CONNECTIONS {
                continue;
            }
            let connection = self.next;
            self.next += 1;
            if self.poller.add(&socket, connection).is_ok() {
                self.connections.insert(connection, Arc::new(socket));
            }
        }
        // A server that takes the name over connects before it does so, and ends that connection
        // afterwards.
        self.look_at_name()
    }

    fn look_at_name(&self) -> bool {
        let replaced = self.listening.standing().is_replaced();
        if replaced {
            self.tell(NodeEvent::End(NodeServerEnd::Replaced));
        }
        !replaced
    }

    fn read(&mut self, connection: u64) -> bool {
        let Some(socket) = self.connections.get(&connection).cloned() else { return true };
        let mut buffer = [0; LONGEST];
        let message = match socket.receive_plain(&mut buffer) {
            Ok(got) if got.len > 0 && !got.cut => NodeMessage::decode(&buffer[..got.len]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
            _ => None,
        };
        match message {
            Some(NodeMessage::Register { terms, running }) => {
                let Ok(peer) = socket.peer() else { return self.forget(connection) };
                let pid = peer.pid.unsigned_abs();
                self.tell(NodeEvent::Applies(Applicant { connection, socket, pid, terms, running }))
            }
            Some(NodeMessage::Mapped) => self.tell(NodeEvent::Mapped(connection)),
            Some(NodeMessage::Pin { weight }) => {
                let Ok(peer) = socket.peer() else { return self.forget(connection) };
                self.tell(NodeEvent::Pins { connection, socket, pid: peer.pid.unsigned_abs(), weight })
            }
            Some(NodeMessage::Status) => self.tell(NodeEvent::Status(socket)),
            _ => self.forget(connection),
        }
    }

    /// The connection has ended, or what came is no message.
    fn forget(&mut self, connection: u64) -> bool {
        if let Some(socket) = self.connections.remove(&connection) {
            self.poller.remove(&*socket);
        }
        self.tell(NodeEvent::Gone(connection)) && self.look_at_name()
    }
}
