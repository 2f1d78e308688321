//! The way in which generated code names the types that it carries.

use crate::Schema;

/// A type, through a detour. If the type cannot travel, the compiler reports that the detour has no
/// implementation. It reports the same error at each place, and so only once. Without the detour it
/// would report a different error at each place that needs the type's bytes.
#[doc(hidden)]
pub trait Carried: Schema {
    /// The type itself.
    type Itself: Schema;
}

impl<T: Schema> Carried for T {
    type Itself = T;
}
