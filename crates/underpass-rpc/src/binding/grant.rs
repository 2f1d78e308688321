//! What a server answers to who wants a binding.

use std::time::Duration;

/// Whether a client gets a binding, for how long, and whether it may pass it on: the answer of
/// [`authorize`](crate::Service::authorize). `true` and `false` are answers too.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use underpass_rpc::{Grant, Peer};
///
/// fn who_may(peer: &Peer) -> Grant {
///     match peer.uid() {
///         0 => Grant::allow(),
///         1000..2000 => Grant::allow().expires_in(Duration::from_secs(3600)),
///         _ => Grant::deny("people only"),
///     }
/// }
/// # let _ = who_may;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub(crate) refusal: Option<String>,
    pub(crate) expires: Option<Duration>,
    pub(crate) shareable: Option<bool>,
}

impl Grant {
    /// It gets one, on the terms of the export.
    pub fn allow() -> Self {
        Self { refusal: None, expires: None, shareable: None }
    }

    /// It gets none, and is told `why`.
    pub fn deny(why: impl Into<String>) -> Self {
        Self { refusal: Some(why.into()), ..Self::allow() }
    }

    /// The binding is revoked after that time, if not before.
    #[must_use]
    pub fn expires_in(self, time: Duration) -> Self {
        Self { expires: Some(time), ..self }
    }

    /// Whether the client may pass the binding on to a third domain, whatever the export says.
    #[must_use]
    pub fn shareable(self, may: bool) -> Self {
        Self { shareable: Some(may), ..self }
    }
}

impl From<bool> for Grant {
    fn from(allowed: bool) -> Self {
        match allowed {
            true => Self::allow(),
            false => Self::deny("the server does not let you"),
        }
    }
}
