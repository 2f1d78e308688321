//! The standard health service, `grpc.health.v1`, by what [`underpass::Health`] says.

use futures_core::Stream;
use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthMethods, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use underpass::{Health, HealthChanges};

/// The health service of a gRPC server, for probes: Kubernetes', Envoy's, `grpc_health_probe`. It
/// says what an [`underpass::Health`] says at that moment.
///
/// Needs the feature `health`.
///
/// # Examples
/// The same for `underpass health greeter`, and for probes through `underpass bridge`:
///
/// ```
/// use tonic::service::Routes;
/// use underpass::Server;
/// use underpass_grpc::GrpcHealth;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-grpc-health-{}", std::process::id()));
/// # runtime.block_on(async {
///
/// let health = underpass::Health::new();
/// let probed = GrpcHealth::new(&health).named("helloworld.Greeter", &health);
/// // Usually `Routes::new(GreeterServer::new(greeter)).add_service(probed.service())`.
/// let routes = Routes::new(probed.service());
/// let server = Server::new().health(&health);
/// # let server = server.directory(&dir);
/// let running = server.export("greeter", underpass_grpc::service(routes)).start()?;
/// health.not_serving("the database is gone");
/// # drop(running);
/// # Ok::<(), underpass::Error>(())
/// # })?;
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a server has to add its `service`"]
pub struct GrpcHealth(HashMap<String, Health>);

impl GrpcHealth {
    /// That of a server which says `health` as a whole: for probes that name no service.
    pub fn new(health: &Health) -> Self {
        Self(HashMap::from([(String::new(), health.clone())]))
    }

    /// Probes that name `service`, as `package.Service`, are told `health`. All others are told
    /// that there is no such service.
    pub fn named(mut self, service: impl Into<String>, health: &Health) -> Self {
        self.0.insert(service.into(), health.clone());
        self
    }

    /// As [`named`](Self::named), by the type of a server.
    pub fn of<S: NamedService>(self, health: &Health) -> Self {
        self.named(S::NAME, health)
    }

    /// What tonic's `Routes` or `Server` adds.
    pub fn service(self) -> HealthServer<impl HealthMethods> {
        HealthServer::new(self)
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

fn status_of(why_not: Option<String>) -> ServingStatus {
    why_not.map_or(ServingStatus::Serving, |_| ServingStatus::NotServing)
}

#[tonic::async_trait]
impl HealthMethods for GrpcHealth {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let health = self.0.get(&request.get_ref().service);
        let health = health.ok_or_else(|| Status::not_found("there is no such service"))?;
        Ok(Response::new(response(status_of(health.why_not()))))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let health = self.0.get(&request.get_ref().service);
        let watched = WatchedHealth { changes: health.map(Health::changes), told: None };
        Ok(Response::new(Box::pin(watched)))
    }
}

/// What a probe that watches is told.
#[derive(Debug)]
struct WatchedHealth {
    /// None if there is no such service.
    changes: Option<HealthChanges>,
    told: Option<ServingStatus>,
}

impl Stream for WatchedHealth {
    type Item = Result<HealthCheckResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            let now = match &mut this.changes {
                Some(changes) => status_of(ready!(changes.poll_next(cx))),
                // The standard says that such a stream stays open. No service comes later.
                None if this.told.is_some() => return Poll::Pending,
                None => ServingStatus::ServiceUnknown,
            };
            // Another reason is the same status.
            if this.told.replace(now) != Some(now) {
                return Poll::Ready(Some(Ok(response(now))));
            }
        }
    }
}
