//! How threads, and what they wait for, are written for people.

use crate::block::suspension::Awaited;
use crate::block::thread_id::ThreadId;
use std::fmt;

/// A thread's name and number, for people.
#[derive(Clone, Copy)]
pub(crate) struct ThreadLabel<'a> {
    pub(crate) id: ThreadId,
    pub(crate) name: Option<&'a str>,
}

impl fmt::Display for ThreadLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "'{name}' ({})", self.id),
            None => write!(f, "{}", self.id),
        }
    }
}

/// What a thread waits for and which thread holds it, for people.
pub(crate) struct HeldThing<'a> {
    pub(crate) awaited: Awaited,
    pub(crate) holder: Option<ThreadLabel<'a>>,
}

impl fmt::Display for HeldThing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Awaited { kind, address, .. } = self.awaited;
        match self.holder {
            Some(thread) if kind == Awaited::END => return write!(f, "the end of thread {thread}"),
            _ => f.write_str(kind)?,
        }
        if address != 0 {
            write!(f, " at {address:#x}")?;
        }
        match self.holder {
            Some(holder) => write!(f, " held by {holder}"),
            None => Ok(()),
        }
    }
}
