//! What a request can carry in front of its arguments: the trace context of its caller, and when it
//! was posted.
//!
//! A bit of the procedure says that there is a prefix. A call without one is as if there were none
//! of them. A client sends prefixes to servers that have said that they know them.

use crate::payload::interfaces::{AnyValue, OfType};
use crate::trace_context::TraceContext;
use underpass_wire::{Decode, DecodeError, Encode, Sink, Source};

/// The bit of a request's procedure that says that the message has a prefix. It lies behind the
/// words of interfaces, if there are any.
pub(crate) const WITH_PREFIX: u16 = 1 << 14;

/// What a prefix has, as bits of its first byte.
mod has {
    pub(super) const CONTEXT: u8 = 1;
    pub(super) const STATE: u8 = 2;
    pub(super) const POSTED: u8 = 4;
}

/// The prefix of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallPrefix {
    pub(crate) context: Option<TraceContext>,
    /// When the client has posted the request, in ns of its clock.
    pub(crate) posted_ns: Option<u64>,
}

impl CallPrefix {
    /// That of a call of the calling thread, if its work has a context.
    pub(crate) fn of_thread() -> Option<Self> {
        TraceContext::current().map(|context| Self { context: Some(context), posted_ns: None })
    }

    fn state(&self) -> &str {
        self.context.as_ref().map_or("", TraceContext::state)
    }
}

impl Encode for CallPrefix {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        let context = if self.context.is_some() { 16 + 8 + 1 } else { 0 };
        let state = if self.state().is_empty() { 0 } else { 2 + self.state().len() };
        1 + context + state + if self.posted_ns.is_some() { 8 } else { 0 }
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        let state = self.state();
        let bit = |bit: u8, is_set: bool| if is_set { bit } else { 0 };
        let bits = bit(has::CONTEXT, self.context.is_some())
            | bit(has::STATE, !state.is_empty())
            | bit(has::POSTED, self.posted_ns.is_some());
        bits.encode(to);
        if let Some(context) = &self.context {
            context.trace_id().encode(to);
            context.span_id().encode(to);
            context.flags().encode(to);
        }
        if !state.is_empty() {
            (state.len() as u16).encode(to);
            to.put(state.as_bytes());
        }
        if let Some(posted_ns) = self.posted_ns {
            posted_ns.encode(to);
        }
    }
}

impl Decode for CallPrefix {
    const LEAST: usize = 1;

    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        const BAD: DecodeError = DecodeError::BadValue { of: "the prefix of a call" };
        let bits = u8::decode(from)?;
        if bits & !(has::CONTEXT | has::STATE | has::POSTED) != 0 {
            return Err(BAD);
        }
        let mut context = None;
        if bits & has::CONTEXT != 0 {
            let (trace_id, span_id, flags) = (u128::decode(from)?, u64::decode(from)?, u8::decode(from)?);
            context = Some(TraceContext::new(trace_id, span_id, flags).ok_or(BAD)?);
        }
        if bits & has::STATE != 0 {
            let length = usize::from(u16::decode(from)?);
            if length > TraceContext::MOST_STATE {
                return Err(BAD);
            }
            let state = String::from_utf8(from.take_vec(length)?).map_err(|_| BAD)?;
            context = Some(context.ok_or(BAD)?.with_state(&state));
        }
        let posted_ns = if bits & has::POSTED != 0 { Some(u64::decode(from)?) } else { None };
        Ok(Self { context, posted_ns })
    }
}

/// Arguments without their type.
pub(crate) struct AnyArguments<'a> {
    value: &'a dyn AnyValue,
    size: usize,
}

impl<'a> AnyArguments<'a> {
    /// Calls `then` with `arguments`.
    pub(crate) fn with<A: Encode + ?Sized, R>(arguments: &A, then: impl FnOnce(&AnyArguments<'_>) -> R) -> R {
        let size = A::FIXED.unwrap_or_else(|| arguments.size());
        then(&AnyArguments { value: &OfType(arguments), size })
    }
}

impl Encode for AnyArguments<'_> {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        self.size
    }

    fn encode<S: Sink + ?Sized>(&self, mut to: &mut S) {
        self.value.encode_into(&mut to);
    }
}

/// Arguments behind a prefix.
pub(crate) struct Prefixed<'a, A: ?Sized> {
    pub(crate) prefix: &'a CallPrefix,
    pub(crate) arguments: &'a A,
}

impl<A: Encode + ?Sized> Encode for Prefixed<'_, A> {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        self.prefix.size() + self.arguments.size()
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        self.prefix.encode(to);
        self.arguments.encode(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass_wire::{from_bytes, to_bytes};

    fn context(state: &str) -> Option<TraceContext> {
        Some(TraceContext::new(u128::MAX - 1, 7, 1)?.with_state(state))
    }

    #[test]
    fn a_prefix_travels_with_all_that_it_has() {
        for context in [None, context(""), context("a=b"), context(&"x".repeat(512))] {
            for posted_ns in [None, Some(u64::MAX)] {
                let prefix = CallPrefix { context: context.clone(), posted_ns };
                let prefixed = Prefixed { prefix: &prefix, arguments: &(5u8, "text") };
                let bytes = to_bytes(&prefixed);
                assert_eq!(bytes.len(), prefixed.size());
                let (read, arguments): (CallPrefix, (u8, String)) = from_bytes(&bytes).unwrap();
                assert_eq!((read, arguments), (prefix, (5, "text".to_owned())));
            }
        }
    }

    #[test]
    fn a_prefix_of_a_hostile_peer_is_refused() {
        let good = to_bytes(&CallPrefix { context: context("a=b"), posted_ns: Some(1) });
        assert!(from_bytes::<CallPrefix>(&good).is_ok());
        for length in 0..good.len() {
            assert!(from_bytes::<CallPrefix>(&good[..length]).is_err(), "{length} bytes of it");
        }
        let no_trace = to_bytes(&(has::CONTEXT, 0u128, 1u64, 1u8));
        let state_alone = to_bytes(&(has::STATE, 1u16, b'a'));
        let mut long = to_bytes(&(has::CONTEXT | has::STATE, 1u128, 1u64, 1u8, 513u16));
        long.extend([b'a'; 513]);
        let mut no_text = to_bytes(&(has::CONTEXT | has::STATE, 1u128, 1u64, 1u8, 1u16));
        no_text.push(0xff);
        for bad in [&[8][..], &[0xff; 600], &no_trace, &state_alone, &long, &no_text] {
            assert!(from_bytes::<CallPrefix>(bad).is_err(), "{bad:?}");
        }
    }
}
