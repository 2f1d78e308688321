//! Importing an interface: how a client gets its binding.

mod at_once;

use self::at_once::bind_at_once;
use crate::binding::clock_offset::Clock;
use crate::binding::connections::ServerConnection;
use crate::binding::handshake::{Capabilities, Hello, HelloReply, LONGEST};
use crate::binding::limits::InterfaceQuota;
use crate::binding::name;
use crate::call::answer::Results;
use crate::call::client::{CallTerms, ClientEnd, ClientRow};
use crate::control::clerk::clerk;
use crate::control::connection::{BindingLink, Connection};
use crate::control::control_socket::ControlSocket;
use crate::control::mailbox::ChannelMailbox;
use crate::counters::Counters;
use crate::error::{CallError, ImportError, Outcome, ShareError};
use crate::payload::file_thread::{self, ReceivedMessage, is_behind};
use crate::payload::passed_file::{PassedFiles, PassedSocket};
use crate::payload::prefix::AnyArguments;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass_channel::layout::stack_of_connection;
use underpass_channel::{Channel, Tag};
use underpass_os::{Connected, Directory, Socket, clock, failpoint, fork};
use underpass_sync::mpmc::{self, RecvTimeoutError};
use underpass_threads::{blocking, calls_end, cancelled, on_user_thread, sleep};
use underpass_wire::{Decode, DecodeError, Descriptor, Encode, InterfaceVersion};

/// How long an importer waits for a server's answer. After that it connects anew, if it has time
/// left.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait for an answer before the importer checks again whether the binding is still
/// wanted.
const GLANCE: Duration = Duration::from_millis(20);
/// The shortest pause between two attempts, and the usual one of a user-level thread.
const STEP: Duration = Duration::from_micros(500);
/// The longest pause between two attempts to find a server.
const LONGEST_STEP: Duration = Duration::from_millis(10);

/// Tells until when a binding is wanted, in ns of the clock. The time may change, so the importer
/// asks repeatedly.
pub(crate) type Until<'a> = &'a dyn Fn() -> u64;

/// A client's binding. When it is dropped, the server is told, or the connection ends.
#[derive(Debug)]
pub(crate) struct Bound {
    /// The first end of its connection.
    end: Arc<ClientEnd>,
    row: Arc<ClientRow>,
    connection: Arc<ServerConnection>,
    /// Names the state that the server keeps for its clients, if the server named it. A value has
    /// none, and there are many values.
    state: Option<Box<u128>>,
    /// What it counts as for the user of a client that has given it.
    charge: Option<InterfaceQuota>,
}

/// Which connection a new binding may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportMode {
    /// That of other bindings to the same server, if there is one.
    Joins,
    /// One of its own, which no other binding joins.
    Apart,
}

impl Bound {
    /// Whether the server says that it has the state of `earlier`'s server.
    pub(crate) fn continues(&self, earlier: &Self) -> bool {
        self.state.is_some() && self.state == earlier.state
    }

    fn over(connection: Arc<ServerConnection>, tag: Tag, state: Option<u128>) -> Self {
        let (end, row) = (connection.end().clone(), connection.add_row(tag));
        Self { end, row, connection, state: state.map(Box::new), charge: None }
    }

    /// A row that the peer has given as a value. If there is no room for it, it is released.
    ///
    /// # Errors
    /// The peer's user may have no more.
    pub(crate) fn of_value(
        connection: Arc<ServerConnection>,
        tag: Tag,
        charge: Option<Result<InterfaceQuota, String>>,
    ) -> Result<Self, DecodeError> {
        let mut bound = Self::over(connection, tag, None);
        bound.charge = charge.transpose().map_err(|_| DecodeError::NoRoomForInterface)?;
        Ok(bound)
    }

    /// Whether it is a row of this connection.
    pub(crate) fn is_over(&self, connection: &Arc<ServerConnection>) -> bool {
        Arc::ptr_eq(&self.connection, connection)
    }

