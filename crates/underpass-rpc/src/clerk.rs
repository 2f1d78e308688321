//! The clerk: one kernel thread a domain that hands out bindings, and hears when a peer rings, passes a file or dies.
//!
//! It sleeps in the kernel all the time that nothing of that happens, and is on the way of no call.

use crate::client::ClientEnd;
use crate::counters;
use crate::family::Family;
use crate::handshake::{Answer, Hello, LONGEST, Manner, Meeting};
use crate::mailbox::Mailbox;
use crate::server::ServerEnd;
use crate::service::Service;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use underpass_channel::Channel;
use underpass_os::{Listening, Poller, Ready, Socket, clock};
use underpass_processor::{Line, lines};
use underpass_threads::rouse_all;

/// How long a client may take to say hello, in ns.
const PATIENCE: u64 = 2_000_000_000;
/// How long to wait for files to come free before accepting again, in ns.
const PAUSE: u64 = 20_000_000;
/// Clients that may be about to say hello, at once.
const NEWCOMERS: usize = 256;

/// An interface under a name.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) listening: Listening,
    pub(crate) service: Service,
}

/// What the clerk watches under a key.
enum Watched {
    Export(Arc<Exported>),
    Newcomer { socket: Socket, export: u64 },
    Client { end: Arc<ClientEnd>, line: Arc<dyn Line> },
    Server { end: Arc<ServerEnd>, line: Arc<dyn Line>, export: u64 },
}

#[derive(Default)]
struct Table {
    next: u64,
    rows: HashMap<u64, Watched>,
    /// The keys of the newcomers among them, and since when they are silent. Keys grow, so the first is the oldest.
    newcomers: BTreeMap<u64, u64>,
    /// Exports that accept nobody until then, because files ran out.
    paused: Vec<(u64, u64)>,
}

impl Table {
    /// Takes out who has kept silent the longest.
    fn dismiss_oldest(&mut self) -> Option<Watched> {
        let (key, _) = self.newcomers.pop_first()?;
        self.rows.remove(&key)
    }
}

/// This domain's clerk.
pub(crate) struct Clerk {
    poller: Poller,
    table: Mutex<Table>,
}

/// This domain's, started when first asked for.
pub(crate) fn clerk() -> io::Result<&'static Clerk> {
    static CLERK: OnceLock<&'static Clerk> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(clerk) = CLERK.get() {
        return Ok(clerk);
    }
    let clerk: &'static Clerk =
        Box::leak(Box::new(Clerk { poller: Poller::new()?, table: Mutex::default() }));
    std::thread::Builder::new()
        .name("underpass-clerk".to_owned())
        .stack_size(256 * 1024)
        .spawn(|| clerk.run())?;
    Ok(CLERK.get_or_init(|| clerk))
}

