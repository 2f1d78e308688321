//! The socket of a connection after it is made, and what came over it for each channel.
//!
//! Any thread that needs a message reads the socket; mostly the clerk does. The reader takes the
//! messages that bring no files, and hands them to the channels' ends. A message that brings files
//! stays in the socket, for the file thread of the peer's user. Until that thread has received it,
//! no thread reads further. So all messages are taken in their order.
//!
//! *Who may read:* the holder of the lock, while `receiving` is false. *Who is notified:* the
//! clerk, when the file thread has received the message. The clerk then takes what came behind the
//! message, and wakes the waiting threads.

use crate::binding::interface_exchange::InterfaceExchange;
use crate::binding::limits::ChannelQuota;
use crate::control::clerk::clerk;
use crate::control::connection::BindingLink;
use crate::control::messages::{CONTROL, ControlMessage, REVERSE};
use crate::control::peer_death::PeerDeathWatch;
use crate::control::socket_events::{HandleEvents, NoTicket, SocketEvents};
use crate::control::timer;
use crate::payload::file_thread::{self, ReceivedMessage};
use crate::payload::held_out_of_band::HeldOutOfBand;
use crate::payload::out_of_band::{Came, PendingOutOfBand};
use crate::payload::passed_file::{PassedFiles, Unclosed};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use underpass_channel::Tag;
use underpass_channel::layout::{CHANNELS, FILES_WAITING};
use underpass_os::{Other, clock, failpoint};
use underpass_sync::Condvar;
use underpass_threads::critical;

/// The most messages taken from a socket in one turn. A peer that sends more has to wait for the
/// next turn.
const TURN: usize = 256;
/// How long a call waits for its files, and how long the death of a peer waits for the files that
/// the peer has passed before.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// When to try again, if there was no room for a file thread.
const AGAIN: Duration = Duration::from_millis(20);
/// `EMFILE`.
const TOO_MANY_FILES: i32 = 24;
/// The channels, with the reverse channel.
const PLACES: usize = CHANNELS + 1;
/// No key of the clerk's.
const UNWATCHED: u64 = 0;

/// The socket of one binding.
pub(crate) struct ControlSocket {
    link: Arc<BindingLink>,
    unclosed: Arc<Unclosed>,
    peer_death: Arc<PeerDeathWatch>,
    state: Mutex<State>,
    /// How many messages file threads have received.
    received: AtomicU64,
    /// Counts the turns of file threads, including turns that received nothing. Threads that wait
    /// for the next turn wait on `next_turn`.
    turns: underpass_sync::Mutex<u64>,
    next_turn: Condvar,
    /// The clerk's key.
    key: AtomicU64,
    interfaces: InterfaceExchange,
    own: Weak<Self>,
}

#[derive(Default)]
struct State {
    channels: [Option<Channel>; PLACES],
    /// A file thread receives the next message: no other thread reads.
    receiving: bool,
    /// The clerk polls only for the peer's hang-up meanwhile.
    quiet: bool,
}

/// The end that is told what comes for a channel, and what has come and waits there.
struct Channel {
    heard_by: Weak<dyn HandleEvents>,
    waiting: PendingOutOfBand,
    /// The out-of-band parts of replies that wait for room in the socket.
    held: Vec<HeldOutOfBand>,
}

/// The events that a turn of reading has brought, by channel.
type Heard = Vec<(Weak<dyn HandleEvents>, SocketEvents)>;

impl ControlSocket {
    /// The socket of a new binding. A server passes the `quota` of its client.
    pub(crate) fn new(link: Arc<BindingLink>, quota: Option<&ChannelQuota>) -> Arc<Self> {
        let unclosed = quota.map_or_else(|| link.reading().unclosed(), ChannelQuota::unclosed);
        link.reading().counts_for(&unclosed);
        Arc::new_cyclic(|own: &Weak<Self>| Self {
            link,
            unclosed,
            peer_death: PeerDeathWatch::new(own.clone()),
            state: Mutex::default(),
            received: AtomicU64::new(0),
            turns: underpass_sync::Mutex::new(0),
            next_turn: Condvar::new(),
            key: AtomicU64::new(UNWATCHED),
            interfaces: InterfaceExchange::default(),
            own: own.clone(),
        })
    }