    /// The tag of its row.
    pub(crate) fn tag(&self) -> Tag {
        self.row.tag()
    }

    /// Whether the binding has ended, as far as this domain knows. It enters no kernel.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_closed() || self.row.is_closed()
    }

    /// Why it has ended.
    #[cold]
    pub(crate) fn why_ended(&self) -> CallError {
        *self.row.reason(Outcome::NotStarted)
    }

    /// The first end of its connection.
    #[cfg(fuzzing)]
    pub(crate) fn end(&self) -> &Arc<ClientEnd> {
        &self.end
    }

    #[cfg(fuzzing)]
    pub(crate) fn row(&self) -> &Arc<ClientRow> {
        &self.row
    }

    /// Calls a procedure: see [`ClientEnd::call`].
    #[inline(always)]
    pub(crate) fn call<A: Encode + ?Sized, R: Decode + Results<Value: Decode>>(
        &self,
        procedure: u16,
        arguments: &A,
        terms: &CallTerms,
        failed: impl FnOnce(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        self.end.call::<A, R>(&self.row, procedure, arguments, terms, failed)
    }

    /// As [`call`](Self::call), of a call that tells its server when it was posted.
    pub(crate) fn call_telling_post<R: Decode + Results<Value: Decode>>(
        &self,
        procedure: u16,
        arguments: &AnyArguments<'_>,
        terms: &CallTerms,
        failed: impl FnOnce(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        self.end.call_telling_post::<R>(&self.row, procedure, arguments, terms, failed)
    }

    /// The same for a task.
    pub(crate) async fn call_from_task<A: Encode + ?Sized, R: Decode + Results<Value: Decode>>(
        &self,
        procedure: u16,
        arguments: &A,
        terms: &CallTerms,
        failed: impl FnOnce(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        self.end.call_from_task::<A, R>(&self.row, procedure, arguments, terms, failed).await
    }

    /// What this binding has carried, over all channels.
    pub(crate) fn counters(&self) -> Counters {
        self.end.counters_of(&self.row)
    }

    /// Asks the server for a ticket, which gives its user a binding of its own.
    pub(crate) fn share(&self) -> Result<OwnedFd, ShareError> {
        self.end.share(&self.row)
    }

    /// Sets how many slots of each channel the server may hold though nobody waits for their calls.
    pub(crate) fn set_quarantine(&self, most: u32) {
        self.row.set_quarantine(most);
    }

    /// The server's process, 0 if this domain can't see it, and whether the server sleeps.
    pub(crate) fn server(&self) -> (u32, bool) {
        (self.connection.pid(), self.server_sleeps())
    }

    /// Whether the server sleeps, or does not poll the first channel.
    #[inline]
    pub(crate) fn server_sleeps(&self) -> bool {
        self.end.channel().peer_is_away()
    }

    /// Whether the binding has ended, or its server turns calls away.
    pub(crate) fn turns_away(&self) -> bool {
        self.row.turns_away()
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Before the peer hears of the release: it may give another one at once.
        self.charge = None;
        if fork::check().is_ok() {
            self.connection.drop_row(&self.row);
        }
    }
}

/// The path of `name`, if the name is valid.
pub(crate) fn path_of(directory: &Directory, name: &str) -> Result<PathBuf, ImportError> {
    name::check(name).map_err(ImportError::BadName)?;
    Ok(directory.join(name))
}

/// Makes a binding to `name`. Waits at most `within` for a server to export the name.
pub(crate) fn bind(
    directory: &Directory,
    name: &str,
    descriptor: &Descriptor,
    within: Option<Duration>,
    mode: ImportMode,
) -> Result<Bound, ImportError> {
    let end = clock::deadline_ns(within.unwrap_or(PATIENCE));
    let Some(within) = within else {
        return bind_at_once(directory, name, descriptor, &|| end, mode);
    };
    bind_until(directory, name, descriptor, &|| end, mode).map_err(|e| match e {
        ImportError::NoAnswer(path, _) if clock::now_ns() >= end => ImportError::NoAnswer(path, within),
        e => e,
    })
}

/// Makes a binding to `name`. Waits until a server exports the name and answers, or until nobody
/// wants the binding any more.
pub(crate) fn bind_until(
    directory: &Directory,
    name: &str,
    descriptor: &Descriptor,
    until: Until<'_>,
    mode: ImportMode,
) -> Result<Bound, ImportError> {
    let path = allowed(directory, name)?;
    let begun = Instant::now();
    loop {
        let failed = match attempt(directory, name, &path, descriptor, until, mode) {
            Err(e) if may_pass(&e) => e,
            other => return other,
        };
        let left = left_until(until());
        if calls_end() {
            return Err(ImportError::Cancelled);
        }
        if left.is_zero() {
            return Err(failed);
        }
        // The pause grows to a sixteenth of the time waited so far. An inotify descriptor would
        // notify at once. But if the process is killed, the kernel closes its files one after
        // another, and closing an inotify descriptor takes long. Peers would consider the process
        // alive meanwhile.
        let step = (begun.elapsed() / 16).clamp(STEP, LONGEST_STEP);
        sleep(left.min(step));
    }
}

/// The path of `name`, if the name is valid and this process may import.
fn allowed(directory: &Directory, name: &str) -> Result<PathBuf, ImportError> {
    let path = path_of(directory, name)?;
    fork::check().map_err(|e| ImportError::System("nothing can be imported", e))?;
    Ok(path)
}

/// Whether a later attempt may succeed though this one failed.
pub(crate) fn may_pass(e: &ImportError) -> bool {
    matches!(e, ImportError::NotExported(_) | ImportError::Dead(_) | ImportError::NoAnswer(..))
}

/// The time left until `end_ns`.
fn left_until(end_ns: u64) -> Duration {
    Duration::from_nanos(end_ns.saturating_sub(clock::now_ns()))
}

fn attempt(
    directory: &Directory,
    name: &str,
    path: &Path,
    descriptor: &Descriptor,
    until: Until<'_>,
    mode: ImportMode,
) -> Result<Bound, ImportError> {
    introduce(reach(directory, name, path)?, None, path, descriptor, until, mode)
}

/// Connects to the server of `name`.
fn reach(directory: &Directory, name: &str, path: &Path) -> Result<Socket, ImportError> {
    match directory.check() {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(ImportError::NotExported(path.into())),
        Err(e) => return Err(ImportError::Directory(directory.path().into(), e)),
    }
    let socket = Socket::connect(directory, name).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => ImportError::NotExported(path.into()),
        io::ErrorKind::ConnectionRefused => ImportError::Dead(path.into()),
        io::ErrorKind::PermissionDenied => ImportError::PermissionDenied(path.into()),
        io::ErrorKind::WouldBlock => ImportError::NoAnswer(path.into(), Duration::ZERO),
        _ => ImportError::System("the server can't be connected to", e),
    })?;
    failpoint!("import-connected");
    if socket.peer().is_ok_and(|peer| is_behind(peer.uid)) {
        let why = "files that its user has passed before are still being closed; try again later";
        return Err(ImportError::System("this server can't be imported from now", io::Error::other(why)));
    }
    Ok(socket)
}

