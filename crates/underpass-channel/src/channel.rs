//! One side's view of a region: where it sends, where it receives, whom it calls and where it is called.

use crate::attention::{Attention, Bell, Fence};
use crate::cell::Cell;
use crate::layout::{CELL, CELLS, CLIENT_ATTENTION, REPLIES, REQUESTS, SERVER_ATTENTION};
use crate::region::{Region, RegionSink, RegionSource};
use crate::ring::{Receiving, Sending};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use underpass_os::futex::{self, Scope};
use underpass_wire::DecodeError;

/// Which end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Posts requests, takes replies.
    Client,
    /// Takes requests, posts replies.
    Server,
}

/// One end of a channel.
#[derive(Debug)]
pub struct Channel {
    region: Arc<Region>,
    sending: Sending<Arc<Region>>,
    receiving: Receiving<Arc<Region>>,
    own_attention: usize,
    peer_attention: usize,
    fence: Fence,
}

impl Channel {
    /// The server's end of a fresh region, and the file to hand to the client. `fence` is what both sides agreed on.
    ///
    /// # Errors
    /// No memory; too many open files; no `memfd` or seals in this kernel.
    pub fn create(fence: Fence) -> io::Result<(Self, OwnedFd)> {
        let (region, file) = Region::create()?;
        Ok((Self::over(region, Side::Server, fence), file))
    }

    /// The client's end of the region in `file`.
    ///
    /// # Errors
    /// `InvalidData` if the file isn't sealed or has another size; no memory.
    pub fn adopt(file: BorrowedFd<'_>, fence: Fence) -> io::Result<Self> {
        Ok(Self::over(Region::adopt(file)?, Side::Client, fence))
    }

    fn over(region: Region, side: Side, fence: Fence) -> Self {
        let region = Arc::new(region);
        let (to, from, own_attention, peer_attention) = match side {
            Side::Client => (REQUESTS, REPLIES, CLIENT_ATTENTION, SERVER_ATTENTION),
            Side::Server => (REPLIES, REQUESTS, SERVER_ATTENTION, CLIENT_ATTENTION),
        };
        const { assert!(CELL.is_multiple_of(8)) };
        Self {
            sending: Sending::new(region.clone(), to / 8, CELLS),
            receiving: Receiving::new(region.clone(), from / 8, CELLS),
            region,
            own_attention,
            peer_attention,
            fence,
        }
    }

    /// Posts a message, and says how the peer must be called, if it must.
    #[inline]
    pub fn post(&self, cell: &Cell) -> Bell {
        self.sending.post(cell);
        Attention::new(self.region.attention(self.peer_attention)).after_post(self.fence)
    }

    /// The receiving end.
    #[inline]
    pub fn receiving(&self) -> &Receiving<Arc<Region>> {
        &self.receiving
    }

    /// Where this side says whether it looks.
    #[inline]
    pub fn own_attention(&self) -> Attention<'_> {
        Attention::new(self.region.attention(self.own_attention))
    }

    /// Wakes one processor of the peer that sleeps on its attention: what [`Bell::Wake`] asks for.
    pub fn wake_peer(&self) {
        futex::wake(self.region.attention(self.peer_attention), Scope::Shared, 1);
    }

    /// Calls a spare processor of the peer, if one sleeps while the other is slow; says whether it did.
    pub fn knock(&self) -> bool {
        let knocked = Attention::new(self.region.attention(self.peer_attention)).knock();
        if knocked {
            self.wake_peer();
        }
        knocked
    }

    /// Writes into the A-stack of `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn stack_sink(&self, slot: u16) -> RegionSink<'_> {
        self.region.stack_sink(slot)
    }

    /// Reads `len` bytes from the A-stack of `slot`.
    ///
    /// # Errors
    /// The A-stack has less: no honest peer says so.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn stack_source(&self, slot: u16, len: usize) -> Result<RegionSource<'_>, DecodeError> {
        self.region.stack_source(slot, len)
    }
}
