//! Handlers that wait, and what becomes of them.

use crate::generated::control_server::Control;
use crate::generated::{Caller, Counts, Empty, UnaryRequest, UnaryResponse};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status, Streaming};
use underpass::Peer;

/// The implementation of `Control`. Clones share their counts.
#[derive(Clone, Debug, Default)]
pub struct ControlService(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    waiting: AtomicU64,
    dropped: AtomicU64,
    /// How streams of requests have ended.
    ends: Mutex<Vec<Code>>,
}

/// A handler, or its responses, that wait until they are dropped.
struct Held(Arc<Known>);

impl Held {
    fn new(known: &Arc<Known>) -> Self {
        known.waiting.fetch_add(1, Ordering::SeqCst);
        Self(known.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// One response, and then none.
struct HeldAfterOne {
    first: bool,
    _held: Held,
}

impl Stream for HeldAfterOne {
    type Item = Result<Empty, Status>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match std::mem::replace(&mut self.get_mut().first, false) {
            true => Poll::Ready(Some(Ok(Empty {}))),
            false => Poll::Pending,
        }
    }
}

/// Responses without an end.
struct Flooding {
    response: UnaryResponse,
    _held: Held,
}

impl Stream for Flooding {
    type Item = Result<UnaryResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Ok(self.response.clone())))
    }
}

#[tonic::async_trait]
impl Control for ControlService {
    async fn hold(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        let _held = Held::new(&self.0);
        std::future::pending().await
    }

    type HoldOutputStream = Pin<Box<dyn Stream<Item = Result<Empty, Status>> + Send>>;

    async fn hold_output(&self, _: Request<Empty>) -> Result<Response<Self::HoldOutputStream>, Status> {
        let held = HeldAfterOne { first: true, _held: Held::new(&self.0) };
        Ok(Response::new(Box::pin(held)))
    }

    async fn hold_input(&self, request: Request<Streaming<UnaryRequest>>) -> Result<Response<Empty>, Status> {
        let _held = Held::new(&self.0);
        let mut requests = request.into_inner();
        let end = loop {
            match requests.message().await {
                Ok(Some(_)) => {}
                Ok(None) => break Code::Ok,
                Err(status) => break status.code(),
            }
        };
        self.0.ends.lock().unwrap_or_else(PoisonError::into_inner).push(end);
        std::future::pending().await
    }

    type FloodStream = Pin<Box<dyn Stream<Item = Result<UnaryResponse, Status>> + Send>>;

    async fn flood(&self, request: Request<UnaryRequest>) -> Result<Response<Self::FloodStream>, Status> {
        let response = UnaryResponse { payload: vec![7; request.into_inner().response_size as usize].into() };
        Ok(Response::new(Box::pin(Flooding { response, _held: Held::new(&self.0) })))
    }

    async fn count(&self, _: Request<Empty>) -> Result<Response<Counts>, Status> {
        let ends = self.0.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = ends.iter().rev().map(|&end| end as i32).collect();
        let (waiting, dropped) = (&self.0.waiting, &self.0.dropped);
        Ok(Response::new(Counts {
            waiting: waiting.load(Ordering::SeqCst),
            dropped: dropped.load(Ordering::SeqCst),
            ends,
        }))
    }

    async fn panic(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        tokio::task::yield_now().await;
        panic!("on purpose");
    }

    async fn who(&self, request: Request<Empty>) -> Result<Response<Caller>, Status> {
        let peer = request.extensions().get::<Peer>();
        let caller = peer.map(|peer| Caller { process: peer.pid(), user: peer.uid() });
        Ok(Response::new(caller.unwrap_or_default()))
    }
}
