//! Failures of calls as gRPC's statuses, and back.

use crate::outcome::{OUTCOME, of_call, with_outcome};
use std::error::Error;
use tonic::metadata::MetadataValue;
use tonic::{Code, ConnectError, Status, TimeoutExpired};
use underpass::{CallError, Outcome};

/// Which failure it was, in one word.
const FAILURE: &str = "underpass-failure";

/// The text of the failure, without what it means.
const WHY: &str = "underpass-why-bin";

/// Bytes of such a text, at most: it is a header.
const MOST_WHY: usize = 1024;

/// The status that tells of a failed call.
pub(super) fn status_of(error: &CallError) -> Status {
    let (word, why) = match error {
        CallError::Revoked(_) => ("revoked", ""),
        CallError::Deadline(_) => ("deadline", ""),
        CallError::Cancelled(_) | CallError::Abandoned(_) => ("cancelled", ""),
        CallError::Overloaded => ("overloaded", ""),
        CallError::Deadlock => ("deadlock", ""),
        CallError::Panicked(why) => ("panicked", &**why),
        CallError::Dropped(_) => ("dropped", ""),
        CallError::Unsupported(_) => ("unsupported", ""),
        CallError::Decode(_, why) => ("decode", &**why),
        CallError::NoResources(_, why) => ("no-resources", &**why),
        _ => ("died", ""),
    };
    let mut status = of_call(error);
    status.metadata_mut().insert(FAILURE, MetadataValue::from_static(word));
    if !why.is_empty() {
        let cut = why.floor_char_boundary(why.len().min(MOST_WHY));
        status.metadata_mut().insert_bin(WHY, MetadataValue::from_bytes(&why.as_bytes()[..cut]));
    }
    status
}

/// The status of a call to another instance than the one from which the client has imported.
pub(super) fn other_instance() -> Status {
    let error = CallError::PeerDied(Outcome::NotStarted);
    status_of(&error)
}

/// The status of a call whose client has not proved who it is.
pub(super) fn no_proof(why: &str) -> Status {
    let mut status = with_outcome(Status::unauthenticated(why), Outcome::NotStarted);
    status.metadata_mut().insert(FAILURE, MetadataValue::from_static("revoked"));
    status
}

/// The failure that a status tells of. `late`: whether the call's time is over.
pub(super) fn failure_of(status: &Status, late: bool) -> CallError {
    let metadata = status.metadata();
    let outcome = outcome_of(status);
    let why = || {
        let why = metadata.get_bin(WHY).and_then(|why| why.to_bytes().ok());
        why.map_or_else(|| status.message().to_owned(), |why| String::from_utf8_lossy(&why).into_owned())
    };
    let word = metadata.get(FAILURE).and_then(|word| word.to_str().ok());
    match word.unwrap_or_default() {
        "revoked" => CallError::Revoked(outcome),
        "deadline" => CallError::Deadline(outcome),
        "cancelled" if !late => CallError::Cancelled(outcome),
        "overloaded" => CallError::Overloaded,
        "deadlock" => CallError::Deadlock,
        "panicked" => CallError::Panicked(why()),
        "dropped" => CallError::Dropped(outcome),
        "unsupported" => CallError::Unsupported(outcome),
        "decode" => CallError::Decode(outcome, why()),
        "no-resources" => CallError::NoResources(outcome, why()),
        "died" => CallError::PeerDied(outcome),
        // The status is of HTTP/2, of a proxy, or of tonic.
        _ => match status.code() {
            Code::DeadlineExceeded | Code::Cancelled if late => CallError::Deadline(outcome),
            Code::DeadlineExceeded => CallError::Deadline(outcome),
            _ if has_source::<TimeoutExpired>(status) => CallError::Deadline(outcome),
            Code::PermissionDenied | Code::Unauthenticated => CallError::Revoked(outcome),
            Code::Unimplemented => CallError::Unsupported(outcome),
            Code::ResourceExhausted | Code::OutOfRange | Code::InvalidArgument => {
                CallError::NoResources(outcome, why())
            }
            _ => CallError::PeerDied(outcome),
        },
    }
}

/// How much of the call was executed, as far as anybody knows.
fn outcome_of(status: &Status) -> Outcome {
    match status.metadata().get(OUTCOME).and_then(|outcome| outcome.to_str().ok()) {
        Some("not-started") => Outcome::NotStarted,
        Some("executed") => Outcome::Executed,
        // No connection was made, so nothing was sent.
        None if has_source::<ConnectError>(status) || was_refused(status) => Outcome::NotStarted,
        _ => Outcome::Unknown,
    }
}

fn has_source<E: Error + 'static>(status: &Status) -> bool {
    sources(status).any(|error| error.is::<E>())
}

/// Whether the server has refused the stream, so that it was not processed (RFC 9113, section 8.7).
fn was_refused(status: &Status) -> bool {
    let reason =
        |error: &(dyn Error + 'static)| error.downcast_ref::<h2::Error>().and_then(h2::Error::reason);
    sources(status).any(|error| reason(error) == Some(h2::Reason::REFUSED_STREAM))
}

fn sources(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_comes_back() {
        for error in [
            CallError::Revoked(Outcome::NotStarted),
            CallError::Deadline(Outcome::Unknown),
            CallError::Cancelled(Outcome::Unknown),
            CallError::Overloaded,
            CallError::Deadlock,
            CallError::Panicked("näh".to_owned()),
            CallError::Dropped(Outcome::Unknown),
            CallError::Unsupported(Outcome::NotStarted),
            CallError::Decode(Outcome::NotStarted, "why".to_owned()),
            CallError::NoResources(Outcome::Executed, "why".to_owned()),
            CallError::PeerDied(Outcome::NotStarted),
        ] {
            assert_eq!(failure_of(&status_of(&error), false), error);
        }
        // What has no meaning elsewhere becomes the end of the server.
        let closed = status_of(&CallError::Closed(Outcome::Unknown));
        assert_eq!(failure_of(&closed, false), CallError::PeerDied(Outcome::Unknown));
    }

    #[test]
    fn a_status_of_others_says_no_more_than_is_known() {
        let status = Status::unavailable("from a proxy");
        assert_eq!(failure_of(&status, false), CallError::PeerDied(Outcome::Unknown));
        let status = Status::from_error(Box::new(ConnectError("refused".into())));
        assert_eq!(failure_of(&status, false), CallError::PeerDied(Outcome::NotStarted));
        let status = Status::from_error(Box::new(h2::Error::from(h2::Reason::REFUSED_STREAM)));
        assert_eq!(failure_of(&status, false).outcome(), Outcome::NotStarted);
        let status = Status::cancelled("Timeout expired");
        assert_eq!(failure_of(&status, true), CallError::Deadline(Outcome::Unknown));
    }

    #[test]
    fn a_long_text_is_cut() {
        let status = status_of(&CallError::Panicked("ä".repeat(4000)));
        let CallError::Panicked(why) = failure_of(&status, false) else { panic!("{status:?}") };
        assert_eq!(why.len(), MOST_WHY);
    }
}
