//! Clients on other machines: their identity, and how they prove it.

use std::fmt;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Decides whose a bearer token is.
type Verify = dyn Fn(&str) -> Option<String> + Send + Sync;

/// A client on another machine, as far as it has proved who it is.
///
/// # Examples
/// ```no_run
/// # fn server(fs: underpass::Service) -> underpass::Service {
/// fs.authorize(|peer| match peer.remote() {
///     Some(remote) => remote.subject() == Some("backup"),
///     None => peer.uid() == 0,
/// })
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemotePeer {
    pub(crate) address: Option<SocketAddr>,
    pub(crate) certificates: Vec<Vec<u8>>,
    pub(crate) subject: Option<String>,
}

impl RemotePeer {
    /// A client that has proved nothing yet. A transport makes it.
    pub fn at(address: Option<SocketAddr>) -> Self {
        Self { address, ..Self::default() }
    }

    /// The same client, with the certificates that TLS has verified, its own first, in DER.
    #[must_use]
    pub fn with_certificates(self, certificates: Vec<Vec<u8>>) -> Self {
        Self { certificates, ..self }
    }

    /// The other end of its connection, which may be a proxy. Not known behind some listeners.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The certificates by which it has proved who it is, its own first, in DER. TLS has checked
    /// them against the authority of the listener. Empty if it has none.
    pub fn certificates(&self) -> &[Vec<u8>] {
        &self.certificates
    }

    /// The owner of its bearer token, as the function of [`RemotePeers::token`] says.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }
}

/// How clients on other machines prove who they are, before they may call an export. One proof of
/// those that are named is enough.
///
/// # Examples
/// ```
/// use underpass::remote::RemotePeers;
///
/// let by_token = RemotePeers::token(|token| (token == "s3cret").then(|| "backup".to_owned()));
/// let by_either = by_token.or_certificate();
/// # let _ = by_either;
/// ```
#[derive(Clone)]
pub struct RemotePeers {
    certificate: bool,
    token: Option<Arc<Verify>>,
    anyone: bool,
}

/// Why a remote client may not call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoProof(pub(crate) &'static str);

impl RemotePeers {
    /// By a certificate of the authority that the listener names (mutual TLS).
    pub fn certificate() -> Self {
        Self { certificate: true, token: None, anyone: false }
    }

    /// By a bearer token in the metadata `authorization`. `whose` returns whose it is, which
    /// [`RemotePeer::subject`] tells then, or `None` if it is not valid. It is asked at each call,
    /// so it should not block. If it panics, the client is refused. Compare secrets in
    /// constant time.
    pub fn token(whose: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { certificate: false, token: Some(Arc::new(whose)), anyone: false }
    }

    /// By nothing: each client that reaches the listener may call, if
    /// [`authorize`](crate::Service::authorize) has no objection.
    pub fn anyone() -> Self {
        Self { certificate: false, token: None, anyone: true }
    }

    /// By a certificate as well.
    #[must_use]
    pub fn or_certificate(self) -> Self {
        Self { certificate: true, ..self }
    }

    /// Whether a certificate is a proof.
    pub fn takes_certificates(&self) -> bool {
        self.certificate
    }

    /// Whether a bearer token is a proof.
    pub fn takes_tokens(&self) -> bool {
        self.token.is_some()
    }

    /// Whether clients without a certificate may come.
    pub fn needs_certificate(&self) -> bool {
        self.certificate && self.token.is_none() && !self.anyone
    }

    /// The client, with what it has proved.
    ///
    /// # Errors
    /// It has proved nothing that counts, or its token is not valid.
    pub(crate) fn admit(&self, peer: RemotePeer, token: Option<&str>) -> Result<RemotePeer, NoProof> {
        // A token that is not valid is an error even of a client with a certificate.
        let subject = match (&self.token, token) {
            (Some(whose), Some(token)) => Some(subject_of(&**whose, token)?),
            _ => None,
        };
        // A listener for several exports may have verified a certificate that does not count here.
        let certificates = if self.certificate { peer.certificates } else { Vec::new() };
        let proved = self.anyone || subject.is_some() || !certificates.is_empty();
        match (proved, self.certificate, self.token.is_some()) {
            (true, ..) => Ok(RemotePeer { address: peer.address, certificates, subject }),
            (_, true, true) => Err(NoProof("it has neither a certificate nor a token")),
            (_, true, false) => Err(NoProof("it has no certificate")),
            _ => Err(NoProof("it has no token")),
        }
    }
}

/// The owner of a token. A panic of `whose` stops here: other calls of the connection go on.
fn subject_of(whose: &Verify, token: &str) -> Result<String, NoProof> {
    let subject = catch_unwind(AssertUnwindSafe(|| whose(token)));
    let subject = subject.map_err(|_| NoProof("its token could not be checked: the check panicked"))?;
    subject.ok_or(NoProof("its token is not valid"))
}

impl fmt::Debug for RemotePeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemotePeers")
            .field("certificate", &self.certificate)
            .field("token", &self.token.is_some())
            .field("anyone", &self.anyone)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_certificate() -> RemotePeer {
        RemotePeer::at(None).with_certificates(vec![vec![1]])
    }

    fn whose(token: &str) -> Option<String> {
        (token == "right").then(|| "alice".to_owned())
    }

    #[test]
    fn one_proof_is_enough_and_none_is_not() {
        let nobody = || RemotePeer::at(None);
        let certificate = RemotePeers::certificate();
        assert!(certificate.admit(with_certificate(), None).is_ok());
        assert!(certificate.admit(nobody(), Some("right")).is_err(), "a token is no proof here");
        let token = RemotePeers::token(whose);
        assert_eq!(token.admit(nobody(), Some("right")).unwrap().subject(), Some("alice"));
        assert!(token.admit(nobody(), None).is_err() && token.admit(nobody(), Some("")).is_err());
        let either = token.clone().or_certificate();
        assert!(either.admit(with_certificate(), None).is_ok());
        assert!(either.admit(with_certificate(), Some("wrong")).is_err());
        assert!(RemotePeers::anyone().admit(nobody(), None).is_ok());
    }

    #[test]
    fn a_check_of_tokens_that_panics_refuses_the_client() {
        let token = RemotePeers::token(|_| panic!("on purpose")).or_certificate();
        let refused = token.admit(with_certificate(), Some("right")).unwrap_err();
        assert!(refused.0.contains("panicked"), "{refused:?}");
        assert!(token.admit(with_certificate(), None).is_ok());
    }

    #[test]
    fn a_certificate_that_does_not_count_is_not_shown() {
        let token = RemotePeers::token(whose);
        assert!(token.admit(with_certificate(), None).is_err());
        assert!(token.admit(with_certificate(), Some("right")).unwrap().certificates().is_empty());
    }
}
