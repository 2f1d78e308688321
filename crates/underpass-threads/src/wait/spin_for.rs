//! Polling for what comes over no line, before the calling thread blocks for it.

use crate::sched::scheduler::{self, Scheduler};
use std::fmt;
use std::hint::spin_loop;
use underpass_os::clock::now_ns;
use underpass_processor::{AdaptiveSpin, Spin};

/// What a thread has learnt of its waits for one thing: whether that comes soon.
///
/// As long as something has come by the first look, the next first look comes later, up to a
/// limit. So a side that is faster than the other finds several things at once. Each look takes a
/// cache line from the other side, which has to fetch it back for its next step.
pub struct WaitSpin {
    adaptive: AdaptiveSpin,
    pauses: u32,
    /// Waits in a row that polling has ended.
    in_a_row: u32,
}

/// The most pauses before the first look: about half a microsecond.
const MOST_PAUSES: u32 = 32;
/// After so many waits in a row that polling has ended, the thread lets the scheduler look for what
/// else has become ready.
const MOST_IN_A_ROW: u32 = 64;

impl Default for WaitSpin {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for WaitSpin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitSpin").field("pauses", &self.pauses).finish_non_exhaustive()
    }
}

impl WaitSpin {
    /// Nothing is known yet.
    pub const fn new() -> Self {
        Self { adaptive: AdaptiveSpin::new(), pauses: 0, in_a_row: 0 }
    }

    /// Polls until `came`, for about as long as a wake-up would cost, and calls `block` then.
    /// `None` if it came before. All three closures get `of`.
    ///
    /// The calling thread polls only while nothing else wants its processor, and not when it is
    /// `late`. Another thread that is ready on its CPU may be the one that it waits for, so it
    /// gives way to that one now and then.
    pub fn spin_then<T: ?Sized, R>(
        &mut self,
        of: &mut T,
        came: impl Fn(&T) -> bool,
        late: impl Fn(&T) -> bool,
        block: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let since = match late(of) {
            true => None,
            false => match self.polls(|| came(of), || late(of)) {
                Polled::Came => {
                    self.in_a_row += 1;
                    return None;
                }
                Polled::Stopped => None,
                Polled::InVain(since) => Some(since),
            },
        };
        self.in_a_row = 0;
        let blocked = block(of);
        if let Some(since) = since {
            self.adaptive.slept(now_ns() - since);
        }
        Some(blocked)
    }

    /// Whether the thread is to give way now ([`yield_now`](crate::yield_now)): it has polled so
    /// often in a row that timers of others may have passed, and messages may have come for them.
    pub fn gives_way(&mut self) -> bool {
        let many = self.in_a_row >= MOST_IN_A_ROW;
        if many {
            self.in_a_row = 0;
        }
        many
    }

    fn polls(&mut self, came: impl Fn() -> bool, late: impl Fn() -> bool) -> Polled {
        let own = scheduler::running().map(|(own, _)| own);
        let wanted = || own.is_some_and(Scheduler::wanted_soon);
        if !wanted() {
            (0..self.pauses).for_each(|_| spin_loop());
        }
        if came() {
            self.pauses = MOST_PAUSES.min(2 * self.pauses + 1);
            return Polled::Came;
        }
        self.pauses /= 2;
        let mut spin = Spin::new(&self.adaptive);
        while !wanted() && spin.again(true, || came() || wanted()) {
            if came() {
                return Polled::Came;
            }
            if spin.fresh_batch() && (late() || own.is_some_and(Scheduler::poll_lines)) {
                break;
            }
        }
        if spin.over() { Polled::InVain(spin.since()) } else { Polled::Stopped }
    }
}

/// How polling has ended.
enum Polled {
    Came,
    /// Something else wants the processor, or it is late.
    Stopped,
    /// It has lasted as long as it should, since this time of the clock in ns.
    InVain(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_at_the_first_look_is_looked_for_later_from_then_on() {
        let mut spin = WaitSpin::new();
        for _ in 0..10 {
            let blocked = spin.spin_then(&mut (), |()| true, |()| false, |()| panic!("it has come"));
            assert_eq!(blocked, None::<()>);
        }
        assert_eq!(spin.pauses, MOST_PAUSES);
        for _ in 0..6 {
            assert_eq!(spin.spin_then(&mut (), |()| false, |()| false, |()| ()), Some(()));
        }
        assert_eq!(spin.pauses, 0, "as it does not come soon");
    }

    #[test]
    fn what_does_not_come_is_blocked_for_once() {
        let block = |times: &mut u32| {
            *times += 1;
            *times
        };
        assert_eq!(WaitSpin::new().spin_then(&mut 0, |_| false, |_| false, block), Some(1));
    }

    #[test]
    fn a_late_wait_does_not_poll() {
        let looks = |(): &()| panic!("it polls");
        assert_eq!(WaitSpin::new().spin_then(&mut (), looks, |()| true, |()| 7), Some(7));
    }
}
