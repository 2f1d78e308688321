//! Lists of control blocks. They are linked through the blocks, or bounded, so that none needs
//! memory for an entry.

pub mod inbox;
pub mod linked;
pub mod ring;
