//! What a program uses: starting, joining and cancelling threads, blocking calls, thread-local
//! variables, and stacks.

pub(crate) mod blocking;
pub(crate) mod builder;
pub(crate) mod current;
pub(crate) mod handle;
pub(crate) mod inject;
pub(crate) mod local;
pub(crate) mod scope;
pub(crate) mod spare_threads;
pub(crate) mod stack;
