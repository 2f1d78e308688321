//! The steps by which a processor goes to sleep without losing a wake-up.

use crate::park::parker::{ASLEEP, Parker};
use crate::{Line, metrics};
use underpass_os::futex::{self, FutexScope, SleepEnd, Watch, Watched};
use underpass_os::{barrier, clock};

/// A sleeper that has donated its processor looks after this long, in ns, at what has come. It
/// notifies the peer for what has not come, since a procedure may stay on the processor. This is
/// longer than a tick of the kernel's clock, so that setting and cancelling the timeout costs no
/// interrupt.
const PATIENCE: u64 = 20_000_000;

/// The first timeout, in ns, of a sleeper that awaits a call which the peer has not taken, although
/// the peer announced that it polls. All processors of the peer may be blocked. Together with a
/// tick of the peer's monitor this stays below 10 ms.
pub const PROMPT: u64 = 4_000_000;

/// The timeout doubles each time that the peer was notified for the same calls, up to about ten
/// seconds. These are the most doublings of either.
const DOUBLED: [u32; 2] = [9, 11];

/// How long, in ns, a sleeper waits for the reply of a peer that may be held up, before it looks
/// and notifies the peer again. It has done so `times` times for the same calls.
pub fn patience(times: u32) -> u64 {
    PATIENCE << times.min(DOUBLED[0])
}

/// As [`patience`], if the peer has not even taken a call.
pub fn prompt_patience(times: u32) -> u64 {
    PROMPT << times.min(DOUBLED[1])
}

/// How a processor sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepRole {
    /// No processor of the domain polls these lines any more, so posts have to wake it.
    Last {
        /// Whether other processors of the domain sleep too.
        others: bool,
        /// No other thread of this domain runs that leaves work for the sleeper with less than a
        /// full fence.
        alone: bool,
    },
    /// Another processor runs and polls. Only an unpark, or a peer that wakes a spare, wakes this
    /// one.
    Spare,
    /// It waits for replies of its own, whatever other processors of the domain do. The caller has
    /// entered the lines, and leaves them afterwards.
    ReplyWaiter {
        /// As for [`Last`](Self::Last).
        alone: bool,
    },
}

impl SleepRole {
    fn is_alone(self) -> bool {
        matches!(self, Self::Last { alone: true, .. } | Self::ReplyWaiter { alone: true })
    }
}

/// Sleeps until `own` is unparked, a message of one of `lines` comes, or `deadline_ns` passes. It
/// does not begin to sleep if one of these is so already, or if `ready` returns that there is work.
///
/// May return spuriously, so the caller looks at everything again.
pub fn sleep<'a, L: ?Sized + Line + 'a>(
    own: &Parker,
    lines: impl Iterator<Item = &'a L> + Clone,
    role: SleepRole,
    deadline_ns: Option<u64>,
    ready: impl Fn() -> bool,
) {
    sleep_and_donate(own, lines, role, None, deadline_ns, ready);
}

/// Where a sleeper donates its processor to.
#[derive(Debug)]
pub struct DonateTo<'a, L: ?Sized> {
    /// The line to which the processor is donated: calls wait at its peer.
    pub line: &'a L,
    /// The sleeper has other things to do: if nobody listens for its processor, it doesn't sleep.
    pub forced: bool,
}

/// As [`sleep`]. If a donee is given, which is one of `lines`, its peer has the processor
/// meanwhile.
pub fn sleep_and_donate<'a, L: ?Sized + Line + 'a>(
    own: &Parker,
    lines: impl Iterator<Item = &'a L> + Clone,
    role: SleepRole,
    donee: Option<DonateTo<'_, L>>,
    deadline_ns: Option<u64>,
    ready: impl Fn() -> bool,
) {
    if !own.prepare() {
        return;
    }
    let mut watched = Watch::of(Watched { word: own.word(), expected: ASLEEP, scope: FutexScope::Private });
    let awaited = announce(lines.clone(), role, donee.as_ref().map(|donee| donee.line), &mut watched);
    // A sleeper that does not watch the donee's word would not get the processor back. So it
    // notifies the peer instead of donating.
    let donee = donee.filter(|donee| awaited || notify_instead(donee.line));
    // A spare leaves messages to the processor that polls. If that one is held up, `ready` says so,
    // or a peer wakes this spare.
    let quiet = || role == SleepRole::Spare || lines.clone().all(|line| line.quiet());
    // D3 of the channel's README: if the donee's line is the only one on which to wait, its peer
    // wakes the sleeper in any case.
    let forced = donee.as_ref().is_some_and(|donee| donee.forced);
    let brief = watched.len() == 2 && donee.is_some() && role.is_alone();
    let donee = donee.map(|donee| donee.line);
    // A′: no message can come, and threads leave work by a read-modify-write. On this processor
    // that is a full fence, and so is `prepare`.
    let unseen = cfg!(target_arch = "x86_64") && watched.len() == 1 && role.is_alone();
    if !brief && !unseen {
        heavy_barrier();
    }
    if !ready() && quiet() {
        let donated = donee.is_some_and(donate_or_notify);
        if brief && !donated {
            heavy_barrier();
        }
        if donated || (!forced && (!brief || quiet())) {
            let donated_to = donee.filter(|_| donated);
            wait(own, lines.clone(), &watched, donated_to, deadline_ns);
        }
    }
    if !matches!(role, SleepRole::ReplyWaiter { .. }) {
        lines.for_each(|line| line.look());
    }
    own.wake_up();
}

