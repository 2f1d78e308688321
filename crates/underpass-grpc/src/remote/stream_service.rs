//! The server's side of a call that passes streams.

use crate::remote::service::Asked;
use crate::remote::status::status_of;
use crate::remote::stream_carrier::{CallNews, IncomingStream, send_messages, take_messages};
use crate::remote::stream_messages::{CallMessage, MessageSender, Responses};
use crate::timeout::grpc_timeout;
use bytes::Bytes;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tonic::server::StreamingService;
use tonic::{Request, Response, Status, Streaming};
use underpass::remote::{RemoteMessage, RemoteStreamReader, RemoteStreamWriter, StreamPlace};
use underpass::{CallError, Outcome};

/// How long a client may take to send the arguments.
const SENDING: Duration = Duration::from_secs(60);

/// The method of a request whose procedure passes streams, for tonic's codec.
pub(super) struct StreamMethod(pub(super) Option<Asked>);

impl StreamingService<Bytes> for StreamMethod {
    type Response = Bytes;
    type ResponseStream = Responses;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Responses>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let asked = self.0.take();
        Box::pin(async move {
            let asked = asked.ok_or_else(|| Status::internal("a request was answered twice"))?;
            asked.check(request.metadata())?;
            let left = grpc_timeout(request.metadata().as_ref());
            let (to, responses) = mpsc::channel(1);
            // The task ends when its response is dropped: when the client dies or gives up.
            let watched = to.clone();
            let served = serve(asked, request.into_inner(), to, left);
            tokio::spawn(async move {
                tokio::select! {
                    () = watched.closed() => {}
                    () = served => {}
                }
            });
            Ok(Response::new(Responses(responses)))
        })
    }
}

/// Runs a call, and carries its streams until they are over.
async fn serve(asked: Asked, mut messages: Streaming<Bytes>, to: MessageSender, left: Option<Duration>) {
    let served = async {
        let (arguments, writer) = arguments(&mut messages, asked.most_bytes).await?;
        let (news, (into, is_over)) = (CallNews::default(), IncomingStream::new(writer));
        let mut answered = pin!(answer(asked, arguments, &to, &news, left, is_over));
        // It is dropped first: a client that dies is told apart from the end of the call's binding.
        let mut taken = pin!(take_messages(&mut messages, into, &news));
        tokio::select! {
            answered = &mut answered => answered,
            taken = &mut taken => {
                taken?;
                // The client sends no more, but still reads.
                answered.await
            }
        }
    };
    if let Err(status) = served.await {
        let _ = to.send(Err(status)).await;
    }
}

/// The arguments that the client sends first, and the writer of the stream in them.
///
/// # Errors
/// They do not come, or there is no room for the stream.
async fn arguments(
    messages: &mut Streaming<Bytes>,
    most_bytes: usize,
) -> Result<(RemoteMessage, Option<RemoteStreamWriter>), Status> {
    let late = |_| Status::cancelled("the arguments did not come");
    let first = tokio::time::timeout(SENDING, messages.message()).await.map_err(late)??;
    let first = first.map(|first| CallMessage::read(&first)).transpose()?;
    let Some(CallMessage::Value(mut arguments, place)) = first else {
        return Err(Status::invalid_argument("the arguments have to come first"));
    };
    let open = |place| RemoteStreamWriter::put(&mut arguments, place, most_bytes, true);
    let no_room = |error: underpass::stream::OpenStreamError| {
        status_of(&CallError::NoResources(Outcome::NotStarted, error.to_string()))
    };
    let writer = place.map(open).transpose().map_err(no_room)?;
    Ok((arguments, writer))
}

/// Runs the call, sends its result, and then what the stream in that has.
///
/// # Errors
/// What became of the call, if there is no result.
async fn answer(
    asked: Asked,
    arguments: RemoteMessage,
    to: &MessageSender,
    news: &CallNews,
    left: Option<Duration>,
    is_over: oneshot::Receiver<()>,
) -> Result<(), Status> {
    let most_bytes = asked.most_bytes;
    let called = asked.call_with_streams(arguments);
    let mut called = pin!(async {
        match left {
            None => called.await,
            Some(left) => {
                tokio::time::timeout(left, called).await.unwrap_or(Err(CallError::Deadline(Outcome::Unknown)))
            }
        }
    });
    let called = loop {
        tokio::select! {
            called = &mut called => break called,
            // The handler reads its stream, or has dropped it, and runs on.
            message = news.next() => drop(to.send(Ok(message.to_bytes())).await),
        }
    };
    let (mut result, _in_streams) = called.map_err(|error| status_of(&error))?;
    let taken = RemoteStreamReader::take(&mut result, most_bytes);
    let refused =
        |error: std::io::Error| status_of(&CallError::NoResources(Outcome::Executed, error.to_string()));
    let (mut reader, place): (_, Option<StreamPlace>) = taken.map_err(refused)?.unzip();
    let value = CallMessage::Value(result, place).to_bytes();
    // If it can't be sent, the client has gone, and this task is about to be dropped.
    let _ = to.send(Ok(value)).await;
    send_messages(&mut reader, to, news, async { drop(is_over.await) }).await;
    Ok(())
}
