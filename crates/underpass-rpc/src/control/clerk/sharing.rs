//! Bindings that are passed on: from a client that may, to a third domain, which becomes a client
//! of its own.
//!
//! The client gets a *ticket*: one end of a connection, whose other end the clerk watches. Whoever
//! it passes that to makes a pair of sockets, and sends a hello over the ticket with one end of the
//! pair: there the server is to send. The server answers there, with one end of a pair of its own,
//! over which it hears. So each side reads from what it has made itself.
//!
//! The kernel says who sent the hello and who made the pair, and these must be the same living
//! process. So neither a pair that somebody else made, nor a hello that somebody else sent, makes
//! anybody whom it is not. A ticket ends with the binding of which it was made, and what comes of
//! it expires no later. See decision 0024.

use super::table::Watched;
use super::{Clerk, clerk};
use crate::binding::family::Family;
use crate::binding::handshake::LONGEST_HELLO;
use crate::binding::limits::Seat;
use crate::control::connection::{Connection, Link};
use crate::control::news::NoTicket;
use crate::dispatch::server::ServerEnd;
use crate::payload::file_thread::{self, ReceivedMessage};
use crate::payload::passed_file::{PassedFiles, Unclosed};
use std::io;
use std::sync::Arc;
use underpass_os::{Connected, Socket, peer::lives};

impl Clerk {
    /// The client of `end` has asked for a ticket.
    pub(crate) fn share(&self, end: &ServerEnd) {
        if !end.family().is_shareable() {
            return end.mailbox().answer_share(Err(NoTicket::NotAllowed));
        }
        if file_thread::is_behind(end.seat().account().uid()) {
            return end.mailbox().answer_share(Err(NoTicket::NoRoom));
        }
        let made = end.seat().another().map_err(io::Error::other).and_then(|seat| {
            let (socket, theirs) = Socket::pair()?;
            // Before anybody can send.
            socket.ask_for_senders()?;
            let (socket, by) = (Connection::new(socket), end.family().clone());
            socket.counts_for(&seat.unclosed());
            let (export, ends_with) = (by.export(), Arc::downgrade(&socket));
            self.watch(Watched::Ticket { socket, by, seat }, Some(export))?;
            end.family().shared(ends_with);
            Ok(theirs)
        });
        end.mailbox().answer_share(made.map_err(|_| NoTicket::NoRoom));
    }

    /// Somebody uses a ticket, or nobody has it any more.
    pub(super) fn redeem(&self, ticket: &Arc<Connection>, by: Arc<Family>, seat: Seat) {
        let Ok(hello) = ticket.look() else { return };
        let (true, Some(sender)) = (hello.with_files, hello.sender) else { return };
        let held = (ticket.clone(), seat);
        let then = move |message: io::Result<ReceivedMessage>| {
            // Before the third domain gets a seat of its own.
            drop(held);
            if let (Ok(clerk), Ok(message)) = (clerk(), message) {
                clerk.hear_ticket(message, &by);
            }
        };
        // The sender's user may be another than the one that the ticket was made for.
        let _ = file_thread::receive(sender.uid, &**ticket, LONGEST_HELLO, then);
    }

    /// The hello of whoever uses a ticket has been received.
    fn hear_ticket(&self, message: ReceivedMessage, by: &Family) {
        let Some(sender) = message.sender.filter(|sender| sender.pid != 0) else { return };
        let mut files = PassedFiles::new(message.files, &Unclosed::new(sender.uid, None));
        let Some(sending) = files.take_socket() else { return };
        // Who made the pair, if that process has not ended: then its number is nobody else's.
        let pair = sending.end();
        let maker = pair.peer_process().and_then(|process| Ok((pair.peer()?, lives(&process)?)));
        let known = maker.is_ok_and(|maker| maker == (sender, true));
        // What was revoked, or has expired, lets nobody in any more.
        if !known || message.cut || by.is_closed() {
            return;
        }
        let Ok((reading, theirs)) = Socket::pair() else { return };
        let link = Link::of_two(Connection::new(reading), sending, Some(theirs));
        self.hear(link, by.export(), &message.bytes, by.binding().expires);
    }
}