/// Makes a binding from one that a client has passed on. `ticket` comes from [`ClientEnd::share`].
pub(crate) fn redeem(ticket: OwnedFd, descriptor: &Descriptor) -> Result<Bound, ImportError> {
    let system = |e| ImportError::System("the ticket can't be used", e);
    fork::check().map_err(system)?;
    let ticket = PassedSocket::adopt(ticket).map_err(system)?;
    let (socket, theirs) = Socket::pair().map_err(system)?;
    let path = Path::new("a binding that was passed on");
    let end = clock::deadline_ns(PATIENCE);
    introduce(socket, Some((ticket, theirs)), path, descriptor, &|| end, ImportMode::Joins).map_err(|e| {
        match e {
            ImportError::Dead(_) => ImportError::Lapsed,
            e => e,
        }
    })
}

/// Makes a binding: sends a hello and reads the answer.
///
/// Without a ticket the hello goes over `socket`. With a ticket it goes over the ticket, along with
/// the other end of `socket`.
pub(crate) fn introduce(
    socket: Socket,
    by: Option<(PassedSocket, OwnedFd)>,
    path: &Path,
    descriptor: &Descriptor,
    until: Until<'_>,
    mode: ImportMode,
) -> Result<Bound, ImportError> {
    let own = Capabilities::own();
    let server = match &by {
        None => socket.peer(),
        Some((ticket, _)) => ticket.end().peer(),
    };
    let server = server.map_err(unheard(path, "the kernel does not say who the server is"))?;
    // They don't end while this import may join one of them.
    let shown = if mode == ImportMode::Joins { ServerConnection::to(server) } else { Vec::new() };
    let secrets = shown.iter().map(|connection| connection.secret()).collect();
    let hello = Hello { hashes: descriptor.hashes(), capabilities: own, clock: Clock::own(), secrets };
    let socket = Connection::new(socket);
    let by_ticket = by.is_some();
    let said = say(&socket, by, &hello.to_bytes());
    said.map_err(unheard(path, "the hello can't be sent"))?;
    failpoint!("import-said");
    let received = hear(&socket, path, until).inspect_err(|_| give_up(&socket, &shown))?;
    if received.bytes.is_empty() {
        // The server hung up without an answer: it has ended, or it considered this client too
        // late.
        return Err(ImportError::Dead(path.into()));
    }
    let answer = HelloReply::from_bytes(&received.bytes);
    match answer.map_err(|e| ImportError::Refused(path.into(), e.to_string()))? {
        HelloReply::Welcome { capabilities, hash, state, secret, tag } => {
            let files = PassedFiles::new(received.files, &socket.unclosed());
            let version = agreed_version(path, descriptor, hash)?;
            let (end, key) = bound(socket, by_ticket, files, own, capabilities, version.astack)?;
            if capabilities.takes_prefixes() {
                end.server_takes_prefixes();
            }
            let connection = ServerConnection::new(end, key, secret, server);
            let bound = Bound::over(connection.clone(), tag, state);
            if mode == ImportMode::Joins {
                connection.offer();
            }
            Ok(bound)
        }
        HelloReply::Joined { place, hash, state, tag } => {
            failpoint!("import-joined");
            agreed_version(path, descriptor, hash)?;
            let why = || "it has named a connection that this client did not show".to_owned();
            let connection =
                shown.get(usize::from(place)).ok_or_else(|| ImportError::Refused(path.into(), why()))?;
            Ok(Bound::over(connection.clone(), tag, state))
        }
        refusal => Err(refused(refusal, path, descriptor)),
    }
}