    /// Does something with the state. The caller is critical meanwhile, so that it keeps its
    /// processor, because the clerk waits for this lock.
    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let _held = critical();
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on `end` is told what comes for `channel`.
    pub(crate) fn heard_by(&self, channel: u8, end: Weak<dyn HandleEvents>) {
        let channel = usize::from(channel);
        self.with(|state| {
            let waiting = PendingOutOfBand::default();
            state.channels[channel] = Some(Channel { heard_by: end, waiting, held: Vec::new() });
        });
    }

    /// The clerk watches the socket under this key.
    pub(crate) fn watched_as(&self, key: u64) {
        // Relaxed: the clerk alone reads it.
        self.key.store(key, Ordering::Relaxed);
    }

    pub(crate) fn send(
        &self,
        message: ControlMessage,
        channel: u8,
        files: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.link.send(&message.to_bytes(channel), files)
    }

    /// What passes over the connection as values.
    pub(crate) fn interfaces(&self) -> &InterfaceExchange {
        &self.interfaces
    }

    /// Both directions of the connection.
    pub(crate) fn link(&self) -> &Arc<BindingLink> {
        &self.link
    }

    /// Asks the server for the reverse channel, over which requests may have prefixes.
    pub(crate) fn ask_reverse(&self, prefixes: bool) -> io::Result<()> {
        self.send(ControlMessage::AskReverse { prefixes }, 0, &[])
    }

    /// Passes the region of the reverse channel to the client, or says that there is none.
    pub(crate) fn open_reverse(&self, region: Option<OwnedFd>, ahead: i64) -> io::Result<()> {
        let files: Vec<_> = region.iter().map(OwnedFd::as_fd).collect();
        self.send(ControlMessage::ReverseOpened { ahead }, 0, &files)
    }

    /// Tells the peer that a row of this domain has come home.
    pub(crate) fn came_home(&self, tag: Tag) {
        // If the socket is full, the peer holds the row until the connection ends.
        let _ = self.send(ControlMessage::Home { tag }, 0, &[]);
    }

    /// Ends the connection: both sides see that the other is gone.
    pub(crate) fn hang_up(&self) {
        self.peer_death.leave();
        self.hang_up_alone();
    }

    /// The same, but leaves the watch on the peer's process alone.
    pub(crate) fn hang_up_alone(&self) {
        self.link.hang_up();
    }

    /// What the kernel knows of the peer's process.
    pub(crate) fn peer_process(&self) -> io::Result<Other> {
        self.link.other()
    }

    /// Takes what has come and needs no file thread, and tells the ends.
    pub(crate) fn read(&self) {
        let heard = self.with(|state| if state.receiving { Heard::new() } else { self.sort(state) });
        tell(heard);
    }

    /// The same as [`read`](Self::read), for the clerk, after the poller has reported the socket.
    pub(crate) fn attend(&self) {
        self.read();
        let (receiving, quiet) =
            self.with(|state| (state.receiving, std::mem::replace(&mut state.quiet, state.receiving)));
        match (receiving, quiet) {
            (false, _) => {}
            (true, false) => {
                if let Ok(clerk) = clerk() {
                    clerk.quieten(&**self.link.reading(), self.key.load(Ordering::Relaxed));
                }
            }
            // The peer has hung up.
            (true, true) => self.end_without_file_thread(),
        }
    }

    /// The peer has hung up while a file thread receives. If the file thread got lost, this ends
    /// the binding without it.
    #[cold]
    fn end_without_file_thread(&self) {
        // Relaxed, here and below: only the clerk's thread changes and reads this count.
        let (own, seen) = (self.own.clone(), self.received.load(Ordering::Relaxed));
        timer::set(clock::deadline_ns(PATIENCE), move || {
            let is_held_up = |own: &Arc<Self>| own.received.load(Ordering::Relaxed) == seen;
            let Some(own) = own.upgrade().filter(is_held_up) else { return };
            tell(own.with(|state| match state.receiving {
                true => first(state, SocketEvents { gone: true, unsure: true, ..SocketEvents::default() }),
                false => Heard::new(),
            }));
            // The poller reported the hang-up once, and the clerk did not end the binding then.
            own.is_heard_again();
        });
    }

