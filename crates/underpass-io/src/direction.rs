//! Directions of I/O: reading and writing.

use polling::Event;

/// Reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A set of directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directions {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Directions {
    /// The directions that `event` reports as ready.
    pub(crate) fn of(event: &Event) -> Self {
        Self { read: event.readable, write: event.writable }
    }

    pub(crate) fn has(self, direction: Direction) -> bool {
        match direction {
            Direction::Read => self.read,
            Direction::Write => self.write,
        }
    }

    pub(crate) fn with(self, direction: Direction) -> Self {
        match direction {
            Direction::Read => Self { read: true, ..self },
            Direction::Write => Self { write: true, ..self },
        }
    }

    /// The request to the poller under `key`.
    pub(crate) fn event(self, key: usize) -> Event {
        Event::new(key, self.read, self.write)
    }
}
