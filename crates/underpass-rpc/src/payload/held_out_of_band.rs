//! The out-of-band part of a reply that found the socket full. It is held until there is room.
//!
//! The steps are in `dispatch/server/held_replies/README.md`.

use crate::binding::interface_exchange::GivenRows;
use crate::binding::limits::FileQuota;
use crate::payload::out_of_band::OutOfBand;
use crate::payload::passed_file::Unclosed;
use std::io;
use std::sync::Arc;

/// What is held for the reply of one slot.
pub(crate) struct HeldOutOfBand {
    pub(crate) slot: u16,
    pub(crate) out_of_band: OutOfBand,
    /// The rows of the reply's interfaces. They are closed unless the reply is sent.
    pub(crate) rows: Option<GivenRows>,
    unclosed: Arc<Unclosed>,
    /// Its files count among those of the peer's user.
    _files: Option<FileQuota>,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum PassedHeld {
    Sent,
    /// The socket is still full.
    Full,
    /// It can't be sent.
    Failed(io::Error),
    /// Nothing is held for the slot: its channel has ended.
    NotHeld,
}

impl HeldOutOfBand {
    /// Holds `out_of_band`, and charges its files to the user of `unclosed`.
    ///
    /// # Errors
    /// `WouldBlock` if the user may have no more files.
    pub(crate) fn new(slot: u16, out_of_band: OutOfBand, unclosed: &Arc<Unclosed>) -> io::Result<Self> {
        let files = unclosed.room_for_files(out_of_band.files_to_send())?;
        Ok(Self { slot, out_of_band, rows: None, unclosed: unclosed.clone(), _files: files })
    }

    /// The message is in the socket, and its reply will be posted.
    pub(crate) fn was_sent(mut self) {
        if let Some(rows) = self.rows.take() {
            rows.sent();
        }
    }
}

impl Drop for HeldOutOfBand {
    fn drop(&mut self) {
        // The maker of a file decides how long closing it takes, and the clerk may run this.
        self.out_of_band.files.drain(..).for_each(|file| self.unclosed.close(file));
    }
}
