//! What came over a binding's socket, for the end of the channel that it concerns.

use crate::payload::passed_file::PassedFiles;

/// What a server gives to a client that wants to pass its binding on, as it has come to that
/// client.
pub(crate) type Ticket = Result<PassedFiles, NoTicket>;

/// Why it gives none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTicket {
    /// The binding is not to be passed on.
    NotAllowed,
    /// There was no room, or no file left, there or here.
    NoRoom,
}

/// The end of a channel, which hears what comes over the binding's socket.
pub(crate) trait Hears: Send + Sync {
    /// Something came.
    fn news(&self, news: News);
}

/// What a turn of reading has brought.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// The peer rang.
    pub(crate) bell: bool,
    /// The slots, as bits, for which out-of-band messages came.
    pub(crate) out_of_band: u64,
    /// The slots, as bits, whose calls nobody waits for any more, as the peer says.
    pub(crate) unwanted: u64,
    /// The peer closes the binding.
    pub(crate) closing: bool,
    /// The peer revokes the binding.
    pub(crate) revoked: bool,
    /// The peer is gone.
    pub(crate) gone: bool,
    /// It only seems so: nothing can be heard of it any more.
    pub(crate) unsure: bool,
    /// The peer sent what no honest peer sends.
    pub(crate) nonsense: bool,
    /// The peer asks for so many more channels.
    pub(crate) asked: usize,
    /// The peer wants to pass the binding on, so many times.
    pub(crate) shares: usize,
    /// The peer's answers to that.
    pub(crate) tickets: Vec<Ticket>,
    /// The peer has opened the channel of this number, of which these are the files. Or it could
    /// not, or they didn't come through: then there are none.
    pub(crate) opened: Option<(u8, PassedFiles)>,
}

impl News {
    /// Whether nothing came.
    pub(crate) fn is_none(&self) -> bool {
        let told = self.closing | self.revoked | self.gone | self.nonsense;
        let asked = self.asked > 0 || self.shares > 0 || !self.tickets.is_empty();
        !(self.bell | told | asked) && self.out_of_band | self.unwanted == 0 && self.opened.is_none()
    }
}
