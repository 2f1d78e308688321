//! What a sender makes of replies, for fuzz targets.

use crate::sync::errors::SyncSendError;
use crate::sync::interface::{PortRefusal, SyncPortSizes};
use underpass_wire::{Schema, from_bytes, to_bytes};

fn read<R: Schema + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<Result<R, PortRefusal>> {
    let read: Result<R, PortRefusal> = from_bytes(bytes).ok()?;
    let again = from_bytes(&to_bytes(&read)).ok();
    assert_eq!(again.as_ref(), Some(&read));
    Some(read)
}

pub(crate) fn read_replies(bytes: &[u8]) {
    let refusals = [
        read::<u64>(bytes).and_then(Result::err),
        read::<String>(bytes).and_then(Result::err),
        read::<SyncPortSizes>(bytes).and_then(Result::err),
    ];
    for refusal in refusals.into_iter().flatten() {
        let error = SyncSendError::of(refusal).after_waiting();
        assert!(!error.to_string().is_empty());
        let _ = error.outcome();
    }
}
