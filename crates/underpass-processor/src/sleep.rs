//! The steps by which a processor goes to sleep without losing a wake-up.

use crate::parker::{ASLEEP, Parker};
use crate::{Line, spin, tally};
use underpass_os::futex::{self, Scope, Watch, Watched, Woken};
use underpass_os::{Stamp, barrier, clock};

/// Who has donated its processor looks after this long, in ns, at what has come, and calls the peer
/// for what has not: a procedure may stay on it. Longer than a tick of the kernel's clock, so that
/// to set it and to take it back costs no interrupt.
const PATIENCE: u64 = 20_000_000;

/// The same, in ns, for who awaits a call that the peer has not taken, of a peer that was said to
/// look by itself: all its processors may be blocked. With a tick of the peer's monitor this stays
/// below 10 ms.
pub const PROMPT: u64 = 4_000_000;

/// It is twice as long each time that the peer was called for the same calls, up to some ten
/// seconds.
const DOUBLED: [u32; 2] = [9, 11];

/// After so long, in ns, who awaits the reply of a peer that may be held up looks, and calls it: it
/// was called for the same calls so many times before.
pub fn patience(times: u32) -> u64 {
    PATIENCE << times.min(DOUBLED[0])
}

/// As [`patience`], where the peer has not even taken a call.
pub fn prompt_patience(times: u32) -> u64 {
    PROMPT << times.min(DOUBLED[1])
}

/// As what a processor sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nobody of the domain looks at these lines any more: posts have to ring.
    Last {
        /// Whether others of the domain sleep too.
        others: bool,
        /// No other thread of this domain runs that leaves work for the sleeper with less than a
        /// full fence.
        alone: bool,
    },
    /// Somebody else runs and will look: only knocks and calls wake it.
    Spare,
    /// It waits for replies of its own, whatever others of the domain do: the caller has entered
    /// the lines, and leaves them afterwards.
    Guest {
        /// As of the last.
        alone: bool,
    },
}

impl Role {
    fn is_alone(self) -> bool {
        matches!(self, Self::Last { alone: true, .. } | Self::Guest { alone: true })
    }
}

/// Sleeps until `own` is called, a message of one of `lines` comes, or `deadline_ns` passes; or
/// does not begin to, if one of that is so already, or `ready` says that there is work.
///
/// May return for no reason. The caller looks at everything again.
pub fn sleep<'a, L: ?Sized + Line + 'a>(
    own: &Parker,
    lines: impl Iterator<Item = &'a L> + Clone,
    role: Role,
    deadline_ns: Option<u64>,
    ready: impl Fn() -> bool,
) {
    sleep_and_donate(own, lines, role, None, deadline_ns, ready);
}

/// Whom the processor of a sleeper is donated to.
#[derive(Debug)]
pub struct Donee<'a, L: ?Sized> {
    /// The line at whose peer calls wait.
    pub line: &'a L,
    /// The sleeper has other things to do: where nobody listens for its processor, it doesn't
    /// sleep.
    pub forced: bool,
}

