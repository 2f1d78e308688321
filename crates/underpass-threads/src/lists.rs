//! The lists that link control blocks without memory of their own.

pub(crate) mod inbox;
pub(crate) mod linked;
pub(crate) mod ring;