    /// The clerk polls the socket for everything again.
    fn is_heard_again(&self) {
        let key = self.key.load(Ordering::Relaxed);
        if let Ok(clerk) = clerk()
            && key != UNWATCHED
        {
            clerk.listen_again(&**self.link.reading(), key);
        }
    }

    fn sort(&self, state: &mut State) -> Heard {
        let mut events: [SocketEvents; PLACES] = Default::default();
        self.sort_into(state, &mut events);
        by_channel(state, events)
    }

    fn sort_into(&self, state: &mut State, events: &mut [SocketEvents; PLACES]) {
        for _ in 0..TURN {
            match self.next(state) {
                Ok(Some(message)) => {
                    if !self.take_in(state, message, events) {
                        break;
                    }
                }
                Ok(None) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let unsure = e.kind() != io::ErrorKind::ConnectionReset;
                    (events[0].gone, events[0].unsure) = (true, unsure);
                    break;
                }
            }
        }
    }

    /// The next message, if it brings no files. If it does, a file thread must receive it.
    fn next(&self, state: &mut State) -> io::Result<Option<ReceivedMessage>> {
        let look = match self.link.reading().look() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            look => look?,
        };
        if look.with_files {
            state.receiving = true;
            if self.begin_to_receive().is_err() {
                self.try_again();
            }
            return Ok(None);
        }
        let mut buffer = [0u8; CONTROL];
        let received = self.link.reading().receive_plain(&mut buffer)?;
        let bytes = buffer[..received.len].to_vec();
        Ok(Some(ReceivedMessage { bytes, cut: received.cut, ..ReceivedMessage::default() }))
    }

    /// Makes the user's file thread receive the next message.
    fn begin_to_receive(&self) -> io::Result<()> {
        if self.unclosed.is_full() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let room = self.unclosed.room_for_message()?;
        let own = self.own.clone();
        let then = move |message| {
            if let Some(own) = own.upgrade() {
                own.was_received(message);
            }
            // By now each file that came is charged by itself.
            drop(room);
        };
        file_thread::receive(self.unclosed.user(), &**self.link.reading(), CONTROL, then)
    }

    /// There is no file thread, for want of a file, a kernel thread or quota for what it would
    /// receive. Tries again soon. Until then the message stays in the socket.
    #[cold]
    fn try_again(&self) {
        let own = self.own.clone();
        timer::set(clock::deadline_ns(AGAIN), move || {
            if let Some(own) = own.upgrade() {
                own.reads_again(Ok(None));
            }
        });
    }

    /// A file thread has received a message, or found none. Runs on the clerk's thread.
    fn was_received(&self, message: io::Result<ReceivedMessage>) {
        match message {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.reads_again(Ok(None)),
            // The file thread has as many files as it may, so the message is still in the socket.
            Err(e) if e.raw_os_error() == Some(TOO_MANY_FILES) => self.try_again(),
            message => {
                self.received.fetch_add(1, Ordering::Relaxed);
                self.reads_again(message.map(Some));
            }
        }
    }

    /// No file thread receives any more. Takes in what the file thread has received, and what came
    /// behind it, before any other thread reads.
    fn reads_again(&self, received: io::Result<Option<ReceivedMessage>>) {
        tell(self.with(|state| {
            (state.receiving, state.quiet) = (false, false);
            let mut events: [SocketEvents; PLACES] = Default::default();
            let goes_on = match received {
                Ok(Some(message)) => self.take_in(state, message, &mut events),
                Ok(None) => true,
                Err(_) => {
                    (events[0].gone, events[0].unsure) = (true, true);
                    false
                }
            };
            if goes_on {
                self.sort_into(state, &mut events);
            }
            by_channel(state, events)
        }));
        *self.turns.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.next_turn.notify_all();
        self.is_heard_again();
    }

    fn count_turns(&self) -> u64 {
        *self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sorts a message into `events`. Returns `false` if the reader must take no further message.
    fn take_in(
        &self,
        state: &mut State,
        message: ReceivedMessage,
        events: &mut [SocketEvents; PLACES],
    ) -> bool {
        let (lost, files) = (message.lost_files, PassedFiles::new(message.files, &self.unclosed));
        if message.bytes.is_empty() {
            events[0].gone = true;
            return false;
        }
        let read = ControlMessage::read(&message.bytes).filter(|_| !message.cut);
        let Some((number, control)) = read else {
            events[0].nonsense = true;
            return false;
        };
        let channel = state.channels[usize::from(number)].as_mut();
        if let (ControlMessage::Opened, None) = (control, &channel) {
            // An honest server answers one request at a time.
            events[0].nonsense |= events[0].opened.is_some();
            events[0].opened = Some((number, if self.admits(&files) { files } else { files.none() }));
            return !events[0].nonsense;
        }
        if let (ControlMessage::ReverseOpened { ahead }, 0) = (control, number) {
            events[0].nonsense |= events[0].reverse_opened.is_some();
            let files = if self.admits(&files) { files } else { files.none() };
            events[0].reverse_opened = Some((files, ahead));
            return !events[0].nonsense;
        }
        let (first, events) = (matches!(number, 0 | REVERSE), &mut events[usize::from(number)]);
        let sound = match (control, channel) {
            (ControlMessage::OutOfBand { slot, files: announced, location, length }, Some(channel)) => {
                failpoint!("file-received");
                let came = Came::of(files, lost, announced, location, length).map(|came| self.let_in(came));
                events.out_of_band |= 1u64.checked_shl(slot.into()).unwrap_or(0);
                came.is_some_and(|came| channel.waiting.put(slot, came, self.most()))
            }
            (ControlMessage::OverflowBuffer { slot, number }, Some(channel)) => {
                channel.waiting.offer(slot, number, files, lost, self.most())
            }
            (ControlMessage::Ticket, Some(_)) if first => {
                // The kernel drops a file if this process can open no more.
                let came = files.len() > 0 && self.admits(&files);
                events.tickets.push(if came { Ok(files) } else { Err(NoTicket::NoRoom) });
                true
            }
            // No honest peer sends files with messages that take none.
            (control, Some(_)) => files.len() == 0 && is_told(control, first, files, events),
            (_, None) => false,
        };
        events.nonsense |= !sound;
        sound
    }

    /// How many files may wait. Files that are still to be closed count as waiting.
    fn most(&self) -> usize {
        FILES_WAITING.saturating_sub(self.unclosed.files())
    }

    /// Whether these files may stay. If they can hide the peer's death, they may once its process
    /// is watched.
    fn admits(&self, files: &PassedFiles) -> bool {
        !files.may_keep_others() || self.peer_death.begin()
    }

    /// What has come; a note that the files were refused if they may not stay.
    fn let_in(&self, came: Came) -> Came {
        match came {
            Came::OutOfBand(out_of_band) if !self.admits(&out_of_band.files) => Came::NoFile,
            came => came,
        }
    }

    /// What waits for `channel`.
    pub(crate) fn waiting<R>(&self, channel: u8, act: impl FnOnce(&mut PendingOutOfBand) -> R) -> Option<R> {
        self.with(|state| {
            state.channels[usize::from(channel)].as_mut().map(|channel| act(&mut channel.waiting))
        })
    }

    /// What is held for `channel` until the socket has room.
    pub(crate) fn held<R>(&self, channel: u8, act: impl FnOnce(&mut Vec<HeldOutOfBand>) -> R) -> Option<R> {
        self.with(|state| state.channels[usize::from(channel)].as_mut().map(|channel| act(&mut channel.held)))
    }

    /// The account to which the peer's files are charged.
    pub(crate) fn unclosed(&self) -> &Arc<Unclosed> {
        &self.unclosed
    }

    /// Takes the out-of-band message for `slot` of `channel`, after the slot's message has come.
    /// `None` if there is none, which no honest peer causes. The calling thread waits while a file
    /// thread receives it.
    pub(crate) fn take(&self, channel: u8, slot: u16) -> Option<Came> {
        let until = Instant::now() + PATIENCE;
        loop {
            let seen = self.count_turns();
            if let Some(came) = self.waiting(channel, |waiting| waiting.take(slot)).flatten() {
                return Some(came);
            }
            // Under one lock. Otherwise a file thread could receive a message in between, and the
            // wanted one could lie behind it.
            let (heard, came, receiving) = self.with(|state| {
                let heard = if state.receiving { Heard::new() } else { self.sort(state) };
                let channel = state.channels[usize::from(channel)].as_mut();
                (heard, channel.and_then(|channel| channel.waiting.take(slot)), state.receiving)
            });
            tell(heard);
            if came.is_some() || !receiving {
                return came;
            }
            if !self.waits_for_turn(seen, until) {
                // What comes after this is dropped.
                return Some(
                    self.waiting(channel, |waiting| waiting.discard(slot, true))?.unwrap_or(Came::Late),
                );
            }
        }
    }

    /// Waits for the turn of a file thread that follows `seen`. Returns `false` if that takes too
    /// long, or the thread is cancelled.
    fn waits_for_turn(&self, seen: u64, until: Instant) -> bool {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        while *turns == seen {
            match self.next_turn.wait_until(turns, until) {
                Ok((_, waited)) if waited.timed_out() => return false,
                Ok((again, _)) => turns = again,
                Err(_) => return false,
            }
        }
        true
    }

    /// The message for `slot` of `channel` has come, and nobody waits for its out-of-band part.
    pub(crate) fn discard(&self, channel: u8, slot: u16) {
        let (heard, dropped) = self.with(|state| {
            let heard = if state.receiving { Heard::new() } else { self.sort(state) };
            let more = state.receiving;
            let channel = state.channels[usize::from(channel)].as_mut();
            (heard, channel.and_then(|channel| channel.waiting.discard(slot, more)))
        });
        drop(dropped);
        tell(heard);
    }

    /// Waits until no file thread receives for this binding.
    #[cfg(fuzzing)]
    pub(crate) fn settle(&self) {
        while self.with(|state| state.receiving) {
            std::thread::yield_now();
        }
    }

    /// Closes everything that has come and waits for its slot's message.
    pub(crate) fn forget_all(&self, channel: u8) {
        self.peer_death.leave();
        drop(self.waiting(channel, std::mem::take));
        drop(self.held(channel, std::mem::take));
    }
}

