//! Where a server stub has an argument.

/// An argument, where it lies from when it is decoded until its procedure has it: values that are
/// large themselves are not moved in between.
///
/// # Examples
/// ```
/// use underpass_wire::{Received, Decode};
///
/// let mut argument = Received::new();
/// <[u8; 3]>::decode_into(argument.place(), &mut &b"abc"[..])?;
/// assert_eq!(argument.lend(), b"abc");
/// # Ok::<(), underpass_wire::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct Received<T>(Option<T>);

impl<T> Received<T> {
    /// One that has not come yet.
    #[inline(always)]
    #[allow(clippy::new_without_default, reason = "nothing but a server stub has one")]
    pub const fn new() -> Self {
        Self(None)
    }

    /// Where it is to be.
    #[inline(always)]
    pub const fn place(&mut self) -> &mut Option<T> {
        &mut self.0
    }

    /// For a procedure that borrows it.
    ///
    /// # Panics
    /// If it has not come.
    #[inline(always)]
    pub fn lend(&self) -> &T {
        self.0.as_ref().expect("an argument that has come")
    }

    /// For a procedure that has it.
    ///
    /// # Panics
    /// If it has not come.
    #[inline(always)]
    pub fn give(self) -> T {
        self.0.expect("an argument that has come")
    }
}
