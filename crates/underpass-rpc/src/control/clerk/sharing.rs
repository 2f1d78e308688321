//! Passing bindings on: from a client that may, to a third domain, which becomes a client of its
//! own.
//!
//! 1. The client gets a *ticket*: one end of a connection. The clerk watches the other end. It
//!    passes the ticket to the third domain.
//! 2. The third domain makes a pair of sockets, and sends a hello over the ticket, with one end of
//!    the pair. The server must send its messages there.
//! 3. The server answers over that end, and its answer brings one end of a pair of its own. The
//!    server receives its messages there.
//!
//! So each side reads from a socket that it has made itself.
//!
//! The kernel says which process sent the hello and which process made the pair. Both must be the
//! same living process. So a domain gains no false identity by a pair that another process made,
//! nor by a hello that another process sent. A ticket ends with the binding for which it was made,
//! and a binding made by it expires no later. See decision 0024.

use super::table::WatchEntry;
use super::{Clerk, clerk};
use crate::binding::handshake::LONGEST_HELLO;
use crate::binding::limits::ChannelQuota;
use crate::binding::row::BindingRow;
use crate::control::connection::{BindingLink, Connection};
use crate::control::socket_events::NoTicket;
use crate::dispatch::server::ServerEnd;
use crate::payload::file_thread::{self, ReceivedMessage};
use crate::payload::passed_file::{PassedFiles, Unclosed};
use std::io;
use std::sync::Arc;
use underpass_channel::Tag;
use underpass_os::{Connected, Socket, peer::lives};

impl Clerk {
    /// The client of `end` has asked for a ticket to its binding `tag`.
    pub(crate) fn share(&self, end: &ServerEnd, tag: Tag) {
        let by = end.family().row(tag);
        let Some(by) = by.filter(|by| by.is_shareable() && !by.is_closed()) else {
            return end.mailbox().answer_share(Err(NoTicket::NotAllowed));
        };
        if file_thread::is_behind(end.quota().account().uid()) {
            return end.mailbox().answer_share(Err(NoTicket::NoRoom));
        }
        let made = end.quota().another().map_err(io::Error::other).and_then(|quota| {
            let (socket, theirs) = Socket::pair()?;
            // Ask before anybody can send.
            socket.ask_for_senders()?;
            let socket = Connection::new(socket);
            socket.counts_for(&quota.unclosed());
            let (export, ends_with) = (by.export(), Arc::downgrade(&socket));
            self.watch(WatchEntry::Ticket { socket, by: by.clone(), quota }, Some(export))?;
            by.add_ticket(ends_with);
            Ok(theirs)
        });
        end.mailbox().answer_share(made.map_err(|_| NoTicket::NoRoom));
    }

    /// A process uses a ticket, or no process has it any more.
    pub(super) fn redeem(&self, ticket: &Arc<Connection>, by: Arc<BindingRow>, quota: ChannelQuota) {
        let Ok(hello) = ticket.look() else { return };
        let (true, Some(sender)) = (hello.with_files, hello.sender) else { return };
        let held = (ticket.clone(), quota);
        let then = move |message: io::Result<ReceivedMessage>| {
            // Release it before the third domain is charged for a binding of its own.
            drop(held);
            if let (Ok(clerk), Ok(message)) = (clerk(), message) {
                clerk.handle_ticket_hello(message, &by);
            }
        };
        // The sender's user may differ from the user that got the ticket.
        let _ = file_thread::receive(sender.uid, &**ticket, LONGEST_HELLO, then);
    }

    /// The hello of the process that uses a ticket has been received.
    fn handle_ticket_hello(&self, message: ReceivedMessage, by: &BindingRow) {
        let Some(sender) = message.sender.filter(|sender| sender.pid != 0) else { return };
        let mut files = PassedFiles::new(message.files, &Unclosed::new(sender.uid, None));
        let Some(sending) = files.take_socket() else { return };
        // The process that made the pair must be alive, so that its process id means no other
        // process.
        let pair = sending.end();
        let maker = pair.peer_process().and_then(|process| Ok((pair.peer()?, lives(&process)?)));
        let known = maker.is_ok_and(|maker| maker == (sender, true));
        // A binding that was revoked or has expired lets nobody in any more.
        if !known || message.cut || by.is_closed() {
            return;
        }
        let Ok((reading, theirs)) = Socket::pair() else { return };
        let link = BindingLink::of_two(Connection::new(reading), sending, Some(theirs));
        self.handle_hello(link, by.export(), &message.bytes, Some(by));
    }
}
