//! Decodes values from bytes.

use crate::{DecodeError, Source, deeper_to, length};

/// A value that can be received from another domain.
///
/// Every source is hostile. A hand-written implementation follows four rules. It believes no length
/// before it has checked [`Source::remaining`]. It never panics. It allocates at most a small
/// multiple of the bytes that have come. It passes through [`deeper`](crate::deeper) where a value
/// contains values of its own type. The implementations of this crate allocate at most the bytes
/// that came times the size in memory of the element that they stand for.
///
/// # Examples
/// ```
/// use underpass_wire::{Decode, DecodeError, Source};
///
/// #[derive(Debug)]
/// struct Percent(u8);
///
/// impl Decode for Percent {
///     const LEAST: usize = u8::LEAST;
///     fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
///         match u8::decode(from)? {
///             n @ 0..=100 => Ok(Self(n)),
///             _ => Err(DecodeError::BadValue { of: "Percent" }),
///         }
///     }
/// }
///
/// let error = underpass_wire::from_bytes::<Percent>(&[101]).unwrap_err();
/// assert_eq!(error.to_string(), "the bytes are no value of Percent");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't travel to another domain",
    label = "no bytes are defined for `{Self}`",
    note = "write `#[derive(underpass::Wire)]` on `{Self}`; if it belongs to another crate, write `#[underpass(serde)]` \
            where it is used, if it has serde's traits, or send its parts in a type of your own"
)]
pub trait Decode: Sized {
    /// The least number of bytes of any value. 0 says that nothing is known.
    ///
    /// Lengths are checked with it before anything is allocated. A list of elements that may take
    /// no bytes is limited to 4,096 elements, so that a short message cannot keep this side busy
    /// for long.
    const LEAST: usize = 0;

    /// Takes a value's bytes.
    ///
    /// # Errors
    /// A [`DecodeError`] that says what is wrong with the bytes. The source is unusable then.
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError>;

    /// As [`decode`](Self::decode), into `place`.
    ///
    /// Overridden for large types, so that they are written at their place and not moved.
    ///
    /// # Errors
    /// As [`decode`](Self::decode). The contents of `place` mean nothing then.
    #[inline(always)]
    fn decode_into<S: Source + ?Sized>(place: &mut Option<Self>, from: &mut S) -> Result<(), DecodeError> {
        *place = Some(Self::decode(from)?);
        Ok(())
    }

    /// Takes `count` values, one after the other. The caller has checked that the bytes for that
    /// many can be there.
    ///
    /// Overridden for types of which many can be copied at once.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    fn decode_all<S: Source + ?Sized>(count: usize, from: &mut S) -> Result<Vec<Self>, DecodeError> {
        deeper_to::<Self, _>(|| {
            let mut items = Vec::with_capacity(length::capacity::<Self>(count, from.remaining()));
            for _ in 0..count {
                items.push(Self::decode(from)?);
            }
            Ok(items)
        })
    }

    /// Takes `N` values, one after the other, into `place`.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    #[inline]
    fn decode_array<const N: usize, S: Source + ?Sized>(
        place: &mut Option<[Self; N]>,
        from: &mut S,
    ) -> Result<(), DecodeError> {
        let mut error = None;
        let items: [Option<Self>; N] = std::array::from_fn(|_| match error {
            None => Self::decode(from).map_err(|e| error = Some(e)).ok(),
            Some(_) => None,
        });
        match error {
            // All of them are initialized, because otherwise there was an error.
            None => {
                *place = Some(items.map(|item| item.expect("decoded")));
                Ok(())
            }
            Some(e) => Err(e),
        }
    }
}

/// Decodes a value from all of `bytes`.
///
/// # Errors
/// [`DecodeError::LeftOver`] if the value ends before the bytes do. Otherwise as
/// [`Decode::decode`].
///
/// # Examples
/// ```
/// use underpass_wire::{DecodeError, from_bytes};
///
/// assert_eq!(from_bytes::<u16>(&[1, 2]), Ok(0x201));
/// assert_eq!(from_bytes::<u16>(&[1]), Err(DecodeError::Truncated));
/// assert_eq!(from_bytes::<u16>(&[1, 2, 3]), Err(DecodeError::LeftOver(1)));
/// ```
pub fn from_bytes<T: Decode>(mut bytes: &[u8]) -> Result<T, DecodeError> {
    let value = T::decode(&mut bytes)?;
    match bytes.len() {
        0 => Ok(value),
        n => Err(DecodeError::LeftOver(n)),
    }
}
