//! What methods of interfaces return.

/// A `Result`, by whatever alias: generated code finds its two types by this.
#[diagnostic::on_unimplemented(
    message = "a method of an interface returns a `Result`, not `{Self}`",
    label = "every call can fail, and this can't say so",
    note = "write `Result<T, E>`, where `E: From<underpass::CallError>`"
)]
pub trait Returned {
    /// What it is if all went well.
    type Value;
    /// What it is if not.
    type Error;
}

impl<T, E> Returned for Result<T, E> {
    type Value = T;
    type Error = E;
}
