//! The server stubs of synchronous ports: a message is pushed for the receivers, or a handler runs.

use crate::__private::{Dispatch, IncomingCall, Refused};
use crate::arrival::SenderId;
use crate::sync::interface::{NO_NUMBER, OPEN, PortRefusal, RefusalMark, SEND, SKIP, SyncPortSizes};
use crate::sync::lane::{SyncLane, SyncQueue};
use crate::sync::message::{PortRequest, SyncMessage};
use crate::sync::reply::Reply;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass_os::failpoint;
use underpass_wire::{ArgumentPlace, Schema};

/// Pushes messages for the receivers.
pub(crate) struct QueueStub<M: SyncMessage, R: Schema + Send + 'static>(Arc<SyncQueue<M, R>>);

/// Answers messages by a handler.
pub(crate) struct HandlerStub<M, R, F> {
    messages: u64,
    longest: u64,
    lanes: AtomicU64,
    handler: F,
    of: PhantomData<fn(M) -> R>,
}

/// The number of a sender at a port with a handler.
struct LaneNumber(u64);

fn number(call: &mut IncomingCall<'_>) -> Result<u64, Refused> {
    let mut number = ArgumentPlace::new();
    call.argument::<u64>(&mut number)?;
    Ok(number.give())
}

impl<M: SyncMessage, R: Schema + Send + 'static> QueueStub<M, R> {
    pub(crate) fn new(port: Arc<SyncQueue<M, R>>) -> Self {
        Self(port)
    }

    /// The sender's lane, over whose binding the call has come.
    #[inline]
    fn lane(&self, call: &IncomingCall<'_>) -> Arc<SyncLane<M, R>> {
        call.binding_state(|| self.0.lane(call.binding_id()))
    }

    /// *D1 and D2.*
    fn send(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
        let number = number(call)?;
        let lane = self.lane(call);
        if call.left() as u64 > self.0.longest {
            if number != NO_NUMBER {
                lane.skip(number);
            }
            call.reply::<R, RefusalMark>(&Err(PortRefusal::TooLong))?;
            return Ok(());
        }
        failpoint!("sync-owner-came");
        let message = M::arrive(call)?;
        call.end()?;
        let reply = Reply::new(call.defer::<R, RefusalMark>()?);
        failpoint!("sync-owner-deferred");
        let message = PortRequest::new(message, lane.from, reply);
        match number {
            NO_NUMBER => lane.comes(message),
            number => lane.comes_as(number, message),
        }
        Ok(())
    }
}

impl<M: SyncMessage, R: Schema + Send + 'static> Dispatch for QueueStub<M, R> {
    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
        match call.procedure() {
            SEND => self.send(call),
            OPEN => {
                call.end()?;
                let SenderId { lane, .. } = self.lane(call).from;
                let port = &self.0;
                opened(
                    call,
                    SyncPortSizes { lane, messages: port.messages, longest: port.longest, ordered: true },
                )
            }
            SKIP => {
                let number = number(call)?;
                call.end()?;
                self.lane(call).skip(number);
                call.reply::<(), RefusalMark>(&Ok(()))?;
                Ok(())
            }
            _ => call.unknown(),
        }
    }
}

fn opened(call: &mut IncomingCall<'_>, sizes: SyncPortSizes) -> Result<(), Refused> {
    call.reply::<SyncPortSizes, RefusalMark>(&Ok(sizes))?;
    Ok(())
}

impl<M, R, F> HandlerStub<M, R, F> {
    pub(crate) fn new(messages: u64, longest: u64, handler: F) -> Self {
        Self { messages, longest, lanes: AtomicU64::new(0), handler, of: PhantomData }
    }
}

impl<M, R, F> Dispatch for HandlerStub<M, R, F>
where
    M: SyncMessage,
    R: Schema + Send + 'static,
    F: Fn(M::Arrives) -> R + Send + Sync + 'static,
{
    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
        match call.procedure() {
            SEND => {
                let _without_order = number(call)?;
                if call.left() as u64 > self.longest {
                    call.reply::<R, RefusalMark>(&Err(PortRefusal::TooLong))?;
                    return Ok(());
                }
                let message = M::arrive(call)?;
                call.end()?;
                let reply = Ok((self.handler)(message));
                if call.reply::<R, RefusalMark>(&reply)? {
                    call.drop_later(reply);
                }
                Ok(())
            }
            OPEN => {
                call.end()?;
                // Relaxed: a number.
                let lane =
                    call.binding_state(|| LaneNumber(self.lanes.fetch_add(1, Ordering::Relaxed) + 1)).0;
                let (messages, longest) = (self.messages, self.longest);
                opened(call, SyncPortSizes { lane, messages, longest, ordered: false })
            }
            _ => call.unknown(),
        }
    }
}
