//! How calls end, as metrics tell it.

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndKind {
    /// The method returned a value.
    Returned,
    /// The method returned an error.
    ReturnedError,
    /// There is no result.
    Failed(FailureKind),
}

/// Why a call has no result: the kinds of [`CallError`](crate::CallError), without what is known of
/// the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FailureKind {
    PeerDied,
    Closed,
    Revoked,
    Deadline,
    Abandoned,
    Cancelled,
    Captured,
    Restarted,
    Forked,
    Overloaded,
    Deadlock,
    Panicked,
    Dropped,
    ProtocolViolation,
    Unsupported,
    Decode,
    NoResources,
}

impl FailureKind {
    /// All kinds, in their order.
    pub(super) const ALL: [Self; 17] = [
        Self::PeerDied,
        Self::Closed,
        Self::Revoked,
        Self::Deadline,
        Self::Abandoned,
        Self::Cancelled,
        Self::Captured,
        Self::Restarted,
        Self::Forked,
        Self::Overloaded,
        Self::Deadlock,
        Self::Panicked,
        Self::Dropped,
        Self::ProtocolViolation,
        Self::Unsupported,
        Self::Decode,
        Self::NoResources,
    ];

    /// Its name. Metrics and their exporters have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PeerDied => "peer-died",
            Self::Closed => "closed",
            Self::Revoked => "revoked",
            Self::Deadline => "deadline",
            Self::Abandoned => "abandoned",
            Self::Cancelled => "cancelled",
            Self::Captured => "captured",
            Self::Restarted => "restarted",
            Self::Forked => "forked",
            Self::Overloaded => "overloaded",
            Self::Deadlock => "deadlock",
            Self::Panicked => "panicked",
            Self::Dropped => "dropped",
            Self::ProtocolViolation => "protocol-violation",
            Self::Unsupported => "unsupported",
            Self::Decode => "decode",
            Self::NoResources => "no-resources",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_all_kinds_has_each_at_its_number() {
        assert!(FailureKind::ALL.iter().enumerate().all(|(number, kind)| *kind as usize == number));
    }
}
