//! The connections that this domain has to servers. An import shows their secrets, so that its
//! binding joins one of them.

use crate::binding::handshake::SECRETS;
use crate::binding::limits::ChannelQuota;
use crate::call::client::{ClientEnd, ClientRow};
use crate::control::clerk::clerk;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use underpass_channel::Tag;
use underpass_os::{Credentials, fork};
use underpass_threads::critical;

/// A client's connection. When the last holder drops it, the connection ends.
pub(crate) struct ServerConnection {
    end: Arc<ClientEnd>,
    /// The clerk's key.
    key: u64,
    /// A number that only the two sides know.
    secret: u128,
    /// The server, as the kernel says.
    server: Credentials,
    /// The charge for a reverse channel, to the user of its connection's client.
    _charge: Option<ChannelQuota>,
}

/// The connections that imports may join. The newest is last.
static CONNECTIONS: Mutex<Vec<Weak<ServerConnection>>> = Mutex::new(Vec::new());

/// The holder of this lock keeps its processor, and is critical.
fn connections() -> MutexGuard<'static, Vec<Weak<ServerConnection>>> {
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServerConnection {
    /// A connection that the clerk watches as `key`.
    pub(crate) fn new(end: Arc<ClientEnd>, key: u64, secret: u128, server: Credentials) -> Arc<Self> {
        let connection = Arc::new(Self { end, key, secret, server, _charge: None });
        connection.end.mailbox().control().interfaces().of_client(&connection);
        connection
    }

    /// The reverse channel of a connection, by which its server calls its client.
    pub(crate) fn reverse(
        end: Arc<ClientEnd>,
        key: u64,
        client: Credentials,
        charge: ChannelQuota,
    ) -> Arc<Self> {
        Arc::new(Self { end, key, secret: 0, server: client, _charge: Some(charge) })
    }

    /// From now on imports may join the connection.
    pub(crate) fn offer(self: &Arc<Self>) {
        let _held = critical();
        let mut connections = connections();
        connections.retain(|connection| connection.strong_count() > 0);
        connections.push(Arc::downgrade(self));
    }

    /// The connections that may lead to the server with these credentials: a few that are open, the
    /// newest first. They do not end while the caller holds them.
    pub(crate) fn to(server: Credentials) -> Vec<Arc<Self>> {
        let _held = critical();
        let all = connections();
        let open = all.iter().rev().filter_map(Weak::upgrade);
        open.filter(|one| one.server == server && !one.end.is_closed()).take(SECRETS).collect()
    }

    /// The server's process, 0 if this domain can't see it.
    pub(crate) fn pid(&self) -> u32 {
        self.server.pid.unsigned_abs()
    }

    pub(crate) fn secret(&self) -> u128 {
        self.secret
    }

    pub(crate) fn end(&self) -> &Arc<ClientEnd> {
        &self.end
    }

    /// The server has opened the row `tag`.
    pub(crate) fn add_row(&self, tag: Tag) -> Arc<ClientRow> {
        self.end.add_row(tag)
    }

    /// Nobody uses `row` any more. Tells the server, unless the connection ends with its caller's
    /// hold on it.
    pub(crate) fn drop_row(self: &Arc<Self>, row: &ClientRow) {
        let goes_on = {
            let _held = critical();
            let mut all = connections();
            // Imports get holds under this lock.
            let goes_on = Arc::strong_count(self) > 1;
            if !goes_on {
                all.retain(|one| !std::ptr::eq(one.as_ptr(), Arc::as_ptr(self)));
            }
            goes_on
        };
        self.end.drop_row(row, goes_on);
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        if fork::check().is_err() {
            return;
        }
        if let Ok(clerk) = clerk() {
            clerk.unwatch(self.key);
            // If the clerk watched it no more, further channels may have come since.
            self.end.end_further().into_iter().for_each(|key| clerk.unwatch(key));
        }
    }
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConnection").field("end", &self.end).finish_non_exhaustive()
    }
}
