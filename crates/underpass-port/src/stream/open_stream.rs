//! A stream that its reader has taken: what is taken from its lane, and how it ends.

use crate::stream::errors::StreamError;
use crate::stream::offer::StreamOffer;
use crate::stream::reader_end::{BINDING_ENDED, FLOODED, NO_ROOM, ReaderEnd};
use crate::stream::words::{ABANDONED, ENDED_WITH_BINDING, FAILURE, FINISHED, ITEM, LOST};
use crate::wait_until::WaitUntil;
use crate::waiters::Unwoken;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use underpass_channel::{Doorbell, Fence, LaneReceiver, MappedLane};
use underpass_os::{barrier, failpoint, fork};
use underpass_threads::{WaitSpin, yield_now};
use underpass_wire::{Schema, from_bytes};

/// The reader's end, with what only the reader knows.
#[derive(Debug)]
pub(crate) struct OpenStream {
    receiver: LaneReceiver<MappedLane>,
    end: Arc<ReaderEnd>,
    fence: Fence,
    /// Where the bytes of the next record are copied to.
    bytes: Vec<u8>,
    /// What was learnt of how soon items come.
    spin: Mutex<WaitSpin>,
    /// Once the stream is over: what is still to be taken.
    rest: Option<Rest>,
}

/// What is still to be taken of a stream that is over.
#[derive(Debug)]
struct Rest {
    /// How many records the writer had posted.
    until: u64,
    /// How many looks find one, if the writer is honest. A hostile one posts on.
    most: usize,
}

/// How often a task looks in one poll. A hostile writer may wake it for nothing, again and again.
const POLL_LOOKS: u32 = 16;

/// What a look has found.
enum Look<T, E> {
    Item(T),
    Nothing,
    /// The stream has ended, with an error if it is incomplete.
    End(Result<(), StreamError<E>>),
}

impl OpenStream {
    /// Takes the stream in `offer`.
    ///
    /// # Errors
    /// The offer makes no sense, or this domain has no room for it.
    pub(crate) fn take(offer: StreamOffer) -> io::Result<Self> {
        let taken = offer.take()?;
        let memory = Arc::new(taken.memory);
        let end = ReaderEnd::take(memory.clone(), taken.room, taken.bell)?;
        // The writer says `light` if barriers reach it.
        let fence = if taken.light && barrier::register() { Fence::Light } else { Fence::Full };
        let receiver = LaneReceiver::new(memory, taken.sizes);
        Ok(Self { receiver, end, fence, bytes: Vec::new(), spin: Mutex::default(), rest: None })
    }

    pub(crate) fn end(&self) -> &Arc<ReaderEnd> {
        &self.end
    }

    pub(crate) fn queued(&self) -> u64 {
        self.receiver.queued()
    }

    /// Waits for the next item.
    #[inline]
    pub(crate) fn recv<T: Schema, E: Schema>(
        &mut self,
        limit: WaitUntil,
    ) -> Result<Option<T>, StreamError<E>> {
        let mut waited = false;
        loop {
            match self.look() {
                Look::Item(item) => return Ok(Some(item)),
                Look::End(how) => return how.map(|()| None),
                // A hostile writer may wake this end for nothing, again and again.
                Look::Nothing if waited && limit.is_over() => return Err(StreamError::Timeout),
                Look::Nothing => self.wait(limit)?,
            }
            waited = true;
        }
    }

