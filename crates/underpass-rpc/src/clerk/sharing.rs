//! Bindings that are passed on: from a client that may, to a third domain, which becomes a client of its own.
//!
//! The client gets a *ticket*: one end of a connection, whose other end the clerk watches. Whoever it passes that to sends a hello over it, with one end of a pair of sockets of
//! its own: the new binding's connection. The kernel says who sent the hello and who made the pair, and these must be the same living process. So neither a pair that was made by
//! somebody else, nor a hello that was, makes anybody whom it is not. A ticket ends with the binding of which it was made, and what comes of it expires no later. See decision 0024.

use super::Clerk;
use super::table::Watched;
use crate::closer::{Connection, Foreign};
use crate::family::Family;
use crate::handshake::LONGEST_HELLO;
use crate::mailbox::NoTicket;
use crate::server::ServerEnd;
use std::io;
use std::sync::Arc;
use underpass_os::{Socket, peer::lives};

impl Clerk {
    /// The client of `end` has asked for a ticket.
    pub(crate) fn share(&self, end: &ServerEnd) {
        if !end.family().is_shareable() {
            return end.mailbox().answer_share(Err(NoTicket::NotAllowed));
        }
        let made = end.seat().another().map_err(io::Error::other).and_then(|seat| {
            let (socket, theirs) = Socket::pair()?;
            // Before anybody can send.
            socket.ask_for_senders()?;
            let (socket, by) = (Connection::new(socket), end.family().clone());
            socket.counts_for(&seat.tally());
            let (export, ends_with) = (by.export(), Arc::downgrade(&socket));
            self.watch(Watched::Ticket { socket, by, seat }, Some(export))?;
            end.family().shared(ends_with);
            Ok(theirs)
        });
        end.mailbox().answer_share(made.map_err(|_| NoTicket::NoRoom));
    }

    /// Somebody uses a ticket, or nobody has it any more.
    pub(super) fn redeem(&self, ticket: Arc<Connection>, by: &Family) {
        let mut buffer = [0; LONGEST_HELLO];
        let Ok(signed) = ticket.receive_signed(&mut buffer) else { return };
        let mut files = Foreign::new(signed.files, &ticket.tally());
        let (Some(file), Some(sender)) = (files.take_if(Socket::is_one), signed.sender) else { return };
        let Ok(socket) = Socket::adopt(file) else { return };
        // Who made the pair, if that process has not ended: then its number is nobody else's.
        let maker = socket.peer_process().and_then(|process| Ok((socket.peer()?, lives(&process)?)));
        let known = sender.pid != 0 && maker.is_ok_and(|maker| maker == (sender, true));
        // What was revoked, or has expired, lets nobody in any more.
        if !known || by.is_closed() {
            // It may be a connection of others: nothing is done to it.
            return ticket.tally().let_go(socket);
        }
        // Who uses it has a seat of his own: but for what is still to be closed, the ticket's is free from now on.
        drop((files, ticket));
        self.hear(Connection::new(socket), by.export(), &buffer[..signed.len], by.binding().expires);
    }
}