/// Sends a hello: over `socket`, or over a ticket, along with the other end of `socket`. Then this
/// side's copy of that end is closed.
fn say(socket: &Arc<Connection>, by: Option<(PassedSocket, OwnedFd)>, hello: &[u8]) -> io::Result<()> {
    match &by {
        None => socket.send(hello, &[]),
        Some((ticket, theirs)) => {
            socket.counts_for(ticket.unclosed());
            ticket.end().send(hello, &[theirs.as_fd()])
        }
    }
}

/// Nobody waits for the answer to a hello that has shown these connections. If the server has given
/// a row of one of them meanwhile, the row is released.
///
/// After the hang-up the server can send nothing, so it notices that the row reaches nobody. What
/// it has sent before is in the queue.
fn give_up(socket: &Connection, shown: &[Arc<ServerConnection>]) {
    socket.hang_up();
    let mut buffer = [0; 256];
    if let Ok(message) = socket.look()
        && !message.with_files
        && let Ok(received) = socket.receive_plain(&mut buffer)
        && let Ok(HelloReply::Joined { place, tag, .. }) = HelloReply::from_bytes(&buffer[..received.len])
        && let Some(connection) = shown.get(usize::from(place))
    {
        connection.end().release(tag);
    }
}

/// The error for an answer that brings no binding.
fn refused(answer: HelloReply, path: &Path, descriptor: &Descriptor) -> ImportError {
    match answer {
        HelloReply::OtherVersion { version } => ImportError::Version(format!(
            "{} speaks version {version} of the channel, this domain speaks {}",
            path.display(),
            underpass_channel::layout::VERSION
        )),
        HelloReply::OtherInterface { hash, text } => ImportError::Mismatch {
            path: path.into(),
            ours: descriptor.hash,
            theirs: hash,
            differences: descriptor.differences(&text),
        },
        HelloReply::Denied { why } => ImportError::NotAuthorized(path.into(), why),
        HelloReply::Limit { why } => ImportError::Limit(path.into(), why),
        HelloReply::Failed { why } => ImportError::Refused(path.into(), why),
        HelloReply::Welcome { .. } | HelloReply::Joined { .. } => {
            ImportError::Refused(path.into(), "it has answered twice".to_owned())
        }
    }
}

