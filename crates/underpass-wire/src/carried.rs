//! How generated code names the types that it carries.

use crate::Schema;

/// A type, by a detour: where one can't travel, the compiler finds that the detour ends nowhere and
/// says that, the same at each place and so once, instead of something else at each of the places
/// where its bytes would have been needed.
#[doc(hidden)]
pub trait Carried: Schema {
    /// The type itself.
    type Itself: Schema;
}

impl<T: Schema> Carried for T {
    type Itself = T;
}
