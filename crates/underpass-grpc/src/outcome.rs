//! Errors of calls and imports as gRPC's statuses.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status, TimeoutExpired};
use underpass::stream::{OpenStreamError, StreamError};
use underpass::{CallError, ImportError, Outcome};

/// The metadata key by which a status of this transport says how much of a call was executed:
/// `not-started`, `unknown` or `executed`.
///
/// gRPC has no word for it. A retry is always safe after `not-started`. A status that a handler
/// returned has no such key.
///
/// # Examples
/// ```
/// /// Whether the server has never seen the call.
/// fn was_not_started(status: &tonic::Status) -> bool {
///     let outcome = status.metadata().get(underpass_grpc::OUTCOME);
///     outcome.is_some_and(|outcome| outcome == "not-started")
/// }
/// assert!(!was_not_started(&tonic::Status::unavailable("from a handler")));
/// ```
pub const OUTCOME: &str = "underpass-outcome";

/// `status` with its outcome.
pub(crate) fn with_outcome(mut status: Status, outcome: Outcome) -> Status {
    let word = match outcome {
        Outcome::NotStarted => "not-started",
        Outcome::Unknown => "unknown",
        Outcome::Executed => "executed",
    };
    status.metadata_mut().insert(OUTCOME, MetadataValue::from_static(word));
    status
}

/// The status of a call that failed.
pub(crate) fn of_call(error: &CallError) -> Status {
    let code = match error {
        // As tonic's own channel: the code of a timeout is tonic's to choose.
        CallError::Deadline(outcome) => {
            return with_outcome(Status::from_error(Box::new(TimeoutExpired(()))), *outcome);
        }
        CallError::Abandoned(_) | CallError::Cancelled(_) => Code::Cancelled,
        CallError::Overloaded | CallError::NoResources(..) => Code::ResourceExhausted,
        CallError::Panicked(_) | CallError::Decode(..) | CallError::ProtocolViolation(_) => Code::Internal,
        CallError::Forked => Code::FailedPrecondition,
        CallError::Unsupported(_) => Code::Unimplemented,
        CallError::Deadlock => Code::Aborted,
        _ => Code::Unavailable,
    };
    with_outcome(Status::new(code, error.to_string()), error.outcome())
}

/// The status of a call that could not be made, since there is no binding.
pub(crate) fn of_import(error: &ImportError) -> Status {
    let code = match error {
        ImportError::BadName(_) => Code::InvalidArgument,
        ImportError::PermissionDenied(_) | ImportError::NotAuthorized(..) => Code::PermissionDenied,
        ImportError::Limit(..) => Code::ResourceExhausted,
        ImportError::Mismatch { .. } | ImportError::Version(_) => Code::FailedPrecondition,
        ImportError::Cancelled => Code::Cancelled,
        _ => Code::Unavailable,
    };
    with_outcome(Status::new(code, error.to_string()), Outcome::NotStarted)
}

/// The status of a call for which no stream can be opened.
pub(crate) fn of_open(error: &OpenStreamError, outcome: Outcome) -> Status {
    with_outcome(Status::resource_exhausted(error.to_string()), outcome)
}

/// The status of a body that ended too soon. `gone`: the code for a writer that gave up or died.
pub(crate) fn of_stream(error: &StreamError, gone: Code) -> Status {
    let code = match error {
        StreamError::Abandoned | StreamError::PeerDied | StreamError::BindingEnded => gone,
        StreamError::NoResources => Code::ResourceExhausted,
        StreamError::Timeout | StreamError::Cancelled => Code::Cancelled,
        _ => Code::Internal,
    };
    with_outcome(Status::new(code, error.to_string()), Outcome::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_became_of_the_call() {
        let status = of_call(&CallError::PeerDied(Outcome::NotStarted));
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.metadata().get(OUTCOME).unwrap(), "not-started");
        let status = of_call(&CallError::Deadline(Outcome::Unknown));
        assert_eq!(status.code(), Status::from_error(Box::new(TimeoutExpired(()))).code());
        assert_eq!(status.metadata().get(OUTCOME).unwrap(), "unknown");
    }
}
