//! The table of what the clerk watches.

use super::offer::Offer;
use crate::binding::family::Family;
use crate::binding::limits::ChannelQuota;
use crate::binding::row::BindingRow;
use crate::control::connection::Connection;
use crate::control::peer_death::PeerDeathWatch;
use crate::control::watched_end::WatchedEnd;
use crate::dispatch::server::ServerEnd;
use crate::payload::file_thread::FileThread;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use underpass_os::Listening;
use underpass_processor::Line;

/// A name, and what is exported under it.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) listening: Listening,
    pub(crate) offer: Arc<Offer>,
}

/// What the clerk watches under a key.
pub(super) enum WatchEntry {
    Export(Arc<Exported>),
    PendingConnection {
        socket: Arc<Connection>,
        export: u64,
        user: u32,
    },
    /// A client has asked for a ticket, to pass its binding on. The process that has the other end
    /// gets a binding. The ticket counts as a binding of that client's user.
    Ticket {
        socket: Arc<Connection>,
        by: Arc<BindingRow>,
        quota: ChannelQuota,
    },
    /// The end of a channel, of a client or a server.
    Channel {
        end: Arc<dyn WatchedEnd>,
        line: Arc<dyn Line>,
    },
    /// Receives the files that the domains of one user pass.
    FileThread(Arc<FileThread>),
    /// Becomes readable when a signal asks this process to end.
    EndSignal(BorrowedFd<'static>),
    /// The process of a binding's peer: see `PeerDeathWatch`.
    Process {
        process: OwnedFd,
        of: Weak<PeerDeathWatch>,
    },
}

impl WatchEntry {
    /// The descriptor to poll. A further or reverse channel has none, because it shares the socket
    /// of its connection's first channel.
    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(match self {
            Self::Export(exported) => exported.listening.as_fd(),
            Self::PendingConnection { socket, .. } => socket.as_fd(),
            Self::Ticket { socket, .. } => socket.as_fd(),
            Self::Channel { end, .. } if !end.has_socket() => return None,
            Self::Channel { end, .. } => end.mailbox().as_fd(),
            Self::FileThread(thread) => thread.exchange().as_fd(),
            Self::EndSignal(bell) => *bell,
            Self::Process { process, .. } => process.as_fd(),
        })
    }

    /// Whether it is a binding of the export `of`, or may become one.
    pub(super) fn is_of(&self, of: u64) -> bool {
        match self {
            Self::PendingConnection { export, .. } => *export == of,
            Self::Ticket { by, .. } => by.export() == of,
            // A connection is of no export: its rows are.
            Self::Channel { .. }
            | Self::Export(_)
            | Self::FileThread(_)
            | Self::EndSignal(_)
            | Self::Process { .. } => false,
        }
    }
}

#[derive(Default)]
pub(super) struct WatchTable {
    next: u64,
    rows: HashMap<u64, WatchEntry>,
    /// The keys of the pending connections. For each, since when it is silent, and its user. Keys
    /// grow, so the first is the oldest.
    pending: BTreeMap<u64, (u64, u32)>,
    /// Exports that accept nobody until the given time, because files ran out.
    pub(super) paused: Vec<(u64, u64)>,
    /// The bindings that expire, by time and by number.
    expiries: BTreeMap<(u64, u64), Weak<BindingRow>>,
    /// The connections, by their secrets.
    connections: HashMap<u128, Weak<Family>>,
}

