//! A connection as its server has it: its channels, which are served and closed together, and its
//! rows, each of which is a binding.

use crate::binding::clock_offset::ClockOffset;
use crate::binding::handshake::Capabilities;
use crate::binding::limits::Limits;
use crate::binding::passing::EndedValues;
use crate::binding::peer::Peer;
use crate::binding::row::{BindingRow, ServedRow};
use crate::control::clerk::clerk;
use crate::control::connection::BindingLink;
use crate::control::timer;
use crate::dispatch::rows_in_use;
use crate::dispatch::server::ServerEnd;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use underpass_channel::layout::CHANNELS;
use underpass_channel::{Rows, Tag};
use underpass_os::{clock, failpoint};
use underpass_threads::critical;

/// How long to wait before a client is told again whose socket was full.
const AGAIN: Duration = Duration::from_millis(100);

/// The server's ends of one connection, and its rows.
pub(crate) struct Family {
    /// A number that only the two sides know. A client that shows it gets further rows.
    secret: u128,
    link: Weak<BindingLink>,
    client: Client,
    rows: Arc<Rows<ServedRow>>,
    /// The bytes of stack that each of its calls has at least. A dispatcher with a smaller stack
    /// may serve an older connection until it next looks for new lines.
    stack: usize,
    members: Mutex<Members>,
    /// Whether it has the rows of the other direction: those that the connection's client has given
    /// to its server. They end with the connection, and not the connection with them.
    reverse: bool,
    /// What was behind rows that were removed, and is to be dropped.
    pub(super) ended: Mutex<EndedValues>,
    own: Weak<Self>,
}

/// The client of a connection, as it was when the connection was made.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) peer: Peer,
    /// The capabilities of this domain and of the client's.
    pub(crate) capabilities: (Capabilities, Capabilities),
    /// Turns times of the client's clock into times of this domain's clock.
    pub(crate) clock_offset: ClockOffset,
}

#[derive(Default)]
struct Members {
    ends: Vec<Weak<ServerEnd>>,
    /// The clerk's keys of the channels beside the first.
    keys: Vec<u64>,
    /// Channels beside the first that the client asked for, whether they were made or not.
    asked: usize,
    closed: bool,
    /// The rows that are open, and those that are closed and not removed yet.
    rows: HashMap<Tag, Arc<BindingRow>>,
    open: usize,
    /// Closed rows that a call may use.
    closing: HashSet<Tag>,
    /// Closed rows of which the client has still to be told, and whether they were revoked.
    untold: Vec<(Tag, bool)>,
}

impl Client {
    /// A client that is as this domain is.
    #[cfg(any(test, fuzzing, feature = "ends"))]
    pub(crate) fn of(peer: Peer) -> Self {
        let own = Capabilities::own();
        Self { peer, capabilities: (own, own), clock_offset: ClockOffset::default() }
    }
}

/// What a client hears of the end of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowNews {
    /// Nothing: it has closed the row itself, or never had it.
    None,
    /// That the row is closed.
    Closed,
    /// That the row is revoked.
    Revoked,
}

impl Family {
    /// A connection without channels and rows.
    pub(crate) fn new(secret: u128, link: Weak<BindingLink>, client: Client) -> Arc<Self> {
        Self::make(secret, link, client, false)
    }

    /// The rows that the client of a connection gives to its server. The server is their `client`.
    pub(crate) fn reverse(link: Weak<BindingLink>, client: Client) -> Arc<Self> {
        Self::make(0, link, client, true)
    }

    fn make(secret: u128, link: Weak<BindingLink>, client: Client, reverse: bool) -> Arc<Self> {
        Arc::new_cyclic(|own: &Weak<Self>| Self {
            secret,
            link,
            client,
            rows: Arc::default(),
            // Before a channel of it is made known.
            stack: underpass_threads::e_stack_size(),
            members: Mutex::default(),
            reverse,
            ended: Mutex::default(),
            own: own.clone(),
        })
    }

    pub(crate) fn secret(&self) -> u128 {
        self.secret
    }

    /// The connection's socket, while it exists.
    pub(crate) fn link(&self) -> Option<Arc<BindingLink>> {
        self.link.upgrade()
    }

