//! What the protocol needs of the world around it, with kernel threads.

use crate::Pool;
use crate::seat::Seat;
use crate::slots::Slots;
use crate::tally;
use crate::turns::World;
use underpass_os::futex::{self, Scope, Watched};

impl World for Pool {
    fn slots(&self) -> &Slots {
        &self.slots
    }

    fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.roster.iter().map(|activation| activation.seat())
    }

    fn wake(&self, seat: &Seat) {
        tally().woke();
        futex::wake(seat.word(), Scope::Private, 1);
    }

    fn wait(&self, seat: &Seat, at: u32) {
        tally().slept();
        futex::wait(Watched { word: seat.word(), expected: at, scope: Scope::Private }, None);
    }

    fn rouse(&self, seat: &Seat) {
        if let Some(activation) = self.roster.get(seat.number()) {
            activation.parker().call();
        }
    }

    fn takes(&self, seat: &Seat) -> bool {
        self.roster.get(seat.number()).is_some_and(|activation| self.upcall.takes(activation))
    }

    fn serves(&self, seat: &Seat) -> bool {
        self.roster.get(seat.number()).is_some_and(|activation| self.upcall.serves(activation))
    }

    fn beget(&self) -> bool {
        self.births.beget(self.living())
    }

    fn reclaim(&self) -> bool {
        self.births.take_slot()
    }

    fn unstarted(&self) -> bool {
        self.upcall.unstarted()
    }

    fn bracketed(&self) -> bool {
        self.is_bracketed()
    }

    fn heed(&self) {
        Self::heed();
    }

    fn unstuck(&self) {
        self.upcall.ended_blocking();
    }

    fn replenish(&self) {
        self.births.call();
    }
}