impl Clerk {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches something, under a key of its own; not if it is of an export that was withdrawn.
    fn watch(&self, row: Watched, of: Option<u64>) -> io::Result<u64> {
        let mut table = self.table();
        if of.is_some_and(|export| !table.rows.contains_key(&export)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        table.next += 1;
        let key = table.next;
        self.poller.add(row.file(), key)?;
        if matches!(row, Watched::Newcomer { .. }) {
            table.newcomers.insert(key, clock::now_ns());
        }
        table.rows.insert(key, row);
        Ok(key)
    }

    /// Hands out bindings of an interface from now on; gives the key to end that.
    pub(crate) fn export(&self, exported: Exported) -> io::Result<u64> {
        self.watch(Watched::Export(Arc::new(exported)), None)
    }

    /// Removes the name, and closes every binding of it. Calls under way run on; their callers are told.
    pub(crate) fn withdraw(&self, key: u64) {
        let mut table = self.table();
        let gone: Vec<_> = table.rows.extract_if(|&row, watched| row == key || watched.is_of(key)).collect();
        table.newcomers.retain(|row, _| gone.iter().all(|(other, _)| other != row));
        drop(table);
        for (_, watched) in gone {
            self.poller.remove(watched.file());
            if let Watched::Server { end, .. } = &watched {
                end.close();
                end.mailbox().close();
            }
            watched.end();
        }
    }

    /// Looks after the client's end of a binding from now on.
    pub(crate) fn bound(&self, end: &Arc<ClientEnd>) -> io::Result<u64> {
        let line: Arc<dyn Line> = end.clone();
        // Before the clerk can hear of its end.
        lines::add(line.clone());
        counters::enlist(Arc::downgrade(end) as _);
        self.watch(Watched::Client { end: end.clone(), line: line.clone() }, None)
            .inspect_err(|_| forget(&line))
    }

    /// The client wants no more of a binding.
    pub(crate) fn released(&self, key: u64) {
        let gone = self.table().rows.remove(&key);
        if let Some(Watched::Client { end, line }) = gone {
            self.poller.remove(end.mailbox());
            end.mailbox().hang_up();
            forget(&line);
        }
    }

    fn run(&self) -> ! {
        loop {
            match self.poller.wait(self.timeout()) {
                Ok(ready) => ready.iter().for_each(|ready| match ready {
                    Ready::Bell => {}
                    Ready::File(key) => self.attend(*key),
                }),
                // It fails only if our own files are broken; then there is nothing to hear any more.
                Err(_) => std::thread::park(),
            }
            self.tidy();
        }
    }

    /// Until when the clerk can sleep, in ns from now.
    fn timeout(&self) -> Option<u64> {
        let table = self.table();
        let oldest = table.newcomers.first_key_value().map(|(_, since)| since + PATIENCE);
        let next = table.paused.iter().map(|(_, until)| *until).chain(oldest).min();
        next.map(|next| next.saturating_sub(clock::now_ns()))
    }

    /// Sends off newcomers that don't say hello, and accepts again where files had run out.
    fn tidy(&self) {
        let now = clock::now_ns();
        let mut table = self.table();
        while table.newcomers.first_key_value().is_some_and(|(_, since)| since + PATIENCE <= now) {
            table.dismiss_oldest();
        }
        let Table { rows, paused, .. } = &mut *table;
        paused.retain(|&(key, until)| {
            if let (true, Some(Watched::Export(exported))) = (until <= now, rows.get(&key)) {
                // If not even that works, the name stays silent until the domain has memory again.
                let _ = self.poller.add(&exported.listening, key);
            }
            until > now
        });
    }

    /// Something came for `key`.
    fn attend(&self, key: u64) {
        let mut table = self.table();
        match table.rows.get(&key) {
            Some(Watched::Export(exported)) => {
                let exported = exported.clone();
                drop(table);
                self.accept(key, &exported);
            }
            Some(Watched::Newcomer { .. }) => {
                let newcomer = table.rows.remove(&key);
                table.newcomers.remove(&key);
                drop(table);
                if let Some(Watched::Newcomer { socket, export }) = newcomer {
                    self.poller.remove(&socket);
                    self.greet(socket, export);
                }
            }
            Some(Watched::Client { end, .. }) => {
                let end = end.clone();
                drop(table);
                end.news(end.mailbox().empty());
                if end.is_closed() {
                    self.released(key);
                }
            }
            Some(Watched::Server { end, .. }) => {
                let end = end.clone();
                drop(table);
                end.news(end.mailbox().empty());
                if end.is_closed()
                    && let Some(watched) = self.table().rows.remove(&key)
                {
                    self.poller.remove(end.mailbox());
                    watched.end();
                }
            }
            None => {}
        }
    }

    /// Takes in who waits at an export.
    fn accept(&self, key: u64, exported: &Exported) {
        loop {
            self.make_room();
            match exported.listening.accept() {
                Ok(socket) => {
                    // A newcomer that can't be watched is sent off.
                    let _ = self.watch(Watched::Newcomer { socket, export: key }, Some(key));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.pause(key, exported),
            }
        }
    }

    /// Sends off who has kept silent the longest, if that many do: silence must not keep others out.
    fn make_room(&self) {
        let mut table = self.table();
        if table.newcomers.len() >= NEWCOMERS
            && let Some(row) = table.dismiss_oldest()
        {
            self.poller.remove(row.file());
        }
    }

    /// Files have run out: accepts nobody for a while.
    fn pause(&self, key: u64, exported: &Exported) {
        self.poller.remove(&exported.listening);
        self.table().paused.push((key, clock::now_ns() + PAUSE));
    }

    /// A newcomer has said hello, or gone again.
    fn greet(&self, socket: Socket, export: u64) {
        let exported = match self.table().rows.get(&export) {
            Some(Watched::Export(exported)) => exported.clone(),
            _ => return,
        };
        let mut buffer = vec![0; LONGEST];
        let hello = match socket.receive(&mut buffer) {
            Ok(received) if received.len > 0 => Hello::from_bytes(&buffer[..received.len]),
            _ => return,
        };
        let descriptor = exported.service.descriptor;
        let made = hello.and_then(|hello| match hello.hash == descriptor.hash {
            true => bind(hello.manner),
            false => Err(Answer::OtherInterface { hash: descriptor.hash, text: descriptor.text() }),
        });
        match made {
            Ok((channel, file, meeting)) => {
                let welcome = Answer::Welcome { manner: Manner::own() };
                let sent = socket.send(&welcome.to_bytes(), &[file.as_fd()]).is_ok();
                // Before the first call: then what is open is the binding's own.
                drop(file);
                if sent {
                    let (mailbox, stub) = (Mailbox::new(socket), exported.service.stub.clone());
                    self.serve(ServerEnd::new(channel, mailbox, stub, meeting, Family::new(export)));
                }
            }
            Err(answer) => {
                // A client that can't take the answer is gone.
                let _ = socket.send(&answer.to_bytes(), &[]);
            }
        }
    }

    /// The client of `end` has asked for another channel.
    pub(crate) fn open(&self, end: &ServerEnd) {
        let made = Channel::create(end.channel().fence())
            .and_then(|(channel, region)| Ok((channel, region, Socket::pair()?)));
        let Ok((channel, region, (ours, theirs))) = made else { return end.mailbox().refuse() };
        let sent = end.mailbox().open(&region, &theirs).is_ok();
        drop((region, theirs));
        // A client that can't take it goes on without.
        if sent {
            self.serve(end.another(channel, Mailbox::new(ours)));
        }
    }

    /// Serves a channel from now on.
    fn serve(&self, end: Arc<ServerEnd>) {
        let line: Arc<dyn Line> = end.clone();
        counters::enlist(Arc::downgrade(&end) as _);
        let active = lines::add(line.clone());
        let export = end.family().export();
        let row = Watched::Server { end: end.clone(), line: line.clone(), export };
        if !end.family().join(&end) || self.watch(row, Some(export)).is_err() {
            // Nobody would hear of the client's death: better no binding.
            end.close();
            end.mailbox().hang_up();
            return forget(&line);
        }
        // Processors that sleep don't watch this line yet.
        if active {
            rouse_all();
        }
    }
}

impl Watched {
    fn file(&self) -> BorrowedFd<'_> {
        match self {
            Self::Export(exported) => exported.listening.as_fd(),
            Self::Newcomer { socket, .. } => socket.as_fd(),
            Self::Client { end, .. } => end.mailbox().as_fd(),
            Self::Server { end, .. } => end.mailbox().as_fd(),
        }
    }

    /// Whether it is a binding of `of`, or on the way to one.
    fn is_of(&self, of: u64) -> bool {
        match self {
            Self::Newcomer { export, .. } | Self::Server { export, .. } => *export == of,
            Self::Export(_) | Self::Client { .. } => false,
        }
    }

    /// It is not watched any more.
    fn end(self) {
        if let Self::Server { end, line, .. } = self {
            end.close();
            forget(&line);
        }
    }
}

/// No processor looks at `line` any more, nor holds on to it in its sleep.
fn forget(line: &Arc<dyn Line>) {
    if lines::remove(line) {
        rouse_all();
    }
}

/// Makes the server's end of a channel.
fn bind(theirs: Manner) -> Result<(Channel, OwnedFd, Meeting), Answer> {
    let own = Manner::own();
    match Channel::create(own.fence(theirs)) {
        Ok((channel, file)) => Ok((channel, file, own.meeting(theirs))),
        Err(e) => Err(Answer::Failed { why: format!("the server can't make a channel: {e}") }),
    }
}
