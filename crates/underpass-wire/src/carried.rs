//! How generated code names the types that it carries.
//!
//! Generated code gives each type of an interface or of a derive a marker, of which the type is the
//! [`Itself`](Carried::Itself). Everything else names the marker, and is generic over it. So the
//! compiler checks at one place whether the type can travel, and reports one error, at the type. If
//! the type's own name stood at each place that needs its bytes, each would report an error.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types};
use std::marker::PhantomData;

/// The marker of a type that travels. Each type is its own marker as well.
///
/// `By` is the type whose fields are derived. A field's type may depend on its parameters.
pub trait Carried<By: ?Sized = ()> {
    /// The type that travels.
    type Itself: Names<<Self::Itself as Schema>::Itself> + Schema;
}

impl<T: Schema> Carried for T {
    type Itself = T;
}

/// A bound that always holds. If `T` is a projection, the compiler finds out whether it exists.
///
/// Of all errors about one type at one place, the compiler reports the first. A projection that
/// does not exist is an error without a note. A bound that does not hold is an error with a note
/// that shows the bound in this crate's source, where its user has nothing to look for. So this
/// bound precedes the others, and names a projection of each trait among them.
pub trait Names<T> {}

impl<T, U: ?Sized> Names<T> for U {}

/// The marker of a list of values.
pub struct ListOf<C>(PhantomData<C>);

impl<C: Carried> Carried for ListOf<C> {
    type Itself = Vec<C::Itself>;
}

/// A reference to a value, as an argument that is sent.
pub struct RefTo<'a, C: Carried>(pub &'a C::Itself);

/// A reference to a list of values, as an argument that is sent.
pub struct SliceOf<'a, C: Carried>(pub &'a [C::Itself]);

macro_rules! sent {
    ($name:ident as $sent:ty) => {
        impl<C: Carried> Encode for $name<'_, C> {
            const FIXED: Option<usize> = <$sent>::FIXED;

            #[inline(always)]
            fn size(&self) -> usize {
                self.0.size()
            }

            #[inline(always)]
            fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
                self.0.encode(to);
            }
        }
    };
}

sent!(RefTo as C::Itself);
sent!(SliceOf as [C::Itself]);

/// The bytes that each value takes, if that number is the same for all.
pub const fn fixed<C: Carried<By>, By: ?Sized>() -> Option<usize> {
    C::Itself::FIXED
}

/// The least number of bytes of any value.
pub const fn least<C: Carried<By>, By: ?Sized>() -> usize {
    C::Itself::LEAST
}

/// The bytes that `value` takes.
#[inline(always)]
pub fn size<C: Carried<By>, By: ?Sized>(value: &C::Itself) -> usize {
    value.size()
}

/// Puts the bytes of `value`.
#[inline(always)]
pub fn encode<C: Carried<By>, By: ?Sized>(value: &C::Itself, to: &mut (impl Sink + ?Sized)) {
    value.encode(to);
}

/// Takes a value's bytes.
///
/// # Errors
/// The bytes are no value of the type.
#[inline(always)]
pub fn decode<C: Carried<By>, By: ?Sized>(
    from: &mut (impl Source + ?Sized),
) -> Result<C::Itself, DecodeError> {
    C::Itself::decode(from)
}

/// The type's name. Its definitions are added to `types`.
pub fn schema<C: Carried<By>, By: ?Sized>(types: &mut Types) -> TypeName {
    C::Itself::schema(types)
}
