//! The schema of a type, which the other side compares with its own.

use crate::{Decode, Encode, TypeName, Types};

/// A type whose values travel both ways. Its schema describes its bytes, so that two domains can
/// find out whether they agree.
///
/// Derive it (`#[derive(underpass::Wire)]`). In `underpass` this trait is called `Wire`, as its
/// derive is. Types with equal schemas have equal bytes: `HashMap` and `BTreeMap` have one schema,
/// and so have `Vec` and `VecDeque`.
///
/// # Examples
/// ```
/// use underpass::Wire;
///
/// #[derive(Wire)]
/// struct Page<T> {
///     items: Vec<T>,
///     next: Option<u64>,
/// }
///
/// fn travels<T: Wire>() {}
/// travels::<Page<(u8, String)>>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't travel to another domain",
    label = "no bytes are defined for `{Self}`",
    note = "write `#[derive(underpass::Wire)]` on `{Self}`; if it belongs to another crate, write `#[underpass(serde)]` \
            where it is used, if it has serde's traits, or send its parts in a type of your own"
)]
pub trait Schema: Encode + Decode {
    /// The type itself, always `Self`. Generated code names it, so that the compiler reports once,
    /// and without a note, that a type cannot travel: see [`Carried`](crate::Carried).
    type Itself;

    /// The type's name. If the type needs a definition, this adds it to `types`, together with
    /// those of its parts.
    fn schema(types: &mut Types) -> TypeName;
}