/// As [`sleep`], and gives the processor to the peer of one of `lines` meanwhile, if one is named.
pub fn sleep_and_donate<'a, L: ?Sized + Line + 'a>(
    own: &Parker,
    lines: impl Iterator<Item = &'a L> + Clone,
    role: Role,
    donee: Option<Donee<'_, L>>,
    deadline_ns: Option<u64>,
    ready: impl Fn() -> bool,
) {
    if !own.prepare() {
        return;
    }
    let mut watched = Watch::of(Watched { word: own.word(), expected: ASLEEP, scope: Scope::Private });
    let mut awaited = false;
    for line in lines.clone() {
        if watched.is_full() {
            line.set_unpolled();
            continue;
        }
        let announced = match role {
            Role::Last { others, .. } => line.park(others),
            Role::Guest { .. } => line.park(false),
            Role::Spare => line.spare(),
        };
        if let Some(expected) = announced {
            watched.push(Watched { word: line.word(), expected, scope: Scope::Shared });
            awaited |= donee.as_ref().is_some_and(|donee| std::ptr::addr_eq(donee.line, line));
        }
    }
    // Who watches no word of the donee would not have the processor back: its peer is called.
    let donee = donee.filter(|donee| awaited || call(donee.line));
    // A spare leaves what has come to who looks; if that one is held up, `ready` says so, or a
    // knock will.
    let quiet = || role == Role::Spare || lines.clone().all(|line| line.quiet());
    // D3: with one line alone to hear of, that of the donee, who will call in any case.
    let forced = donee.as_ref().is_some_and(|donee| donee.forced);
    let brief = watched.len() == 2 && donee.is_some() && role.is_alone();
    let donee = donee.map(|donee| donee.line);
    // A': no message can come, and who leaves work does so by a read-modify-write, which on this
    // processor is a full fence, as `prepare` is.
    let unseen = cfg!(target_arch = "x86_64") && watched.len() == 1 && role.is_alone();
    if !brief && !unseen {
        drain();
    }
    if !ready() && quiet() {
        let donated = donee.is_some_and(give);
        if brief && !donated {
            drain();
        }
        if donated || (!forced && (!brief || quiet())) {
            let donated_to = donee.filter(|_| donated);
            let is_donee = |line: &L| donated_to.is_some_and(|to| std::ptr::addr_eq(to, line));
            lines.clone().filter(|line| !is_donee(line)).for_each(take_leave);
            tally().slept();
            let insists = |line: &L| line.insists(is_donee(line));
            let patience = lines.clone().filter_map(insists).min().map(|after| clock::now_ns() + after);
            let until = deadline_ns.into_iter().chain(patience).min();
            // Who has the processor meanwhile is on the same CPU.
            let since = (donated_to.is_none() && watched.len() > 1).then(Stamp::shared);
            let woken = match watched.wait(until) {
                Woken::Unsupported => without_waitv(own, lines.clone(), until),
                woken => woken,
            };
            match woken {
                Woken::Late => {
                    lines.clone().filter(|line| insists(line).is_some()).for_each(|line| line.insist())
                }
                _ => since.into_iter().for_each(|since| measure(lines.clone(), since)),
            }
        }
    }
    if !matches!(role, Role::Guest { .. }) {
        lines.for_each(|line| line.look());
    }
    own.wake_up();
}

/// Learns what the wake-up cost that has ended a sleep, if a peer's call did.
fn measure<'a, L: ?Sized + Line + 'a>(mut lines: impl Iterator<Item = &'a L>, since: Stamp) {
    let now = Stamp::shared();
    let took = lines.find_map(|line| now.after(line.called()?, since));
    took.into_iter().for_each(spin::was_told_of_wake_up);
}

/// S2, and I3 of the README of this crate: posters and who leaves work have a light barrier only.
/// One CPU for both sides would need none, but they may be moved apart at any moment.
fn drain() {
    barrier::heavy();
    tally().entered_kernel(1);
}

/// Of a line whose peer gets no processor of this sleeper: it owes nothing there while it sleeps
/// (N1), and calls a spare for what rang no bell.
fn take_leave(line: &(impl Line + ?Sized)) {
    if line.owed() {
        line.call();
    }
    line.knock();
}

fn call(line: &(impl Line + ?Sized)) -> bool {
    line.call();
    false
}

/// D5. Donates this processor; where nobody listens for it, the peer is called onto one of its own.
fn give(line: &(impl Line + ?Sized)) -> bool {
    line.donate() || call(line)
}

/// Where a sleep can watch one word only, every line is put aside: the clerk hears the sockets and
/// calls.
fn without_waitv<'a, L: ?Sized + Line + 'a>(
    own: &Parker,
    mut lines: impl Iterator<Item = &'a L> + Clone,
    deadline_ns: Option<u64>,
) -> Woken {
    lines.clone().for_each(|line| line.set_unpolled());
    barrier::heavy();
    tally().entered_kernel(1);
    if !lines.all(|line| line.quiet()) {
        return Woken::Look;
    }
    tally().slept();
    futex::wait(Watched { word: own.word(), expected: ASLEEP, scope: Scope::Private }, deadline_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;
    use std::sync::Arc;
    use underpass_os::clock;

    const NONE: iter::Empty<&dyn Line> = iter::empty();

    #[test]
    fn a_call_before_the_sleep_is_not_lost() {
        let parker = Parker::new();
        parker.call();
        sleep(&parker, NONE, Role::Last { others: false, alone: false }, None, || false);
    }

    #[test]
    fn a_deadline_ends_a_sleep() {
        let parker = Parker::new();
        let deadline = clock::now_ns() + 1_000_000;
        while clock::now_ns() < deadline {
            sleep(&parker, NONE, Role::Last { others: false, alone: false }, Some(deadline), || false);
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
        sleep(&parker, NONE, Role::Last { others: false, alone: false }, None, || false);
        caller.join().unwrap();
    }
}