/// Adds a message without files to the events of its channel. `first` says whether that is the
/// first channel. Returns `false` if no honest peer sends the message there.
fn is_told(control: ControlMessage, first: bool, none: PassedFiles, events: &mut SocketEvents) -> bool {
    match control {
        ControlMessage::Bell => events.bell = true,
        ControlMessage::Unwanted { slots } => events.unwanted |= slots,
        ControlMessage::UnwantedLate { number } => events.unwanted_late.push(number),
        ControlMessage::Closing if first => events.closing = true,
        ControlMessage::RowClosed { tag, revoked } if first => events.rows_closed.push((tag, revoked)),
        ControlMessage::Release { tag } if first => events.released.push(tag),
        ControlMessage::Ask if first => events.asked += 1,
        ControlMessage::AskReverse { prefixes } if first => events.reverse_asked.push(prefixes),
        ControlMessage::Home { tag } if first => events.home.push(tag),
        ControlMessage::Share { tag } if first => events.shares.push(tag),
        ControlMessage::NoTicket { may } if first => {
            events.tickets.push(Err(if may { NoTicket::NoRoom } else { NoTicket::NotAllowed }));
        }
        ControlMessage::Refused if first && events.opened.is_none() => events.opened = Some((0, none)),
        _ => return false,
    }
    true
}

/// The ends to tell, each with its events. The first channel comes last, because its events may end
/// the binding.
fn by_channel(state: &State, events: [SocketEvents; PLACES]) -> Heard {
    let heard_by = |number: usize| {
        let channel = state.channels[number].as_ref().or(state.channels[0].as_ref())?;
        Some(channel.heard_by.clone())
    };
    let heard = events.into_iter().enumerate().filter(|(_, events)| !events.is_none());
    let mut heard: Heard = heard.filter_map(|(number, events)| Some((heard_by(number)?, events))).collect();
    heard.reverse();
    heard
}

/// The same, of events for the first channel alone.
fn first(state: &State, events: SocketEvents) -> Heard {
    let channel = state.channels[0].iter();
    channel.map(|channel| channel.heard_by.clone()).zip([events]).collect()
}

fn tell(heard: Heard) {
    for (end, events) in heard {
        if let Some(end) = end.upgrade() {
            end.handle(events);
        }
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.reading().as_fd()
    }
}

impl std::fmt::Debug for ControlSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlSocket").field("link", &self.link).finish_non_exhaustive()
    }
}
