//! Memory: shared with a peer, published, sealed, and for stacks; and what happens to a page that
//! the system refuses.

pub(crate) mod peek;
pub mod published;
pub(crate) mod refused_pages;
pub(crate) mod sealed;
pub(crate) mod shared;
pub(crate) mod stack;
pub(crate) mod windows;