impl WatchTable {
    /// The key of the next row.
    pub(super) fn next_key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn row(&self, key: u64) -> Option<&WatchEntry> {
        self.rows.get(&key)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &WatchEntry> {
        self.rows.values()
    }

    /// Inserts a row at the time `now`.
    pub(super) fn insert(&mut self, key: u64, row: WatchEntry, now: u64) {
        match &row {
            WatchEntry::PendingConnection { user, .. } => {
                self.pending.insert(key, (now, *user));
            }
            WatchEntry::Channel { end, .. } if end.has_socket() => {
                if let Some(family) = end.family() {
                    self.connections.insert(family.secret(), Arc::downgrade(family));
                }
            }
            _ => {}
        }
        self.rows.insert(key, row);
    }

    /// Takes a row out.
    pub(super) fn remove(&mut self, key: u64) -> Option<WatchEntry> {
        let row = self.rows.remove(&key)?;
        match &row {
            WatchEntry::PendingConnection { .. } => {
                self.pending.remove(&key);
            }
            WatchEntry::Channel { end, .. } if end.has_socket() => {
                if let Some(family) = end.family() {
                    self.connections.remove(&family.secret());
                }
            }
            _ => {}
        }
        Some(row)
    }

    /// The keys of the rows that `which` chooses.
    pub(super) fn keys(&self, which: impl Fn(u64, &WatchEntry) -> bool) -> Vec<u64> {
        self.rows.iter().filter(|(key, row)| which(**key, row)).map(|(key, _)| *key).collect()
    }

    /// The server's ends of all channels.
    pub(super) fn served(&self) -> Vec<Arc<ServerEnd>> {
        let end = |row: &WatchEntry| match row {
            WatchEntry::Channel { end, .. } => end.clone().served(),
            _ => None,
        };
        self.rows.values().filter_map(end).collect()
    }

    /// The bindings of these exports.
    pub(super) fn bindings(&self, exports: &[u64]) -> Vec<Arc<BindingRow>> {
        let family = |row: &WatchEntry| match row {
            WatchEntry::Channel { end, .. } if !end.is_further() => end.family().cloned(),
            _ => None,
        };
        self.rows.values().filter_map(family).flat_map(|family| family.rows_of(exports)).collect()
    }

    /// The keys of connections that are closed and only wait to be cleared away.
    pub(super) fn closed_connections(&self) -> Vec<u64> {
        self.keys(
            |_, row| matches!(row, WatchEntry::Channel { end, .. } if end.family().is_some() && !end.is_further() && end.is_closed()),
        )
    }

    /// The connection with this secret.
    pub(super) fn connection(&self, secret: u128) -> Option<Arc<Family>> {
        self.connections.get(&secret)?.upgrade()
    }

    /// The binding expires by itself, if it does, and is revoked then.
    pub(super) fn expires(&mut self, row: &Arc<BindingRow>) {
        if let Some(at) = expiry(row) {
            self.expiries.insert(at, Arc::downgrade(row));
        }
    }

    /// The binding has ended before.
    pub(super) fn forget_expiry(&mut self, row: &BindingRow) {
        if let Some(at) = expiry(row) {
            self.expiries.remove(&at);
        }
    }

    pub(super) fn count_pending(&self) -> usize {
        self.pending.len()
    }

    /// Since when the oldest pending connection is silent.
    pub(super) fn oldest_pending(&self) -> Option<u64> {
        self.pending.first_key_value().map(|(_, (since, _))| *since)
    }

    /// Takes the oldest pending connection out.
    pub(super) fn take_oldest_pending(&mut self) -> Option<WatchEntry> {
        let (key, _) = self.pending.first_key_value()?;
        self.remove(*key)
    }

    /// Takes out the oldest pending connection of the user who has the most.
    pub(super) fn take_pending_of_most(&mut self) -> Option<WatchEntry> {
        let mut counts = HashMap::<u32, usize>::new();
        self.pending.values().for_each(|(_, user)| *counts.entry(*user).or_default() += 1);
        let (most, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let (key, _) = self.pending.iter().find(|(_, (_, user))| *user == most)?;
        self.remove(*key)
    }

    /// When the next binding expires.
    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.expiries.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes out the bindings that have expired by `now`.
    pub(super) fn take_expired(&mut self, now: u64) -> Vec<Arc<BindingRow>> {
        let later = self.expiries.split_off(&(now + 1, 0));
        let ended = std::mem::replace(&mut self.expiries, later);
        ended.values().filter_map(Weak::upgrade).collect()
    }
}

/// The key of a binding in `expiries`.
fn expiry(row: &BindingRow) -> Option<(u64, u64)> {
    let binding = row.binding();
    binding.expires.map(|at| (at, binding.id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass_os::Socket;

    #[test]
    fn silent_connections_of_one_user_close_no_other_users() {
        let mut table = WatchTable::default();
        let mut come = |user, now| {
            let (socket, _theirs) = Socket::pair().unwrap();
            let key = table.next_key();
            table.insert(
                key,
                WatchEntry::PendingConnection { socket: Connection::new(socket), export: 0, user },
                now,
            );
            key
        };
        let other = come(2, 1);
        let greedy: Vec<_> = (2..6).map(|now| come(1, now)).collect();
        for gone in &greedy[..3] {
            table.take_pending_of_most();
            assert!(table.row(*gone).is_none() && table.row(other).is_some());
        }
        assert_eq!((table.count_pending(), table.oldest_pending()), (2, Some(1)));
        table.take_oldest_pending();
        assert!(table.row(other).is_none() && table.row(greedy[3]).is_some());
    }
}