/// Waits for the server's answer, and receives it.
fn hear(socket: &Connection, path: &Path, until: Until<'_>) -> Result<ReceivedMessage, ImportError> {
    let (patience, waits_until) = (left_until(until()).min(PATIENCE), clock::deadline_ns(PATIENCE));
    let until = || until().min(waits_until);
    if !answered(socket, &until).map_err(unheard(path, "the server's answer can't be awaited"))? {
        return Err(match calls_end() {
            true => ImportError::Cancelled,
            false => ImportError::NoAnswer(path.into(), patience),
        });
    }
    receive_answer(socket, &until).map_err(|e| match e.kind() {
        io::ErrorKind::TimedOut if calls_end() => ImportError::Cancelled,
        io::ErrorKind::TimedOut => ImportError::NoAnswer(path.into(), patience),
        _ => unheard(path, "the server's answer can't be received")(e),
    })
}

/// The error for a failure to send or receive. A server that ended during the handshake is reported
/// like one that had ended before.
fn unheard(path: &Path, what: &'static str) -> impl Fn(io::Error) -> ImportError {
    move |e| match e.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ImportError::Dead(path.into()),
        _ => ImportError::System(what, e),
    }
}

/// The version of the interface that the server has chosen.
fn agreed_version(path: &Path, descriptor: &Descriptor, hash: u64) -> Result<InterfaceVersion, ImportError> {
    descriptor.version(hash).ok_or_else(|| {
        ImportError::Refused(path.into(), "it names a version that this client does not know".into())
    })
}

/// The client's end of a new binding, and its key at the clerk. `files` are the region and, if the
/// binding was made by a ticket, the socket that the server reads. Its A-stacks have `astack`
/// bytes.
fn bound(
    socket: Arc<Connection>,
    by_ticket: bool,
    mut files: PassedFiles,
    own: Capabilities,
    theirs: Capabilities,
    astack: usize,
) -> Result<(Arc<ClientEnd>, u64), ImportError> {
    let system = |what| move |e| ImportError::System(what, e);
    // The kernel drops files if this process can open no more.
    let missing =
        || ImportError::System("the server's memory did not arrive", io::Error::from_raw_os_error(24));
    let file = files.take_memory().ok_or_else(missing)?;
    let link = match by_ticket {
        false => BindingLink::new(socket),
        true => BindingLink::of_two(socket, files.take_socket().ok_or_else(missing)?, None),
    };
    let channel = Channel::adopt(file.as_fd(), own.fence(theirs), stack_of_connection(astack))
        .map_err(system("the server's memory can't be used"))?;
    failpoint!("import-mapped");
    let control = ControlSocket::new(link, None);
    let end = ClientEnd::new(channel, ChannelMailbox::of_client(control), own.placement(theirs));
    let key = clerk().and_then(|clerk| clerk.bound(&end)).map_err(system("the binding can't be watched"))?;
    Ok((end, key))
}

