//! Memory: shared with a peer, sealed, and for stacks; and what happens to a page that the system
//! refuses.

pub(crate) mod peek;
pub(crate) mod refused_pages;
pub(crate) mod sealed;
pub(crate) mod shared;
pub(crate) mod stack;
