//! The place of an argument in a server stub.

/// Keeps an argument at one place from its decoding until its procedure takes it. So large values
/// are not moved in between.
///
/// # Examples
/// ```
/// use underpass_wire::{ArgumentPlace, Decode};
///
/// let mut argument = ArgumentPlace::new();
/// <[u8; 3]>::decode_into(argument.place(), &mut &b"abc"[..])?;
/// assert_eq!(argument.lend(), b"abc");
/// # Ok::<(), underpass_wire::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct ArgumentPlace<T>(Option<T>);

impl<T> ArgumentPlace<T> {
    /// An argument that has not come yet.
    #[inline(always)]
    #[allow(clippy::new_without_default, reason = "nothing but a server stub has one")]
    pub const fn new() -> Self {
        Self(None)
    }

    /// The place to decode it to.
    #[inline(always)]
    pub const fn place(&mut self) -> &mut Option<T> {
        &mut self.0
    }

    /// Lends the argument to its procedure.
    ///
    /// # Panics
    /// If it has not come.
    #[inline(always)]
    pub fn lend(&self) -> &T {
        self.0.as_ref().expect("an argument that has come")
    }

    /// Gives the argument to its procedure.
    ///
    /// # Panics
    /// If it has not come.
    #[inline(always)]
    pub fn give(self) -> T {
        self.0.expect("an argument that has come")
    }
}
