//! The events that a control socket brought, for the channel's end that they concern.

use crate::payload::passed_file::PassedFiles;
use underpass_channel::Tag;

/// The ticket that a client has asked for, as it has come to the client.
pub(crate) type Ticket = Result<PassedFiles, NoTicket>;

/// Why the server gives no ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTicket {
    /// The binding must not be passed on.
    NotAllowed,
    /// The server's user may have no more, or there is no file left, there or here.
    NoRoom,
}

/// The end of a channel. It is told what comes over the control socket.
pub(crate) trait HandleEvents: Send + Sync {
    /// Events came.
    fn handle(&self, events: SocketEvents);
}

/// The events that one turn of reading has brought.
#[derive(Debug, Default)]
pub(crate) struct SocketEvents {
    /// The peer rang.
    pub(crate) bell: bool,
    /// The slots, as bits, for which out-of-band messages came.
    pub(crate) out_of_band: u64,
    /// The slots, as bits, of the calls for which nobody waits any more, as the peer says.
    pub(crate) unwanted: u64,
    /// The numbers of late calls that nobody waits for any more, as the peer says.
    pub(crate) unwanted_late: Vec<u64>,
    /// The peer closes the connection.
    pub(crate) closing: bool,
    /// The rows that the peer has closed, and whether it revoked them.
    pub(crate) rows_closed: Vec<(Tag, bool)>,
    /// The rows that the peer uses no more.
    pub(crate) released: Vec<Tag>,
    /// The peer is gone.
    pub(crate) gone: bool,
    /// With `gone`: the peer may be alive, but nothing can be received from it any more.
    pub(crate) unsure: bool,
    /// The peer sent what no honest peer sends.
    pub(crate) nonsense: bool,
    /// How many more channels the peer asks for.
    pub(crate) asked: usize,
    /// The rows for which the peer asks for tickets.
    pub(crate) shares: Vec<Tag>,
    /// The peer's answers to our requests for tickets.
    pub(crate) tickets: Vec<Ticket>,
    /// The peer has opened the channel of this number, and these are the files. There are no files
    /// if the peer could not open it, or if they got lost.
    pub(crate) opened: Option<(u8, PassedFiles)>,
    /// Each time that the peer asks for the reverse channel: whether requests over it may have
    /// prefixes. An honest peer asks once.
    pub(crate) reverse_asked: Vec<bool>,
    /// The peer has opened the reverse channel, with this file and its clock that far ahead.
    pub(crate) reverse_opened: Option<(PassedFiles, i64)>,
    /// Rows of the peer's that have come home.
    pub(crate) home: Vec<Tag>,
}

impl SocketEvents {
    /// Whether nothing came.
    pub(crate) fn is_none(&self) -> bool {
        let told = self.closing | self.gone | self.nonsense;
        let asked = self.asked > 0 || !self.shares.is_empty() || !self.tickets.is_empty();
        let ended = !self.rows_closed.is_empty() || !self.released.is_empty();
        let late = !self.unwanted_late.is_empty();
        let files = self.out_of_band | self.unwanted != 0 || self.opened.is_some();
        let passed = !self.reverse_asked.is_empty() || self.reverse_opened.is_some() || !self.home.is_empty();
        !(passed | self.bell | told | asked | ended | late | files)
    }
}
