//! Addresses of servers.

use crate::channel::{Channel, Route};
use crate::near::Near;
use crate::outcome;
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;
use underpass::Outcome;

/// The address of a server, and how to connect to it. [`Channel::from_static`] and
/// [`Channel::from_shared`] make it.
#[derive(Clone, Debug)]
#[must_use = "nothing is connected before `connect`"]
pub struct Endpoint {
    address: Address,
    timeout: Option<Duration>,
    connect_timeout: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Address {
    /// A name that a domain of this machine exports.
    Near(String),
    /// What tonic's own channel connects to.
    Far(Box<tonic::transport::Endpoint>),
    /// No address, and why.
    Bad(Arc<str>),
}

/// Before the name in the address of a server on this machine.
const SCHEME: &str = "underpass:";

impl Endpoint {
    pub(crate) fn new(address: &str) -> Self {
        let address = match address.strip_prefix(SCHEME) {
            Some(name) => Address::Near(name.to_owned()),
            None => {
                far(address).map_or_else(|why| Address::Bad(why.into()), |far| Address::Far(Box::new(far)))
            }
        };
        Self { address, timeout: None, connect_timeout: None }
    }

    /// How long each call may wait for the beginning of its response. The timeout of a request
    /// (`grpc-timeout`) counts if it is shorter.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self.with_tonic(|far| far.timeout(time))
    }

    /// How long to wait for the server. Without it, a name that nobody exports is an error at once.
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = Some(time);
        self.with_tonic(|far| far.connect_timeout(time))
    }

    /// Changes what only tonic's own channel has: TLS, windows, keep-alive. It changes nothing of
    /// an address of this machine.
    ///
    /// # Examples
    /// ```
    /// use underpass_grpc::Channel;
    ///
    /// let endpoint = Channel::from_static("http://localhost:50051").with_tonic(|far| far.tcp_nodelay(true));
    /// # let _ = endpoint;
    /// ```
    pub fn with_tonic(
        mut self,
        change: impl FnOnce(tonic::transport::Endpoint) -> tonic::transport::Endpoint,
    ) -> Self {
        if let Address::Far(far) = self.address {
            self.address = Address::Far(Box::new(change(*far)));
        }
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// `UNAVAILABLE` if there is no server, `PERMISSION_DENIED` if it refuses this client,
    /// `INVALID_ARGUMENT` if the address is none. The message names the remedy.
    pub async fn connect(&self) -> Result<Channel, Status> {
        match &self.address {
            Address::Near(_) | Address::Bad(_) => {
                let channel = self.connect_lazy();
                channel.connected().await?;
                Ok(channel)
            }
            Address::Far(far) => {
                let channel = far.connect().await.map_err(|error| Status::from_error(Box::new(error)))?;
                Ok(Channel::over(Route::Far(channel)))
            }
        }
    }

    /// A channel that connects at its first call, and again after its server has ended.
    pub fn connect_lazy(&self) -> Channel {
        Channel::over(match &self.address {
            Address::Near(name) => Route::Near(Near::new(name.clone(), self.timeout, self.connect_timeout)),
            Address::Far(far) => Route::Far(far.connect_lazy()),
            Address::Bad(why) => Route::None(why.clone()),
        })
    }
}

/// The status of calls to an address that is none.
pub(crate) fn bad_address(why: &str) -> Status {
    outcome::with_outcome(Status::invalid_argument(why), Outcome::NotStarted)
}

/// What tonic connects to.
fn far(address: &str) -> Result<tonic::transport::Endpoint, String> {
    let endpoint = tonic::transport::Endpoint::from_shared(address.to_owned()).map_err(|error| {
        format!("`{address}` is no address ({error}); write underpass:NAME, http://…, https://… or unix:PATH")
    })?;
    if !address.starts_with("https:") {
        return Ok(endpoint);
    }
    with_tls(endpoint).map_err(|why| format!("`{address}`: {why}"))
}

#[cfg(feature = "tls")]
fn with_tls(endpoint: tonic::transport::Endpoint) -> Result<tonic::transport::Endpoint, String> {
    let roots = tonic::transport::ClientTlsConfig::new().with_enabled_roots();
    endpoint.tls_config(roots).map_err(|error| error.to_string())
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: tonic::transport::Endpoint) -> Result<tonic::transport::Endpoint, String> {
    Err("this program was built without TLS; enable the feature `tls` of underpass-grpc".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn the_address_says_which_way() {
        let is_far = |address: &str| match Endpoint::new(address).address {
            Address::Near(_) => Some(false),
            Address::Far(_) => Some(true),
            Address::Bad(_) => None,
        };
        assert_eq!(is_far("underpass:greeter"), Some(false));
        assert_eq!(is_far("http://localhost:1"), Some(true));
        assert_eq!(is_far("unix:///tmp/greeter.sock"), Some(true));
        assert_eq!(is_far("https://localhost:1"), cfg!(feature = "tls").then_some(true));
        assert_eq!(is_far("not an address"), None);
    }

    #[test]
    fn a_bad_address_is_told_at_the_connect() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error = runtime.block_on(Endpoint::new("not an address").connect()).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains("underpass:NAME"), "{error}");
        let error = runtime.block_on(Endpoint::new("underpass:no/name").connect()).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        let error = runtime.block_on(Endpoint::new("underpass:nobody-exports-this").connect()).unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert_eq!(error.metadata().get(outcome::OUTCOME).unwrap(), "not-started");
    }
}
