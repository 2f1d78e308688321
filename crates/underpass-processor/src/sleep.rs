//! The steps by which a processor goes to sleep without losing a wake-up.

use crate::parker::{ASLEEP, Parker};
use crate::{Line, tally};
use std::ops::Deref;
use underpass_os::barrier;
use underpass_os::futex::{self, MOST_WORDS, Scope, Watched, Woken};

/// As what a processor sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nobody of the domain looks at these lines any more: posts have to ring.
    Last {
        /// Whether others of the domain sleep too.
        others: bool,
    },
    /// Somebody else runs and will look: only knocks and calls wake it.
    Spare,
}

/// Sleeps until `own` is called, a message of one of `lines` comes, or `deadline_ns` passes; or does not begin to, if
/// one of that is so already, or `ready` says that there is work.
///
/// May return for no reason. The caller looks at everything again.
pub fn sleep<L: ?Sized + Line>(
    own: &Parker,
    lines: &[impl Deref<Target = L>],
    role: Role,
    deadline_ns: Option<u64>,
    ready: impl Fn() -> bool,
) {
    if !own.prepare() {
        return;
    }
    let mut watched: Vec<Watched<'_>> = Vec::with_capacity(MOST_WORDS.min(lines.len() + 1));
    watched.push(Watched { word: own.word(), expected: ASLEEP, scope: Scope::Private });
    for line in lines {
        if watched.len() == MOST_WORDS {
            line.set_aside();
            continue;
        }
        let announced = match role {
            Role::Last { others } => line.park(others),
            Role::Spare => line.spare(),
        };
        if let Some(expected) = announced {
            watched.push(Watched { word: line.word(), expected, scope: Scope::Shared });
        }
    }
    // S2, and I3 of the README of this crate: posters and who leaves work have a light barrier only. One CPU for both sides would
    // need none, but they may be moved apart at any moment.
    barrier::heavy();
    tally().entered_kernel(1);
    // A spare leaves what has come to who looks; if that one is held up, `ready` says so, or a knock will.
    let quiet = || role == Role::Spare || lines.iter().all(|line| line.quiet());
    if !ready() && quiet() {
        lines.iter().for_each(|line| line.knock());
        tally().slept();
        if futex::wait_any(&watched, deadline_ns) == Woken::Unsupported {
            without_waitv(own, lines, deadline_ns);
        }
    }
    lines.iter().for_each(|line| line.look());
    own.wake_up();
}

/// Where a sleep can watch one word only, every line is put aside: the clerk hears the sockets and calls.
fn without_waitv<L: ?Sized + Line>(own: &Parker, lines: &[impl Deref<Target = L>], deadline_ns: Option<u64>) {
    lines.iter().for_each(|line| line.set_aside());
    barrier::heavy();
    tally().entered_kernel(1);
    if lines.iter().all(|line| line.quiet()) {
        tally().slept();
        futex::wait(Watched { word: own.word(), expected: ASLEEP, scope: Scope::Private }, deadline_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use underpass_os::clock;

    const NONE: [Arc<dyn Line>; 0] = [];

    #[test]
    fn a_call_before_the_sleep_is_not_lost() {
        let parker = Parker::new();
        parker.call();
        sleep(&parker, &NONE, Role::Last { others: false }, None, || false);
    }

    #[test]
    fn a_deadline_ends_a_sleep() {
        let parker = Parker::new();
        let deadline = clock::now_ns() + 1_000_000;
        while clock::now_ns() < deadline {
            sleep(&parker, &NONE, Role::Last { others: false }, Some(deadline), || false);
        }
        assert!(!parker.asleep());
    }

    #[test]
    fn a_call_ends_a_sleep() {
        let parker = Arc::new(Parker::new());
        let other = parker.clone();
        let caller = std::thread::spawn(move || {
            other.call();
        });
        sleep(&parker, &NONE, Role::Last { others: false }, None, || false);
        caller.join().unwrap();
    }
}
