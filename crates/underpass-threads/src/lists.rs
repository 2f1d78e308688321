//! Lists of control blocks. They are linked through the blocks, or bounded, so that none needs
//! memory for an entry.

pub(crate) mod inbox;
pub(crate) mod linked;
pub(crate) mod ring;