    /// The limits of the account to which the connection is charged, while it has a channel.
    pub(crate) fn limits(&self) -> Option<Limits> {
        self.ends().first().map(|end| *end.quota().account().limits())
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn rows(&self) -> &Arc<Rows<ServedRow>> {
        &self.rows
    }

    /// The bytes of stack that each call over the connection has at least.
    pub(crate) fn stack(&self) -> usize {
        self.stack
    }

    /// The offset that turns times of the client's clock into times of this domain's clock.
    pub(crate) fn clock_offset(&self) -> ClockOffset {
        self.client.clock_offset
    }

    /// The holder of this lock keeps its processor, and is critical.
    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, act: impl FnOnce(&mut Members) -> R) -> R {
        let _held = critical();
        act(&mut self.members())
    }

    /// The number of the further channel that the client asks for. `None` if the client has asked
    /// for more channels than an honest client does; requests that failed count too.
    pub(crate) fn next_channel_number(&self) -> Option<u8> {
        self.with(|members| {
            members.asked += 1;
            u8::try_from(members.asked).ok().filter(|&number| usize::from(number) < CHANNELS)
        })
    }

    /// Adds an end. Returns `false` if the connection is closed.
    pub(crate) fn join(&self, end: &Arc<ServerEnd>) -> bool {
        self.with(|members| {
            if !members.closed {
                members.ends.push(Arc::downgrade(end));
            }
            !members.closed
        })
    }

    /// The clerk has this key for one of the further channels.
    pub(crate) fn add_key(&self, key: u64) {
        self.with(|members| members.keys.push(key));
    }

    /// Takes the clerk's keys of the further channels, which the clerk then ends.
    pub(crate) fn take_keys(&self) -> Vec<u64> {
        self.with(|members| std::mem::take(&mut members.keys))
    }

    /// A hold on it.
    pub(super) fn itself(&self) -> Option<Arc<Self>> {
        self.own.upgrade()
    }

    /// Whether it has the rows of the other direction.
    pub(crate) fn is_reverse(&self) -> bool {
        self.reverse
    }

    /// Opens a row for `row`. Returns `false` if the connection is closed, or has no room.
    pub(crate) fn add_row(&self, served: ServedRow) -> bool {
        self.add_row_of(served, None)
    }

    /// The same for an interface that a call over the row `parent` gives. If that row is closed,
    /// nothing is given over it any more.
    pub(super) fn add_row_of(&self, served: ServedRow, parent: Option<Tag>) -> bool {
        self.with(|members| {
            let is_open = |tag: Tag| members.rows.contains_key(&tag) && !members.closing.contains(&tag);
            if members.closed || !parent.is_none_or(is_open) {
                return false;
            }
            let row = served.binding.clone();
            // Calls can name the row only once the client knows its tag.
            let Ok(tag) = self.rows.open(served) else { return false };
            row.is_at(tag);
            members.open += 1;
            members.rows.insert(tag, row);
            true
        })
    }

    /// The binding of an open row, or of a closed one that a call uses.
    pub(crate) fn row(&self, tag: Tag) -> Option<Arc<BindingRow>> {
        self.with(|members| members.rows.get(&tag).cloned())
    }

    /// One of the open rows.
    pub(super) fn any_row(&self) -> Option<Arc<BindingRow>> {
        self.with(|members| {
            let mut rows = members.rows.iter();
            rows.find(|(tag, _)| !members.closing.contains(tag)).map(|(_, row)| row.clone())
        })
    }

    /// The open bindings of these exports.
    pub(crate) fn rows_of(&self, exports: &[u64]) -> Vec<Arc<BindingRow>> {
        self.with(|members| {
            let open = members.rows.iter().filter(|(tag, _)| !members.closing.contains(tag));
            let of = open.filter(|(_, row)| exports.contains(&row.export()));
            of.map(|(_, row)| row.clone()).collect()
        })
    }

    /// Closes one row, and tells the client what `news` says. The last open row ends the
    /// connection. Returns `false` if the row is closed already, or never was.
    pub(crate) fn close_row(&self, tag: Tag, news: RowNews) -> bool {
        // M1: under this lock, so that `sweep` knows of every closed row.
        let closed = self.with(|members| {
            self.rows.close(tag, news == RowNews::Revoked).then(|| {
                members.open -= 1;
                members.closing.insert(tag);
                (members.rows.get(&tag).cloned(), members.open == 0)
            })
        });
        let Some((row, last)) = closed else { return false };
        row.inspect(|row| self.was_closed(row));
        self.ends().iter().for_each(|end| end.tells_of_closed_row(tag));
        // M2: from here on no call that the client finds untaken will ever begin.
        self.sweep();
        failpoint!("greet-row-closed");
        if news != RowNews::None {
            self.tell(tag, news == RowNews::Revoked);
        }
        if last && !self.reverse {
            self.close();
        }
        true
    }

