//! Serving incoming calls: the dispatcher, listeners on donated processors, and E-stacks.
#![doc = include_str!("serve/README.md")]

pub(crate) mod blocked_watch;
pub(crate) mod dispatcher;
pub(crate) mod estacks;
pub(crate) mod listener;
pub(crate) mod loans;
pub(crate) mod served_line;
