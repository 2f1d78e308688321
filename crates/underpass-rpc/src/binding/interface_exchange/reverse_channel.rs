//! The reverse channel of a connection: the server of the connection calls over it, and the client
//! serves. The client asks for it when it first gives an interface.
//!
//! 1. The client asks over the socket, and waits.
//! 2. The server makes the region, charges it to the client's user, and watches its own end, by
//!    which it calls.
//! 3. It passes the region over the socket. The client adopts it, serves it, and goes on.
//!
//! So a server that takes an interface has the reverse channel already, and waits for nothing.

use super::{InterfaceExchange, Role};
use crate::binding::clock_offset::ClockOffset;
use crate::binding::connections::ServerConnection;
use crate::binding::family::{Client, Family};
use crate::binding::handshake::Capabilities;
use crate::binding::limits::{Limits, Quotas};
use crate::binding::peer::Peer;
use crate::call::client::ClientEnd;
use crate::control::clerk::clerk;
use crate::control::control_socket::{ControlSocket, PATIENCE};
use crate::control::mailbox::ChannelMailbox;
use crate::dispatch::server::ServerEnd;
use crate::payload::overflow_buffers::OverflowBuffers;
use crate::payload::passed_file::PassedFiles;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, LazyLock, PoisonError};
use std::time::Instant;
use underpass_channel::Channel;
use underpass_channel::layout::region;
use underpass_os::{barrier, failpoint};
use underpass_sync::Condvar;

/// What the servers of this domain may have of it: interfaces, calls under way, memory.
static SERVERS: LazyLock<Quotas> =
    LazyLock::new(|| Quotas::new(Limits::default(), HashMap::from([(0, Limits::NONE)])));

/// Of a client: whether there is a reverse channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Unasked,
    Asked,
    Open,
    Ended,
}

/// A client's request for the reverse channel.
#[derive(Debug, Default)]
pub(crate) struct ReverseChannel {
    progress: underpass_sync::Mutex<Progress>,
    changed: Condvar,
}

impl ReverseChannel {
    fn set(&self, next: Progress) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if *progress != Progress::Ended {
            *progress = next;
        }
        drop(progress);
        self.changed.notify_all();
    }

    /// The connection has ended.
    pub(super) fn ends(&self) {
        self.set(Progress::Ended);
    }

    fn is_asked(&self) -> bool {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) == Progress::Asked
    }

    /// Asks the server for the reverse channel, unless there is one, and waits for it.
    pub(super) fn ask(&self, control: &ControlSocket, end: &Arc<ClientEnd>) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if *progress == Progress::Unasked {
            // What serving needs exists before the server can call.
            barrier::register();
            underpass_threads::start().listen();
            underpass_threads::provide_e_stacks(None)?;
            clerk()?;
            *progress = Progress::Asked;
            if let Err(e) = control.ask_reverse(Capabilities::own().takes_prefixes()) {
                *progress = Progress::Unasked;
                return Err(e);
            }
            failpoint!("interface-asked");
        }
        while *progress == Progress::Asked {
            // The clerk receives the answer.
            progress = match self.changed.wait_until(progress, until) {
                Ok((_, waited)) if waited.timed_out() => {
                    return Err(io::Error::other(
                        "the server has not opened a channel for interfaces in time",
                    ));
                }
                Ok((again, _)) => again,
                Err(_) => return Err(io::Error::other("the thread is cancelled")),
            };
        }
        match *progress {
            Progress::Open => Ok(()),
            Progress::Ended => Err(super::closed()),
            Progress::Unasked | Progress::Asked if end.is_closed() => Err(super::closed()),
            Progress::Unasked | Progress::Asked => {
                Err(io::Error::other("there is no room for a channel for interfaces, here or at the server"))
            }
        }
    }
}

impl InterfaceExchange {
    /// Of a client: the server has answered. `files` has the region, unless there is no room; the
    /// server's clock is `ahead` of this domain's. Returns `false` if no honest server answers so.
    pub(crate) fn reverse_opened(&self, end: &ClientEnd, files: PassedFiles, ahead: i64) -> bool {
        if !self.reverse.is_asked() || files.len() > 1 {
            return false;
        }
        let opened = self.serve_reverse(end, files, ahead);
        self.reverse.set(if opened.is_ok() { Progress::Open } else { Progress::Unasked });
        !opened.is_err_and(|e| e.kind() == io::ErrorKind::InvalidData)
    }

    fn serve_reverse(&self, end: &ClientEnd, mut files: PassedFiles, ahead: i64) -> io::Result<()> {
        let file = files.take_memory().ok_or(io::ErrorKind::NotFound)?;
        let channel = Channel::adopt_reverse(file.as_fd(), end.channel().fence(), end.channel().stack())?;
        let control = end.mailbox().control();
        let link = control.link();
        let peer = Peer::of(link)?;
        let quota = SERVERS.admit(peer.uid(), region(channel.stack()) as u64).map_err(io::Error::other)?;
        let own = Capabilities::own();
        let client = Client { peer, capabilities: (own, own), clock_offset: ClockOffset::behind(ahead) };
        let family = Family::reverse(Arc::downgrade(link), client);
        let mailbox = ChannelMailbox::reverse(control.clone(), quota.overflow_buffers());
        let server = ServerEnd::new(channel, mailbox, end.placement(), family.clone(), quota);
        let ended = self.with(|state| {
            if !state.ended {
                state.exports = Some(family.clone());
            }
            state.ended
        });
        if ended || !clerk()?.serve_reverse(&server) {
            server.close();
            return Err(super::closed());
        }
        failpoint!("interface-served");
        Ok(())
    }

    /// Of a server: the client of `end` asks for the reverse channel, over which requests may have
    /// `prefixes`. Returns `false` if no honest client asks so.
    pub(crate) fn reverse_asked(&self, end: &ServerEnd, prefixes: bool) -> bool {
        let Some(Role::Server(family)) = self.role.get() else { return false };
        let Some(family) = family.upgrade() else { return true };
        if self.with(|state| state.imports.is_some()) {
            return false;
        }
        let ahead = family.clock_offset().ahead();
        let region = self.call_reverse(end, &family, prefixes);
        failpoint!("interface-opened");
        // If this fails, the client waits in vain, but only for 2 s.
        let _ = end.mailbox().control().open_reverse(region.ok(), ahead);
        true
    }

    /// Makes the region, and the end by which this domain calls.
    fn call_reverse(&self, end: &ServerEnd, family: &Arc<Family>, prefixes: bool) -> io::Result<OwnedFd> {
        let charge = end.quota().another().map_err(io::Error::other)?;
        let (channel, region) = Channel::create_reverse(end.channel().fence(), end.channel().stack())?;
        let control = end.mailbox().control();
        let mailbox = ChannelMailbox::reverse(control.clone(), OverflowBuffers::default());
        let caller = ClientEnd::new(channel, mailbox, end.placement());
        if prefixes {
            caller.server_takes_prefixes();
        }
        let key = clerk()?.bound(&caller)?;
        family.add_key(key);
        let connection = ServerConnection::reverse(caller, key, control.link().peer()?, charge);
        let ended = self.with(|state| {
            if !state.ended {
                state.imports = Some(connection.clone());
            }
            state.ended
        });
        match ended {
            true => {
                connection.end().ends_with_connection();
                Err(super::closed())
            }
            false => Ok(region),
        }
    }
}
