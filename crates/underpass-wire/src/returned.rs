//! The return types of an interface's methods.

/// A `Result`, by any alias. Generated code finds its two types by this.
#[diagnostic::on_unimplemented(
    message = "a method of an interface returns a `Result`, not `{Self}`",
    label = "every call can fail, and this can't say so",
    note = "write `Result<T, E>`, where `E: From<underpass::CallError>`"
)]
pub trait Returned {
    /// The type of a success.
    type Value;
    /// The type of an error.
    type Error;
}

impl<T, E> Returned for Result<T, E> {
    type Value = T;
    type Error = E;
}
