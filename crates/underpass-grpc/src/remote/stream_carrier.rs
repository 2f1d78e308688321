//! Carries the streams of a call between this machine and gRPC's messages. Both sides use it. The
//! README.md of this folder says who may wait for whom.

use crate::remote::credit::{ReceiveCredit, SendCredit};
use crate::remote::stream_messages::{CallMessage, ItemsBatch, ItemsMessage};
use bytes::Bytes;
use std::future::{pending, ready};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tonic::{Status, Streaming};
use underpass::remote::{RemoteRecord, RemoteStreamEnd, RemoteStreamReader, RemoteStreamWriter};

/// What one direction of a call tells the other one. All of a call's loops run in one task.
#[derive(Default)]
pub(super) struct CallNews {
    counts: Mutex<CallCounts>,
    /// There is something to tell the peer.
    to_tell: Notify,
    /// The peer's reader wants no more.
    peer_gone: Notify,
    /// The peer has taken some messages.
    peer_takes: Notify,
}

#[derive(Default)]
struct CallCounts {
    /// The reader on this machine wants no more, and the peer is to be told so.
    own_gone: bool,
    /// Messages were taken, and the peer is to be told so.
    taken: bool,
    received: ReceiveCredit,
    sent: SendCredit,
}

impl CallNews {
    /// Nobody keeps it across a wait.
    fn counts(&self) -> MutexGuard<'_, CallCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message with news for the peer. A future that is dropped has taken none.
    pub(super) async fn next(&self) -> CallMessage {
        loop {
            if let Some(news) = self.counts().what_to_tell() {
                return news;
            }
            self.to_tell.notified().await;
        }
    }

    fn tell_gone(&self) {
        self.counts().own_gone = true;
        self.to_tell.notify_one();
    }

    /// The oldest message that came was taken.
    fn took(&self) {
        let mut counts = self.counts();
        if counts.received.took() {
            counts.taken = true;
            self.to_tell.notify_one();
        }
    }

    /// Notes the peer's news. Returns the message, if it has none.
    ///
    /// # Errors
    /// The news can't be true.
    pub(super) fn hear(&self, message: CallMessage) -> Result<Option<CallMessage>, Status> {
        match message {
            CallMessage::ReaderGone => self.peer_gone.notify_one(),
            CallMessage::Taken(count) => {
                self.counts().sent.hear(count)?;
                self.peer_takes.notify_one();
            }
            other => return Ok(Some(other)),
        }
        Ok(None)
    }
}

impl CallCounts {
    fn what_to_tell(&mut self) -> Option<CallMessage> {
        if std::mem::take(&mut self.own_gone) {
            return Some(CallMessage::ReaderGone);
        }
        std::mem::take(&mut self.taken).then(|| CallMessage::Taken(self.received.tell()))
    }
}

/// A stream into which records of the peer go. The other end of the channel learns that it is over
/// by the drop of this one.
pub(super) struct IncomingStream {
    writer: RemoteStreamWriter,
    _over: oneshot::Sender<()>,
}

impl IncomingStream {
    /// The stream of this writer, if there is one, and what ends when it is over.
    pub(super) fn new(writer: Option<RemoteStreamWriter>) -> (Option<Self>, oneshot::Receiver<()>) {
        let (over, is_over) = oneshot::channel();
        (writer.map(|writer| Self { writer, _over: over }), is_over)
    }
}

/// What came of a stream.
enum Queued {
    Items(ItemsMessage),
    End(RemoteRecord),
}

/// Takes the peer's messages until there are no more, and all that came is in the stream.
///
/// # Errors
/// The peer can't be reached any more, or has broken the rules. What was not in the stream yet is
/// lost.
pub(super) async fn take_messages(
    messages: &mut Streaming<Bytes>,
    into: Option<IncomingStream>,
    news: &CallNews,
) -> Result<(), Status> {
    let (queue, queued) = unbounded_channel();
    let (mut receiving, mut filling) = (pin!(receive(messages, queue, news)), pin!(fill(into, queued, news)));
    tokio::select! {
        received = &mut receiving => {
            received?;
            filling.await;
            Ok(())
        }
        () = &mut filling => receiving.await,
    }
}

