//! Counts, for each user, the activations that are blocked in the kernel unannounced while they
//! serve his calls. If there are too many, no more of his calls are started.
//!
//! The monitor finds such activations. It may take no lock, so it tells the clerk. The clerk counts
//! them anew after each change, by the slots whose calls these threads run, and shuts or opens the
//! channels of the users concerned. Until it has done so the monitor starts no worker for calls
//! that wait (`settled`). So a user exceeds his bound by at most one activation for each processor:
//! those that took a call of his before his channels were shut.

use crate::binding::limits::{Account, Admission};
use crate::control::clerk::Clerk;
use crate::dispatch::server::ServerEnd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use underpass_processor::Pool;
use underpass_threads::{BlockedWatcher, blocked, watch_blocked};

/// The changes of blocked activations that the monitor has reported.
struct Changes {
    /// How many changes there were.
    told: AtomicU32,
    /// How many of them the clerk has processed. Only the clerk writes it.
    seen: AtomicU32,
    clerk: OnceLock<&'static Clerk>,
}

static CHANGES: Changes =
    Changes { told: AtomicU32::new(0), seen: AtomicU32::new(0), clerk: OnceLock::new() };

impl BlockedWatcher for Changes {
    fn changed(&self) {
        // SYNC with `told` load in `recount`: the activation's new state.
        self.told.fetch_add(1, Ordering::Release);
        if let Some(clerk) = self.clerk.get() {
            clerk.wake();
        }
    }

    fn settled(&self) -> bool {
        // SYNC with `seen` store in `recount`: the channels that were shut.
        self.seen.load(Ordering::Acquire) == self.told.load(Ordering::Relaxed)
    }
}

/// From now on the monitor tells `clerk` of blocked activations.
pub(crate) fn begin(clerk: &'static Clerk) {
    if CHANGES.clerk.set(clerk).is_ok() {
        watch_blocked(&CHANGES);
    }
}

/// A user, and how many activations are blocked in his calls.
type Count = (Arc<Account>, usize);

/// Counts the blocked activations anew if any change was reported. The clerk calls it. `known` are
/// the users that had some.
pub(crate) fn recount(clerk: &Clerk, known: &mut Vec<Arc<Account>>) {
    // SYNC with `told` fetch_add in `changed`.
    let told = CHANGES.told.load(Ordering::Acquire);
    // Relaxed: only the clerk writes it.
    if told == CHANGES.seen.load(Ordering::Relaxed) {
        return;
    }
    let mut counts: Vec<Count> = known.drain(..).map(|account| (account, 0)).collect();
    let (threads, ends) = (blocked(), clerk.served());
    for thread in threads {
        // The clerk's own end is not among those: it serves no calls.
        let Some(end) = ends.iter().find(|end| end.runs(thread)) else { continue };
        let account = end.quota().shared();
        match counts.iter_mut().find(|(known, _)| Arc::ptr_eq(known, account)) {
            Some((_, count)) => *count += 1,
            None => counts.push((account.clone(), 1)),
        }
    }
    let most = Pool::get().map_or(usize::MAX, Pool::most_blocked);
    for (account, count) in counts {
        set(&account, count, most, &ends);
        if count > 0 {
            known.push(account);
        }
    }
    // SYNC with `seen` load in `settled`.
    CHANGES.seen.store(told, Ordering::Release);
}

/// Stores that `count` activations are blocked in this user's calls.
fn set(account: &Arc<Account>, count: usize, most: usize, ends: &[Arc<ServerEnd>]) {
    let own = || ends.iter().filter(|end| Arc::ptr_eq(end.quota().shared(), account));
    match account.set_blocked(count, most) {
        Admission::Shut => own().for_each(|end| end.follow()),
        Admission::Opened => own().for_each(|end| end.let_go()),
        Admission::Unchanged => {}
    }
}
