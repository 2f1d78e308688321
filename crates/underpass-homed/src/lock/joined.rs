//! A remote's side of a locked object.

use crate::errors::ObjectImportError;
use crate::lock::errors::HybridFailure;
use crate::lock::hybrid_word::{HOME, HybridWord};
use crate::lock::join::{JoinObjectError, ObjectJoin, ObjectJoinClient};
use crate::lock::layout::{LOCK, PERMITS};
use crate::words::{AreaWords, Words};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use underpass_os::fork;

/// How long to wait for a stopped home's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A locked object of another domain, or of this one.
pub(crate) struct LockedRemote {
    pub(crate) words: AreaWords,
    pub(crate) permits: usize,
    /// The home's name for this remote.
    pub(crate) number: u32,
    /// The right to the object. It ends with the home.
    stub: ObjectJoinClient,
}

impl LockedRemote {
    pub(crate) fn import(name: &str, words: usize, shape: u64) -> Result<Self, ObjectImportError> {
        Self::join(ObjectJoinClient::import(name).map_err(ObjectImportError::Import)?, words, shape)
    }

    pub(crate) fn import_within(
        name: &str,
        patience: Duration,
        words: usize,
        shape: u64,
    ) -> Result<Self, ObjectImportError> {
        let stub = ObjectJoinClient::import_within(name, patience).map_err(ObjectImportError::Import)?;
        Self::join(stub, words, shape)
    }

    fn join(stub: ObjectJoinClient, words: usize, shape: u64) -> Result<Self, ObjectImportError> {
        let joined = stub.with_deadline(PATIENCE).join(shape).map_err(|e| match e {
            JoinObjectError::Call(e) => ObjectImportError::Call(e),
            JoinObjectError::OtherType => ObjectImportError::OtherType,
            JoinObjectError::NoResources => ObjectImportError::NoResources,
        })?;
        let words = AreaWords::adopt(joined.memory.as_fd(), words).map_err(ObjectImportError::Memory)?;
        let (number, permits) = (joined.number, joined.permits as usize);
        if number <= HOME || permits > PERMITS {
            let why = "the home gave this domain a place that no object has";
            return Err(ObjectImportError::Memory(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        Ok(Self { words, permits, number, stub })
    }

    pub(crate) fn lock(&self) -> HybridWord<'_> {
        HybridWord(self.words.word(LOCK))
    }

    /// Why nothing can be taken any more, if that is so. It enters no kernel while nothing has
    /// ended.
    pub(crate) fn ended(&self) -> Option<HybridFailure> {
        match () {
            () if fork::is_forked() => Some(HybridFailure::Forked),
            () if !self.stub.has_ended() => None,
            () if self.stub.is_revoked() => Some(HybridFailure::Revoked),
            () => Some(HybridFailure::HomeDied),
        }
    }
}

impl Drop for LockedRemote {
    fn drop(&mut self) {
        if self.stub.is_here() && !fork::is_forked() {
            // If the home has ended, there is nothing to leave.
            let _ = self.stub.leave(self.number);
        }
    }
}