/// Receives the server's answer, which has arrived. If it brings files, the file thread of the
/// server's user receives it, and this waits while the binding is wanted.
fn receive_answer(socket: &Connection, until: Until<'_>) -> io::Result<ReceivedMessage> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidData, "the peer sent a message that is too long");
    let message = match socket.look()?.with_files {
        true => {
            let (tell, told) = mpmc::unbounded();
            let then = move |message| drop(tell.send(message));
            file_thread::receive(socket.unclosed().user(), socket, LONGEST, then)?;
            hear_while_wanted(&told, until).ok_or(io::ErrorKind::TimedOut)??
        }
        false => {
            let mut buffer = vec![0; LONGEST];
            let received = socket.receive_plain(&mut buffer)?;
            buffer.truncate(received.len);
            ReceivedMessage { bytes: buffer, cut: received.cut, ..ReceivedMessage::default() }
        }
    };
    if message.cut { Err(too_long()) } else { Ok(message) }
}

/// The value that is sent to `told`. `None` if it comes too late, or the calls of this thread are
/// to end.
fn hear_while_wanted<T: Send>(told: &mpmc::Receiver<T>, until: Until<'_>) -> Option<T> {
    loop {
        let left = left_until(until());
        let hears = || told.recv_timeout(left.min(GLANCE));
        // A cancelled thread does not wait, but this value is wanted nevertheless.
        match if cancelled() { blocking(hears) } else { hears() } {
            Ok(told) => return Some(told),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Cancelled) => {}
        }
        if left.is_zero() || calls_end() {
            return None;
        }
    }
}

/// Waits for the server's answer. Returns `false` if none comes, or the calls of this thread are to
/// end. A user-level thread blocks no other thread.
fn answered(socket: &Socket, until: Until<'_>) -> io::Result<bool> {
    loop {
        let left = left_until(until());
        let looks_for = if on_user_thread() { Duration::ZERO } else { left.min(GLANCE) };
        let came = socket.wait(clock::deadline_ns(looks_for))?;
        if came || left.is_zero() || calls_end() {
            return Ok(came);
        }
        match on_user_thread() {
            // A sleep would return at once because this thread is cancelled, but the answer is
            // wanted nevertheless.
            true if cancelled() => blocking(|| std::thread::sleep(left.min(GLANCE))),
            true => sleep(left.min(STEP / 10)),
            false => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc;

    #[test]
    fn an_importer_waits_for_a_file_thread_only_while_its_binding_is_wanted() {
        let (tell, told) = mpmc::unbounded::<u32>();
        let (ends, ended) = mpsc::channel();
        std::thread::spawn(move || {
            // The answer is wanted forever at first, and from the third question on no more.
            let asked = Cell::new(0);
            let until = || {
                asked.set(asked.get() + 1);
                if asked.get() < 3 { u64::MAX } else { 0 }
            };
            let heard = hear_while_wanted(&told, &until);
            ends.send((heard, asked.get(), told)).unwrap();
        });
        let watchdog = Duration::from_secs(60);
        let (heard, asked, told) = ended.recv_timeout(watchdog).expect("it asks again");
        assert_eq!((heard, asked), (None, 3));
        tell.send(7).unwrap();
        assert_eq!(hear_while_wanted(&told, &|| 0), Some(7), "it is there");
        drop(tell);
        assert_eq!(hear_while_wanted(&told, &|| u64::MAX), None, "nobody tells it any more");
    }
}
