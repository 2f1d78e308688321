//! Certificates and keys.

use std::fmt;
#[cfg(feature = "tls")]
use tonic::transport::{Certificate, Identity};

/// The certificate of a listener with its key, and the authority of its clients' certificates, in
/// PEM. It needs the feature `tls`.
///
/// # Examples
/// ```no_run
/// use underpass_grpc::remote::RemoteTls;
///
/// # fn tls() -> std::io::Result<RemoteTls> {
/// let read = |path: &str| std::fs::read(path);
/// let tls = RemoteTls::new(read("server.pem")?, read("server.key")?).authority(read("clients-ca.pem")?);
/// # Ok(tls)
/// # }
/// ```
#[derive(Clone)]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "TLS alone reads the fields"))]
pub struct RemoteTls {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) authority: Option<Vec<u8>>,
}

impl RemoteTls {
    /// The certificate of this side, followed by those of its issuers, and its private key.
    pub fn new(certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        Self { certificate: certificate.into(), key: key.into(), authority: None }
    }

    /// The certificate of the authority that issues those of clients.
    #[must_use]
    pub fn authority(self, certificate: impl Into<Vec<u8>>) -> Self {
        Self { authority: Some(certificate.into()), ..self }
    }
}

/// The private key is not shown.
impl fmt::Debug for RemoteTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTls").field("authority", &self.authority.is_some()).finish_non_exhaustive()
    }
}

/// What a client needs for `https://`.
#[derive(Clone, Default)]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "TLS alone reads the fields"))]
pub(super) struct ClientTls {
    pub(super) authority: Option<Vec<u8>>,
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) server_name: Option<String>,
}

#[cfg(feature = "tls")]
impl ClientTls {
    /// The endpoint with TLS.
    ///
    /// # Errors
    /// A certificate can't be read.
    pub(super) fn apply(
        &self,
        endpoint: tonic::transport::Endpoint,
    ) -> Result<tonic::transport::Endpoint, String> {
        use tonic::transport::ClientTlsConfig;
        let mut config = match &self.authority {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_enabled_roots(),
        };
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        if let Some(name) = &self.server_name {
            config = config.domain_name(name);
        }
        endpoint.tls_config(config).map_err(|error| chain(&error))
    }
}

#[cfg(feature = "tls")]
impl RemoteTls {
    /// The configuration of a listener. `all`: whether each client needs a certificate.
    pub(super) fn of_listener(&self, all: bool) -> tonic::transport::ServerTlsConfig {
        let own = Identity::from_pem(&self.certificate, &self.key);
        let config = tonic::transport::ServerTlsConfig::new()
            .identity(own)
            .timeout(std::time::Duration::from_secs(10))
            .client_auth_optional(!all);
        match &self.authority {
            Some(pem) => config.client_ca_root(Certificate::from_pem(pem)),
            None => config,
        }
    }
}

/// An error with its sources: tonic's own text says only that there was one.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let texts = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
    texts.collect::<Vec<_>>().join(": ")
}
