//! What a type looks like to the other side.

use crate::{Decode, Encode, TypeName, Types};

/// A type whose values travel both ways, and that can say what its bytes mean, so that two domains
/// find out whether they mean the same.
///
/// Have it derived (`#[derive(underpass::Wire)]`). What is equal in schema is equal in bytes:
/// `HashMap` and `BTreeMap` have one, and so do `Vec` and `VecDeque`.
///
/// # Examples
/// ```
/// use underpass_wire::{Schema, Types};
///
/// let name = <Vec<Option<(u8, Box<str>)>>>::schema(&mut Types::new());
/// assert_eq!(name.as_str(), "Vec<Option<(u8, String)>>");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't travel to another domain",
    label = "no bytes are defined for `{Self}`",
    note = "derive `underpass::Wire` for it, or mark it `#[underpass(serde)]` if it has serde's traits"
)]
pub trait Schema: Encode + Decode {
    /// The type's name; if it needs a definition, that goes into `types`, with those of the types
    /// it is made of.
    fn schema(types: &mut Types) -> TypeName;
}
