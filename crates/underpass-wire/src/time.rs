//! `Duration` and `SystemTime`.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECOND: u32 = 1_000_000_000;

impl Encode for Duration {
    const FIXED: Option<usize> = Some(12);

    #[inline]
    fn size(&self) -> usize {
        12
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        self.as_secs().encode(to);
        self.subsec_nanos().encode(to);
    }
}

impl Decode for Duration {
    const LEAST: usize = 12;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let (seconds, nanos) = (u64::decode(from)?, u32::decode(from)?);
        if nanos >= SECOND {
            return Err(DecodeError::BadValue { of: "Duration" });
        }
        Ok(Self::new(seconds, nanos))
    }
}

impl Schema for Duration {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("Duration")
    }
}

/// Seconds since 1970, rounded down, and the nanoseconds beyond them, as in Linux.
impl Encode for SystemTime {
    const FIXED: Option<usize> = Some(12);

    #[inline]
    fn size(&self) -> usize {
        12
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        let (seconds, nanos) = match self.duration_since(UNIX_EPOCH) {
            Ok(since) => (since.as_secs() as i64, since.subsec_nanos()),
            Err(before) => {
                let before = before.duration();
                let seconds = (before.as_secs() as i64).wrapping_neg();
                match before.subsec_nanos() {
                    0 => (seconds, 0),
                    nanos => (seconds - 1, SECOND - nanos),
                }
            }
        };
        seconds.encode(to);
        nanos.encode(to);
    }
}

impl Decode for SystemTime {
    const LEAST: usize = 12;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let (seconds, nanos) = (i64::decode(from)?, u32::decode(from)?);
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let second = match seconds {
            0.. => UNIX_EPOCH.checked_add(whole),
            _ => UNIX_EPOCH.checked_sub(whole),
        };
        second
            .filter(|_| nanos < SECOND)
            .and_then(|second| second.checked_add(Duration::from_nanos(nanos.into())))
            .ok_or(DecodeError::BadValue { of: "SystemTime" })
    }
}

impl Schema for SystemTime {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("SystemTime")
    }
}