    /// As [`recv`](Self::recv), for a task.
    pub(crate) fn poll_recv<T: Schema, E: Schema>(
        &mut self,
        task: &Context<'_>,
    ) -> Poll<Result<Option<T>, StreamError<E>>> {
        for _ in 0..POLL_LOOKS {
            match self.look() {
                Look::Item(item) => return Poll::Ready(Ok(Some(item))),
                Look::End(how) => return Poll::Ready(how.map(|()| None)),
                Look::Nothing => {}
            }
            self.end.waiters.leave_waker(task.waker());
            if !self.announce_wait() {
                return Poll::Pending;
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }

    /// *Wait, W1 to W3.* Returns whether a look may find something.
    fn announce_wait(&mut self) -> bool {
        if !self.end.bell.listen() {
            self.end.ends(NO_ROOM);
        }
        self.receiver.announce_wait();
        barrier::heavy();
        self.has_come()
    }

    #[cold]
    fn wait<E>(&mut self, limit: WaitUntil) -> Result<(), StreamError<E>> {
        let mut spin = std::mem::take(self.spin.get_mut().unwrap_or_else(PoisonError::into_inner));
        let waited = spin.spin_then(
            self,
            |own| own.has_come(),
            |_| limit.is_over(),
            |own| {
                if own.announce_wait() {
                    return Ok(());
                }
                failpoint!("stream-reader-waits");
                own.end.waiters.wait(limit).map_err(|why| match why {
                    Unwoken::Late => StreamError::Timeout,
                    Unwoken::Cancelled => StreamError::Cancelled,
                })
            },
        );
        let gives_way = spin.gives_way();
        *self.spin.get_mut().unwrap_or_else(PoisonError::into_inner) = spin;
        if gives_way {
            yield_now();
        }
        waited.unwrap_or(Ok(()))
    }

    /// Whether a look may find something. Counts mean nothing to a stream.
    fn has_come(&self) -> bool {
        let has_items = self.receiver.posted() != self.receiver.position();
        has_items || self.receiver.is_finished() || self.end.over() != 0
    }

    /// Takes the next record, if there is one.
    #[inline]
    fn look<T: Schema, E: Schema>(&mut self) -> Look<T, E> {
        // A child has none of its parent's lanes.
        if fork::is_forked() {
            return Look::End(Err(StreamError::PeerDied));
        }
        if self.rest.is_none() && self.end.over() != 0 {
            self.note_end();
        }
        loop {
            if let Some(rest) = &mut self.rest {
                if rest.most == 0 || self.receiver.position() >= rest.until {
                    return Look::End(self.how());
                }
                rest.most -= 1;
            }
            match self.receiver.take(&mut self.bytes) {
                Ok(Some(_)) => {
                    failpoint!("stream-reader-taken");
                    return self.taken();
                }
                Ok(None) if self.rest.is_some() => return Look::End(self.how()),
                // What the writer sent before it finished is there.
                Ok(None) if self.receiver.is_finished() => self.note_end(),
                Ok(None) => return Look::Nothing,
                Err(_) => return Look::End(Err(StreamError::Malformed)),
            }
        }
    }

    #[cold]
    fn note_end(&mut self) {
        let most = self.receiver.sizes().items();
        self.rest = Some(Rest { until: self.receiver.posted(), most });
    }

    /// A record was taken: tells a writer that waits, and decodes it.
    #[inline]
    fn taken<T: Schema, E: Schema>(&mut self) -> Look<T, E> {
        if self.receiver.after_take(self.fence) != Doorbell::None {
            self.end.ring_for_room();
        }
        let malformed = Look::End(Err(StreamError::Malformed));
        match self.bytes.split_first() {
            Some((&ITEM, bytes)) => from_bytes(bytes).map_or(malformed, Look::Item),
            Some((&FAILURE, bytes)) => {
                let error = from_bytes(bytes).map_or(StreamError::Malformed, StreamError::Failed);
                Look::End(Err(error))
            }
            _ => malformed,
        }
    }

    /// How the stream has ended, when all was taken.
    #[cold]
    fn how<E>(&self) -> Result<(), StreamError<E>> {
        let over = self.end.over();
        match self.receiver.finished() {
            FINISHED => Ok(()),
            ABANDONED => Err(StreamError::Abandoned),
            ENDED_WITH_BINDING => Err(StreamError::BindingEnded),
            LOST => Err(StreamError::PeerDied),
            0 if over & BINDING_ENDED != 0 => Err(StreamError::BindingEnded),
            0 if over & NO_ROOM != 0 => Err(StreamError::NoResources),
            0 if over & FLOODED == 0 => Err(StreamError::PeerDied),
            _ => Err(StreamError::Malformed),
        }
    }
}
