//! The client's side of a call that passes streams.

use crate::remote::binding::{SharedHttpBinding, within};
use crate::remote::codec::BytesCodec;
use crate::remote::stream_carrier::{CallNews, IncomingStream, send_messages, take_messages};
use crate::remote::stream_messages::{CallMessage, CallRequests, MOST_BESIDE, MessageSender};
use bytes::Bytes;
use http::uri::PathAndQuery;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::{Request, Status, Streaming};
use underpass::remote::{RemoteCall, RemoteMessage, RemoteStreamReader, RemoteStreamWriter, StreamPlace};
use underpass::{CallError, Outcome, TraceContext};

impl SharedHttpBinding {
    /// Makes a call that passes streams, and carries them until they are over.
    pub(super) async fn call_with_streams(
        &self,
        mut call: RemoteCall,
        path: PathAndQuery,
        left: Option<Duration>,
    ) {
        let mut arguments = call.take_arguments();
        let refuse = |error: io::Error| CallError::NoResources(Outcome::NotStarted, error.to_string());
        let (mut reader, place): (_, Option<StreamPlace>) =
            match RemoteStreamReader::take(&mut arguments, self.most_bytes).map_err(refuse) {
                Ok(stream) => stream.unzip(),
                Err(error) => return call.answer(Err(error)),
            };
        let ended = self.carry(call, arguments, place, &mut reader, path, left).await;
        // Without a connection, the drop of the reader looks like a death. Otherwise the server
        // has read all that it wanted.
        if let (Ended::Properly, Some(reader)) = (ended, reader) {
            reader.close();
        }
    }

    async fn carry(
        &self,
        call: RemoteCall,
        arguments: RemoteMessage,
        place: Option<StreamPlace>,
        reader: &mut Option<RemoteStreamReader>,
        path: PathAndQuery,
        left: Option<Duration>,
    ) -> Ended {
        let request = match self.streaming_request(arguments, place, left, call.trace_context()) {
            Ok(request) => request,
            Err(error) => {
                call.answer(Err(error));
                return Ended::Properly;
            }
        };
        let (to, request) = request;
        let news = CallNews::default();
        let mut sent = pin!(send_messages(reader, &to, &news, pending()));
        let begun = async {
            let begun = tokio::time::Instant::now();
            let result = within(left, self.begin(request, path, &news)).await;
            let late = left.is_some_and(|left| begun.elapsed() >= left);
            result.map_err(|status| self.failed(&status, late))
        };
        let begun = tokio::select! {
            // The request is dropped, which resets its stream.
            () = call.unwanted() => return Ended::Properly,
            () = &mut sent => return Ended::Properly,
            begun = begun => begun,
        };
        let (result, writer, mut messages) = match begun.and_then(|(result, place, messages)| {
            let (result, writer) = self.opened(result, place)?;
            Ok((result, writer, messages))
        }) {
            Ok(begun) => begun,
            Err(error) => {
                let ended =
                    if matches!(error, CallError::PeerDied(_)) { Ended::Lost } else { Ended::Properly };
                call.answer(Err(error));
                return ended;
            }
        };
        call.answer(Ok(result));
        let (into, _) = IncomingStream::new(writer);
        tokio::select! {
            () = &mut sent => Ended::Properly,
            taken = take_messages(&mut messages, into, &news) => match taken {
                Ok(()) => Ended::Properly,
                Err(_) => Ended::Lost,
            },
        }
    }

    /// The request: what sends its messages, and the request itself. It has the arguments already.
    fn streaming_request(
        &self,
        arguments: RemoteMessage,
        place: Option<StreamPlace>,
        left: Option<Duration>,
        context: Option<&TraceContext>,
    ) -> Result<(MessageSender, Request<CallRequests>), CallError> {
        let value = CallMessage::Value(arguments, place).to_bytes();
        let (to, requests) = mpsc::channel(1);
        let request = self.request(CallRequests(requests), value.len(), left, context)?;
        // There is room for the first message.
        let _ = to.try_send(Ok(value));
        Ok((to, request))
    }

    /// Sends the request, and waits for the result.
    async fn begin(
        &self,
        request: Request<CallRequests>,
        path: PathAndQuery,
        news: &CallNews,
    ) -> Result<(RemoteMessage, Option<StreamPlace>, Streaming<Bytes>), Status> {
        let most = self.most_bytes.saturating_add(MOST_BESIDE);
        let mut grpc = Grpc::new(self.carriers.own.clone()).max_decoding_message_size(most);
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let mut messages = grpc.streaming(request, path, BytesCodec).await?.into_inner();
        loop {
            let message = messages.message().await?;
            let message = message.ok_or_else(|| Status::internal("the result did not come"))?;
            match news.hear(CallMessage::read(&message)?)? {
                None => {}
                Some(CallMessage::Value(result, place)) => return Ok((result, place, messages)),
                Some(_) => return Err(Status::internal("an item came before the result")),
            }
        }
    }

    /// Opens the stream in a result.
    fn opened(
        &self,
        mut result: RemoteMessage,
        place: Option<StreamPlace>,
    ) -> Result<(RemoteMessage, Option<RemoteStreamWriter>), CallError> {
        let open = |place| RemoteStreamWriter::put(&mut result, place, self.most_bytes, false);
        let opened = place.map(open).transpose();
        let writer = opened.map_err(|e| CallError::NoResources(Outcome::Executed, e.to_string()))?;
        Ok((result, writer))
    }
}

/// How the carrying has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The server has ended the call, or nobody wants it.
    Properly,
    /// The server can't be reached any more.
    Lost,
}
