//! Encodes values to bytes.

use crate::Sink;

/// A value that can be sent to another domain.
///
/// Derive it (`#[derive(underpass::Wire)]`). Write it by hand only for a type that should not
/// travel by its fields.
///
/// # Examples
/// ```
/// use underpass_wire::{Encode, Sink};
///
/// struct Celsius(f32);
///
/// impl Encode for Celsius {
///     const FIXED: Option<usize> = f32::FIXED;
///     fn size(&self) -> usize {
///         self.0.size()
///     }
///     fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
///         self.0.encode(to);
///     }
/// }
///
/// assert_eq!(underpass_wire::to_bytes(&Celsius(21.5)), 21.5f32.to_le_bytes());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't travel to another domain",
    label = "no bytes are defined for `{Self}`",
    note = "write `#[derive(underpass::Wire)]` on `{Self}`; if it belongs to another crate, write `#[underpass(serde)]` \
            where it is used, if it has serde's traits, or send its parts in a type of your own"
)]
pub trait Encode {
    /// The bytes that every value takes, if that number is the same for all.
    const FIXED: Option<usize>;

    /// The bytes of `T` and of `E` in a `Result<T, E>`, if they are fixed. No other type has two
    /// numbers.
    #[doc(hidden)]
    const EITHER: [Option<usize>; 2] = [Self::FIXED, Some(0)];

    /// The bytes that this value takes: exactly those that [`encode`](Self::encode) will put.
    fn size(&self) -> usize;

    /// Puts the value's bytes.
    fn encode<S: Sink + ?Sized>(&self, to: &mut S);

    /// Puts the bytes of all `items`, one after the other.
    ///
    /// Overridden for types of which many can be copied at once. Their arrays, slices and `Vec`s
    /// use this.
    #[inline]
    fn encode_all<S: Sink + ?Sized>(items: &[Self], to: &mut S)
    where
        Self: Sized,
    {
        for item in items {
            item.encode(to);
        }
    }
}

/// The bytes of `value`.
///
/// # Examples
/// ```
/// assert_eq!(underpass_wire::to_bytes(&Some(true)), [1, 1]);
/// ```
pub fn to_bytes<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.size());
    value.encode(&mut bytes);
    bytes
}