/// *S1* for each of `lines`: adds those to `watched` of which messages are awaited. Returns whether
/// the line of the donee is watched.
fn announce<'a: 'w, 'w, L: ?Sized + Line + 'a>(
    lines: impl Iterator<Item = &'a L>,
    role: SleepRole,
    donee: Option<&L>,
    watched: &mut Watch<'w>,
) -> bool {
    let mut awaited = false;
    for line in lines {
        if watched.is_full() {
            line.set_unpolled();
            continue;
        }
        let announced = match role {
            SleepRole::Last { others, .. } => line.park(others),
            SleepRole::ReplyWaiter { .. } => line.park(false),
            SleepRole::Spare => line.spare(),
        };
        if let Some(expected) = announced {
            watched.push(Watched { word: line.word(), expected, scope: FutexScope::Shared });
            awaited |= donee.is_some_and(|donee| std::ptr::addr_eq(donee, line));
        }
    }
    awaited
}

/// Sleeps on the `watched` words. If a peer has to be notified again meanwhile, notifies it and
/// returns.
fn wait<'a, L: ?Sized + Line + 'a>(
    own: &Parker,
    lines: impl Iterator<Item = &'a L> + Clone,
    watched: &Watch<'_>,
    donated_to: Option<&L>,
    deadline_ns: Option<u64>,
) {
    let is_donee = |line: &L| donated_to.is_some_and(|to| std::ptr::addr_eq(to, line));
    lines.clone().filter(|line| !is_donee(line)).for_each(notify_before_sleep);
    metrics().slept();
    let notify_again_after = |line: &L| line.notify_again_after(is_donee(line));
    let patience = lines.clone().filter_map(notify_again_after).min().map(|after| clock::now_ns() + after);
    let until = deadline_ns.into_iter().chain(patience).min();
    let woken = match watched.wait(until) {
        SleepEnd::Unsupported => without_waitv(own, lines.clone(), until),
        woken => woken,
    };
    if woken == SleepEnd::Late {
        let late = lines.filter(|line| notify_again_after(line).is_some());
        late.for_each(|line| line.notify_again());
    }
}

/// S2, and I3 of the README of this crate: posters, and threads that leave work, have a light
/// barrier only. If both sides had the same CPU, none would be needed, but they may be moved apart
/// at any moment.
fn heavy_barrier() {
    barrier::heavy();
    metrics().entered_kernel(1);
}

/// For a line whose peer does not get the processor of this sleeper: notifies the peer of what is
/// owed, so that nothing is owed during the sleep (N1). Wakes a spare for posts that notified
/// nobody.
fn notify_before_sleep(line: &(impl Line + ?Sized)) {
    if line.owed() {
        line.call();
    }
    line.wake_spare();
}

fn notify_instead(line: &(impl Line + ?Sized)) -> bool {
    line.call();
    false
}

/// D5 of the channel's README. Donates this processor. If nobody listens for it, notifies the peer,
/// which then serves on a processor of its own.
fn donate_or_notify(line: &(impl Line + ?Sized)) -> bool {
    line.donate() || notify_instead(line)
}

/// If the kernel lets a sleep watch one word only: the clerk watches the sockets of all lines, and
/// unparks this processor.
fn without_waitv<'a, L: ?Sized + Line + 'a>(
    own: &Parker,
    mut lines: impl Iterator<Item = &'a L> + Clone,
    deadline_ns: Option<u64>,
) -> SleepEnd {
    lines.clone().for_each(|line| line.set_unpolled());
    barrier::heavy();
    metrics().entered_kernel(1);
    if !lines.all(|line| line.quiet()) {
        return SleepEnd::Look;
    }
    metrics().slept();
    futex::wait(Watched { word: own.word(), expected: ASLEEP, scope: FutexScope::Private }, deadline_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;
    use std::sync::Arc;
    use underpass_os::clock;

    const NONE: iter::Empty<&dyn Line> = iter::empty();

    #[test]
    fn an_unpark_before_the_sleep_is_not_lost() {
        let parker = Parker::new();
        parker.unpark();
        sleep(&parker, NONE, SleepRole::Last { others: false, alone: false }, None, || false);
    }

    #[test]
    fn a_deadline_ends_a_sleep() {
        let parker = Parker::new();
        let deadline = clock::now_ns() + 1_000_000;
        while clock::now_ns() < deadline {
            sleep(&parker, NONE, SleepRole::Last { others: false, alone: false }, Some(deadline), || false);
        }
        assert!(!parker.asleep());
    }

    #[test]
    fn an_unpark_ends_a_sleep() {
        let parker = Arc::new(Parker::new());
        let other = parker.clone();
        let caller = std::thread::spawn(move || {
            other.unpark();
        });
        sleep(&parker, NONE, SleepRole::Last { others: false, alone: false }, None, || false);
        caller.join().unwrap();
    }
}
