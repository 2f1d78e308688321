//! The contexts of one activation's threads, by number.

use underpass_context::Context;

/// Contexts in numbered seats; a seat is used again.
#[derive(Default)]
pub(crate) struct Seats {
    seats: Vec<Option<Context>>,
    empty: Vec<usize>,
}

impl Seats {
    /// Seats `context`.
    pub(crate) fn add(&mut self, context: Context) -> usize {
        match self.empty.pop() {
            Some(seat) => {
                self.seats[seat] = Some(context);
                seat
            }
            None => {
                self.seats.push(Some(context));
                self.seats.len() - 1
            }
        }
    }

    /// Whether no thread of this activation is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.empty.len() == self.seats.len()
    }

    /// Takes the context out to run it; its seat stays its own.
    #[inline]
    pub(crate) fn take(&mut self, seat: usize) -> Context {
        self.seats[seat].take().expect("a thread that is not running sits in its seat")
    }

    /// Puts it back.
    #[inline]
    pub(crate) fn put(&mut self, seat: usize, context: Context) {
        self.seats[seat] = Some(context);
    }

    /// Its thread has ended.
    pub(crate) fn leave(&mut self, seat: usize) {
        self.empty.push(seat);
    }
}
