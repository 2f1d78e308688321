//! The layer that exports a tonic server's services beside its listener.

use crate::outcome;
use crate::responder::{Cloned, Responder, Responding, ServesGrpc};
use http::Request;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tower_layer::Layer;
use tower_service::Service;
use underpass::{Outcome, Running};

/// The layer that [`alongside`](crate::alongside()) makes. It changes nothing of the service below
/// it.
#[derive(Clone)]
#[must_use = "the export ends when this is dropped; put it into `Server::builder().layer(..)`"]
pub struct Alongside {
    later: Arc<ServiceBelow>,
    running: Option<Arc<Running>>,
}

/// The service below the layer, with the export that ends with it.
#[derive(Clone)]
pub struct AlongsideService<S> {
    below: S,
    _running: Option<Arc<Running>>,
}

/// The service below, once the server is built.
#[derive(Default)]
struct ServiceBelow(RwLock<Option<Arc<dyn Responder>>>);

impl Alongside {
    /// What is exported, and the layer, before the export.
    pub(crate) fn unserved() -> (Arc<dyn Responder>, Self) {
        let later = Arc::new(ServiceBelow::default());
        (later.clone(), Self { later, running: None })
    }

    /// The layer, which keeps the export.
    pub(crate) fn exported(self, running: Running) -> Self {
        Self { running: Some(Arc::new(running)), ..self }
    }
}

impl Responder for ServiceBelow {
    fn respond(&self, request: Request<Body>) -> Responding {
        let below = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        match below {
            Some(below) => below.respond(request),
            None => {
                let status = Status::unavailable("the server is about to start; try again");
                let status = outcome::with_outcome(status, Outcome::NotStarted);
                Box::pin(async move { Err(status) })
            }
        }
    }
}

impl<S: ServesGrpc> Layer<S> for Alongside {
    type Service = AlongsideService<S>;

    fn layer(&self, below: S) -> AlongsideService<S> {
        let served: Arc<dyn Responder> = Arc::new(Cloned::new(below.clone()));
        *self.later.0.write().unwrap_or_else(PoisonError::into_inner) = Some(served);
        AlongsideService { below, _running: self.running.clone() }
    }
}

impl<S: Service<R>, R> Service<R> for AlongsideService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.below.poll_ready(task)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.below.call(request)
    }
}

impl fmt::Debug for Alongside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alongside").field("running", &self.running).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for AlongsideService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AlongsideService").field(&self.below).finish()
    }
}
