//! The return types of an interface's methods.

/// A `Result`, by an alias. Generated code finds its two types by this.
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

    /// The `Result` as the alias.
    fn from_result(result: Result<Self::Value, Self::Error>) -> Self;

    /// The alias as the `Result` that it is.
    ///
    /// # Errors
    /// If it is an error.
    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

#[diagnostic::do_not_recommend]
impl<T, E> Returned for Result<T, E> {
    type Value = T;
    type Error = E;

    #[inline(always)]
    fn from_result(result: Self) -> Self {
        result
    }

    #[inline(always)]
    fn into_result(self) -> Self {
        self
    }
}