/// Queues what the peer sends, without any other wait. Credit bounds the queue.
async fn receive(
    messages: &mut Streaming<Bytes>,
    queue: UnboundedSender<Queued>,
    news: &CallNews,
) -> Result<(), Status> {
    let mut has_ended = false;
    while let Some(message) = messages.message().await? {
        let queued = match news.hear(CallMessage::read(&message)?)? {
            None => continue,
            Some(_) if has_ended => return Err(Status::invalid_argument("a message came after the end")),
            Some(CallMessage::Items(items)) => {
                news.counts().received.came(message.len())?;
                Queued::Items(items)
            }
            Some(CallMessage::End(end)) => {
                has_ended = true;
                Queued::End(end)
            }
            Some(_) => return Err(Status::invalid_argument("a second value came")),
        };
        // Nobody takes it after the stream is over.
        let _ = queue.send(queued);
    }
    Ok(())
}

/// Puts what was queued into the stream, and waits for room, until the stream is over. Nothing
/// counts as taken afterwards, so the peer soon has no credit left.
async fn fill(into: Option<IncomingStream>, mut queued: UnboundedReceiver<Queued>, news: &CallNews) {
    let Some(stream) = into else { return };
    loop {
        let next = tokio::select! {
            biased;
            next = queued.recv() => next,
            () = stream.writer.closed() => return news.tell_gone(),
        };
        match next {
            // The peer has not said how the stream ends.
            None => return,
            Some(Queued::Items(items)) => {
                for item in items {
                    if stream.writer.send(RemoteRecord::Item(item)).await.is_err() {
                        return give_up(stream, news);
                    }
                }
                news.took();
            }
            Some(Queued::End(RemoteRecord::End(how))) => return stream.writer.end(how),
            Some(Queued::End(failure)) => {
                if stream.writer.send(failure).await.is_err() {
                    give_up(stream, news);
                }
                return;
            }
        }
    }
}

/// The reader has gone, or a record is longer than the stream allows.
fn give_up(stream: IncomingStream, news: &CallNews) {
    stream.writer.end(RemoteStreamEnd::Malformed);
    news.tell_gone();
}

/// Sends the records of `reader` and this side's news, until both streams are over: that of
/// `reader`, and the one whose end `other_over` tells.
pub(super) async fn send_messages(
    reader: &mut Option<RemoteStreamReader>,
    to: &Sender<Result<Bytes, Status>>,
    news: &CallNews,
    other_over: impl Future<Output = ()>,
) {
    let (mut other_over, mut is_over) = (pin!(other_over), false);
    let (mut batch, mut end) = (ItemsBatch::default(), None);
    while reader.is_some() || !batch.is_empty() || end.is_some() || !is_over {
        let may_send = !batch.is_empty() && news.counts().sent.may_send(batch.len());
        let message = tokio::select! {
            // News first: a peer that learns of the end of its stream sends no more.
            biased;
            message = news.next() => message.to_bytes(),
            () = news.peer_gone.notified() => {
                if let Some(reader) = reader.take() {
                    reader.close();
                }
                (batch, end) = (ItemsBatch::default(), None);
                continue;
            }
            // What is ready goes with one message.
            record = next(reader), if !batch.is_full() => {
                match record {
                    RemoteRecord::Item(item) => batch.push(&item),
                    last => (*reader, end) = (None, Some(last)),
                }
                continue;
            }
            () = ready(()), if may_send => {
                news.counts().sent.sent(batch.len());
                batch.take()
            }
            last = take_end(&mut end), if batch.is_empty() => CallMessage::End(last).to_bytes(),
            () = news.peer_takes.notified() => continue,
            () = &mut other_over, if !is_over => {
                is_over = true;
                continue;
            }
        };
        if to.send(Ok(message)).await.is_err() {
            // The peer can't be reached. The other direction finds that too.
            return pending().await;
        }
    }
}

/// Takes the end, if it is known already.
async fn take_end(end: &mut Option<RemoteRecord>) -> RemoteRecord {
    match end.take() {
        Some(end) => end,
        None => pending().await,
    }
}

/// The next record, if there is a reader.
async fn next(reader: &mut Option<RemoteStreamReader>) -> RemoteRecord {
    match reader {
        Some(reader) => reader.next().await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