    /// Ends what belongs to an open row.
    fn was_closed(&self, row: &Arc<BindingRow>) {
        if let (Some(_), Ok(clerk)) = (row.binding().expires, clerk()) {
            clerk.forget_expiry(row);
        }
        if row.is_value() {
            // It was not charged as a binding.
            row.was_closed();
            return;
        }
        let charge = row.was_closed();
        if charge.is_some() {
            return;
        }
        // The charge of the first channel stood for this row. From now on it stands for another.
        let ends = self.ends();
        if let Some(first) = ends.iter().find(|end| !end.is_further()) {
            let other =
                self.with(|members| members.rows.values().find_map(|row| row.take_charge_to(first.quota())));
            drop(other);
        }
    }

    /// Tells the client that a row is closed. If its socket is full, tells it later.
    fn tell(&self, tag: Tag, revoked: bool) {
        let ends = self.ends();
        let Some(first) = ends.iter().find(|end| !end.is_further()) else { return };
        if first.mailbox().close_row(tag, revoked) {
            return;
        }
        let first_untold = self.with(|members| {
            members.untold.push((tag, revoked));
            members.untold.len() == 1
        });
        if first_untold {
            let own = self.own.clone();
            timer::set(clock::deadline_ns(AGAIN), move || {
                let Some(own) = own.upgrade() else { return };
                let untold = own.with(|members| std::mem::take(&mut members.untold));
                untold.into_iter().for_each(|(tag, revoked)| own.tell(tag, revoked));
            });
        }
    }

    /// *Remove, M2 and M3:* removes the closed rows that no call uses. A call that uses one of the
    /// others calls this when it ends (E2).
    pub(crate) fn sweep(&self) {
        let ends = self.ends();
        let removed: Vec<_> = self.with(|members| {
            let mut used = HashSet::new();
            ends.iter().for_each(|end| used.extend(end.uses_of(&members.closing)));
            let unused: Vec<_> = members.closing.difference(&used).copied().collect();
            let remove = |tag: Tag| {
                members.closing.remove(&tag);
                (rows_in_use::remove(&self.rows, tag), members.rows.remove(&tag))
            };
            unused.into_iter().map(remove).collect()
        });
        // Without the lock: the user's values are dropped here.
        for (served, row) in removed {
            let Some(row) = row else { continue };
            if row.is_value() {
                self.drop_value_of(served, &row);
            }
            row.rests();
        }
    }

    /// Ends all channels and rows. The clerk learns of it by the socket.
    pub(crate) fn close(&self) {
        let (ends, rows) = {
            let held = critical();
            let mut members = self.members();
            if std::mem::replace(&mut members.closed, true) {
                return;
            }
            members.open = 0;
            let rows: Vec<_> = members
                .rows
                .iter()
                .filter(|(tag, _)| self.rows.close(**tag, false))
                .map(|(_, row)| row.clone())
                .collect();
            members.closing.extend(rows.iter().map(|row| row.tag()));
            drop(members);
            drop(held);
            (self.ends(), rows)
        };
        // Close all ends before the client is notified.
        ends.iter().for_each(|end| end.close());
        let exchange = ends.first().map(|end| end.mailbox().control().interfaces());
        exchange.inspect(|interfaces| interfaces.end());
        rows.iter().for_each(|row| self.was_closed(row));
        self.sweep();
        if let Some(first) = ends.iter().find(|end| !end.is_further()) {
            first.mailbox().close();
        }
    }

    /// The row's calls are turned away from now on. Those under way go on.
    pub(crate) fn drain(&self, tag: Tag) {
        self.rows.drain(tag);
        for end in self.ends() {
            // A thread that held the lock before has begun its call. Some calls may have been held
            // back.
            end.wait_for_lock();
            end.heard();
        }
    }

    /// Whether no call uses the row.
    pub(crate) fn is_idle(&self, tag: Tag) -> bool {
        self.ends().iter().all(|end| !end.uses(tag))
    }

    /// Its channels.
    pub(super) fn ends(&self) -> Vec<Arc<ServerEnd>> {
        self.with(|members| members.ends.iter().filter_map(Weak::upgrade).collect())
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("client", &self.client).finish_non_exhaustive()
    }
}
