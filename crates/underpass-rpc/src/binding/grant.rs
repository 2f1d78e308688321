//! A server's decision about a client that wants a binding.

use std::time::Duration;

/// A server's answer to a client that wants a binding:
/// [`Service::authorize`](crate::Service::authorize) returns it.
///
/// It says whether the client gets the binding, how long the binding lasts, and whether the client
/// may pass it on. Return `true` or `false` instead if no option is needed.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use underpass::{Grant, Peer};
///
/// fn decide(peer: &Peer) -> Grant {
///     match peer.uid() {
///         0 => Grant::allow(),
///         1000..2000 => Grant::allow().expires_in(Duration::from_secs(3600)),
///         _ => Grant::deny("only users 1000 to 1999 may import"),
///     }
/// }
/// # let _ = decide;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub(crate) refusal: Option<String>,
    pub(crate) expires: Option<Duration>,
    pub(crate) sharing: SharingGrant,
}

/// Whether the client may pass its binding on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharingGrant {
    /// As the export says.
    AsExported,
    Allowed,
    Forbidden,
}

impl SharingGrant {
    /// Whether a client of an export with the option `shareable` may.
    pub(crate) fn allows(self, shareable: bool) -> bool {
        match self {
            Self::AsExported => shareable,
            Self::Allowed => true,
            Self::Forbidden => false,
        }
    }
}

impl Grant {
    /// Gives the client a binding, with the options of the export.
    pub fn allow() -> Self {
        Self { refusal: None, expires: None, sharing: SharingGrant::AsExported }
    }

    /// Refuses the client. Its import fails with
    /// [`ImportError::NotAuthorized`](crate::ImportError::NotAuthorized), which shows `why`.
    pub fn deny(why: impl Into<String>) -> Self {
        Self { refusal: Some(why.into()), ..Self::allow() }
    }

    /// Revokes the binding after `time`, whatever the export says.
    #[must_use]
    pub fn expires_in(self, time: Duration) -> Self {
        Self { expires: Some(time), ..self }
    }

    /// Says whether the client may pass the binding on to a third domain, whatever the export says.
    #[must_use]
    pub fn shareable(self, may: bool) -> Self {
        let sharing = if may { SharingGrant::Allowed } else { SharingGrant::Forbidden };
        Self { sharing, ..self }
    }
}

impl From<bool> for Grant {
    fn from(allowed: bool) -> Self {
        match allowed {
            true => Self::allow(),
            false => Self::deny("its `authorize` returned false"),
        }
    }
}
