//! Values that `serde` supports and Underpass does not.
//!
//! Their bytes describe themselves. Each value begins with a [`ValueKind`], and fields and variants
//! go by name. This takes more room than a derived [`Encode`], but lets *every* type of serde
//! through: untagged enums, flattened structs, skipped fields, `serde_json::Value`. Each value
//! takes at least a byte, so no message can announce more than it brings.

mod reader;
mod serde_error;
mod value_kind;
mod writer;

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types, tag};
use reader::Reader;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::any::type_name;
use value_kind::ValueKind;
use writer::Writer;

/// A value of a type that has serde's traits, and travels by them.
///
/// `#[underpass(serde)]` on an argument or a method wraps and unwraps it. It may also stand in
/// types by itself, as in `Vec<Serde<Url>>`. The type's name is part of the schema, but its
/// structure is not. Where the two sides' types differ, serde's rules apply.
///
/// If `T`'s `Serialize` returns an error, the other side gets [`DecodeError::Serde`] instead of a
/// value.
///
/// # Examples
/// ```
/// use serde_json::{Value, json};
/// use underpass::{CallError, Serde};
///
/// #[underpass::interface]
/// trait Notes {
///     /// Adds notes, and gives the number of all.
///     fn add(&self, notes: &[Serde<Value>]) -> Result<usize, CallError>;
/// }
///
/// fn add_two(notes: &impl Notes) -> Result<usize, CallError> {
///     notes.add(&[Serde(json!({ "name": "cache" })), Serde(json!([1, null, 2.5]))])
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serde<T>(pub T);

impl<T: Serialize> Serde<T> {
    /// The bytes that the value takes. None if serde refuses it.
    fn written(&self) -> Option<usize> {
        let mut count = Count(0);
        self.0.serialize(Writer::new(&mut count)).ok()?;
        Some(count.0)
    }
}

impl<T: Serialize> Encode for Serde<T> {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        1 + self.written().unwrap_or(0)
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        // The refusal is sent before the first byte of the value, so that a failure halfway cannot
        // leave half a value to be misread.
        let whole = self.written().is_some();
        tag::encode_bit(whole, to);
        if whole {
            // It succeeded a moment ago. If a `Serialize` now fails, its bytes do not decode.
            let _ = self.0.serialize(Writer::new(to));
        }
    }
}

impl<T: DeserializeOwned> Decode for Serde<T> {
    const LEAST: usize = 1;

    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        if !tag::decode_bit("Serde", from)? {
            return Err(DecodeError::Serde);
        }
        T::deserialize(&mut Reader::new(from)).map(Self).map_err(DecodeError::from)
    }
}

impl<T: Serialize + DeserializeOwned> Schema for Serde<T> {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::generic("Serde", &[TypeName::plain(&unqualified(type_name::<T>()))])
    }
}

impl<T: Serialize> Serialize for Serde<T> {
    fn serialize<W: serde::Serializer>(&self, to: W) -> Result<W::Ok, W::Error> {
        self.0.serialize(to)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Serde<T> {
    fn deserialize<R: serde::Deserializer<'de>>(from: R) -> Result<Self, R::Error> {
        T::deserialize(from).map(Self)
    }
}

/// Counts bytes and drops them.
struct Count(usize);

impl Sink for Count {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// A type's name without paths, because paths may differ between two compilers, or two versions of
/// a crate.
fn unqualified(name: &str) -> String {
    let mut kept = String::new();
    let mut word_begins = 0;
    let mut before = ' ';
    for c in name.chars() {
        kept.push(c);
        if !(c.is_alphanumeric() || matches!(c, '_' | ':' | '&')) {
            word_begins = kept.len();
        } else if c == ':' && before == ':' {
            kept.truncate(word_begins);
        }
        before = c;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_left_out_of_names() {
        assert_eq!(unqualified("u8"), "u8");
        assert_eq!(unqualified("serde_json::value::Value"), "Value");
        assert_eq!(
            unqualified("alloc::vec::Vec<(core::option::Option<a::B>, [u8; 3], &a::b::C)>"),
            "Vec<(Option<B>, [u8; 3], C)>"
        );
    }
}
