//! The reader's end of a stream, as the thread of the bells and the binding know it.

use crate::bell_thread::{Heard, bell_thread};
use crate::stream::bell_byte::BellByteLeaver;
use crate::stream::binding::EndsWithBinding;
use crate::stream::words::{CLOSED_WITH_BINDING, DROPPED, LIGHT, TAKEN};
use crate::waiters::Waiters;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use underpass_channel::{BellByteNews, LaneMemory, MappedLane};
use underpass_os::{Poller, barrier, failpoint, fork};
use underpass_rpc::PassedSocket;

/// The writer has hung up, or its domain has died.
pub(crate) const HUNG_UP: u8 = 1;
/// The binding has ended.
pub(crate) const BINDING_ENDED: u8 = 2;
/// The writer has caused more reports than an honest one can.
pub(crate) const FLOODED: u8 = 4;
/// The system has refused what a wait needs.
pub(crate) const NO_ROOM: u8 = 8;

/// The reader's end.
#[derive(Debug)]
pub(crate) struct ReaderEnd {
    pub(crate) bell: BellByteLeaver,
    /// By which the reader rings when there is room.
    room: PassedSocket,
    pub(crate) memory: Arc<MappedLane>,
    pub(crate) waiters: Waiters,
    over: AtomicU8,
    /// The machine of the reader can't be reached any more.
    lost: AtomicBool,
}

impl ReaderEnd {
    /// Takes the stream of `memory`, and begins to listen.
    ///
    /// # Errors
    /// There are too many watches, or no kernel thread can be started.
    pub(crate) fn take(
        memory: Arc<MappedLane>,
        room: PassedSocket,
        bell: PassedSocket,
    ) -> io::Result<Arc<Self>> {
        let bell = BellByteLeaver::new(bell)?;
        let (waiters, over, lost) = (Waiters::new(), AtomicU8::new(0), AtomicBool::new(false));
        let end = Arc::new(Self { bell, room, memory, waiters, over, lost });
        let heard: Weak<dyn Heard> = Arc::downgrade(&end) as Weak<dyn Heard>;
        bell_thread()?.add_for_room(end.bell.key(), end.bell.socket().end(), heard)?;
        failpoint!("stream-reader-mapped");
        end.memory.close(if barrier::register() { TAKEN | LIGHT } else { TAKEN });
        failpoint!("stream-reader-told");
        Ok(end)
    }

    /// How the stream has ended, in bits. 0 if it has not.
    pub(crate) fn over(&self) -> u8 {
        // SYNC with `over` fetch_or in `ends`: what the writer had posted before.
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn ends(&self, how: u8) {
        // SYNC with `over` load in `over`.
        self.over.fetch_or(how, Ordering::Release);
        self.waiters.ring();
    }

    /// From now on the drop of this end looks to the writer as if its reader's domain had died.
    pub(crate) fn lose(&self) {
        // Relaxed: the thread that drops the end has set it, or has taken the end from that thread.
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Rings for the writer, which waits for room.
    #[cold]
    pub(crate) fn ring_for_room(&self) {
        // If the writer does not read its bell, a ring waits there already. If it is gone, nobody
        // waits.
        let _ = self.room.end().send(&[1], &[]);
        failpoint!("stream-reader-rung");
    }
}

impl Heard for ReaderEnd {
    fn heard(&self, poller: &Poller) -> bool {
        let how = match self.bell.hear() {
            Some(BellByteNews::Nothing) => return true,
            Some(BellByteNews::Rang) => {
                failpoint!("stream-reader-heard");
                self.waiters.ring();
                return true;
            }
            Some(BellByteNews::Flood) => FLOODED,
            None => HUNG_UP,
        };
        self.bell.stop(poller);
        self.ends(how);
        false
    }
}

impl EndsWithBinding for ReaderEnd {
    fn binding_ended(&self) {
        self.memory.close(CLOSED_WITH_BINDING);
        self.ends(BINDING_ENDED);
        self.room.end().hang_up();
    }
}

impl Drop for ReaderEnd {
    fn drop(&mut self) {
        if !fork::is_forked() {
            // Relaxed: see `lose`.
            if !self.lost.load(Ordering::Relaxed) {
                self.memory.close(DROPPED);
            }
            failpoint!("stream-reader-dropped");
            self.room.end().hang_up();
        }
    }
}
