//! How much of a server one user may have.

use crate::dispatch::server::ServerEnd;
use crate::payload::overflow_buffers::OverflowBuffers;
use crate::payload::passed_file::Unclosed;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use underpass_os::{MOST_FILES, process};
use underpass_threads::critical;

/// What the clients of one user may have of a server, all together.
///
/// Users are told apart by the kernel. All clients of a user share what it may have, so that to
/// open a thousand bindings, from one process or from many, takes nothing from other users.
///
/// # Examples
/// ```
/// use underpass_rpc::Limits;
/// let few = Limits { bindings: 16, ..Limits::default() };
/// assert!(few.calls > 1000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bindings at once. Each takes an open file, and another once a socket or a device has come
    /// over it, by which its client's process is watched. It counts until the last file is closed
    /// that came over it and that no call has taken. A further channel, which a binding asks for
    /// where several activations of its client contend for it, counts as one more; a binding that
    /// gets none goes on without.
    pub bindings: usize,
    /// Bytes that the regions of these bindings can take once every A-stack was used: some 2 MiB
    /// each for A-stacks of 32 KiB, else as the interface needs.
    pub memory: u64,
    /// Calls under way at once, beside one for each channel. More of them wait in their bindings'
    /// slots.
    pub calls: usize,
    /// Bytes of the overflow buffers in which these bindings pass what their A-stacks have no room
    /// for: from 64 KiB to 64 MiB for a call under way. Kept between calls, and counted then by the
    /// pages that are there, or at 64 KiB where these are fewer: the client gives back what it has
    /// not used for a second or two. Where there is no room for one more, the call goes on without,
    /// by a file that is written and read: that takes several times as long.
    pub overflow_bytes: u64,
    /// Activations at once that are blocked in the kernel in calls of this user, without a
    /// [`blocking`](underpass_threads::blocking) around what blocks. Once there are so many, at
    /// least one, none of the user's calls is begun until one of them goes on: the calls wait in
    /// their bindings' slots. Calls that were begun at that moment may block besides, one for each
    /// processor. Handlers that block until another call of the same user comes need a bound that
    /// leaves room for it. Calls that run on a processor which the user's own client has donated
    /// are not counted. Never more than half of the activations that the domain may have, whatever
    /// this says: the others are for other users.
    pub blocked: usize,
    /// Open files at once that came over these bindings and that no call has taken yet, or that are
    /// still to be closed. Room for one whole message, 65 files, is taken while the message is
    /// received. Where there is none left, messages with files wait in their sockets: their calls
    /// get [`NoResources`](crate::CallError::NoResources) after two seconds. Never more than a
    /// quarter of the files that this process may open, whatever this says.
    pub files: usize,
}

impl Default for Limits {
    /// 256 bindings, 1 GiB, 4096 calls, 256 MiB of overflow buffers, 16 blocked activations, 4096
    /// files.
    fn default() -> Self {
        Self {
            bindings: 256,
            memory: 1 << 30,
            calls: 4096,
            overflow_bytes: 256 << 20,
            blocked: 16,
            files: 4096,
        }
    }
}

impl Limits {
    /// None at all, but for half of the activations.
    pub const NONE: Self = Self {
        bindings: usize::MAX,
        memory: u64::MAX,
        calls: usize::MAX,
        overflow_bytes: u64::MAX,
        blocked: usize::MAX,
        files: usize::MAX,
    };

    /// Root's, unless a server says otherwise: all but an eighth of the files that this process may
    /// open, since root could end it as well.
    pub(crate) fn of_root() -> Self {
        let files = process::files() as usize;
        Self { bindings: files - files / 8, ..Self::NONE }
    }
}

/// What the users of one server have.
#[derive(Debug)]
pub(crate) struct Quotas {
    usual: Limits,
    of: HashMap<u32, Limits>,
    users: Mutex<HashMap<u32, Arc<Account>>>,
}

impl Quotas {
    pub(crate) fn new(usual: Limits, of: HashMap<u32, Limits>) -> Self {
        Self { usual, of, users: Mutex::default() }
    }

    /// The account of `uid`.
    fn account(&self, uid: u32) -> Arc<Account> {
        let _held = critical();
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = users.get(&uid) {
            return account.clone();
        }
        // Those that nobody holds have nothing.
        users.retain(|_, account| Arc::strong_count(account) > 1);
        let limits = self.of.get(&uid).copied().unwrap_or(self.usual);
        users.entry(uid).or_insert(Arc::new(Account::new(uid, limits))).clone()
    }

    /// Room for a binding of `uid`; or why there is none.
    pub(crate) fn admit(&self, uid: u32, region: u64) -> Result<Seat, String> {
        Seat::of(self.account(uid), region)
    }
}

/// What one user has.
#[derive(Debug)]
pub(crate) struct Account {
    uid: u32,
    limits: Limits,
    channels: AtomicUsize,
    memory: AtomicU64,
    calls: AtomicUsize,
    overflow_bytes: Arc<AtomicU64>,
    /// Files that no call has taken, and room for such.
    files: AtomicUsize,
    /// Whether some wait.
    waiting: AtomicBool,
    held: Mutex<Vec<Weak<ServerEnd>>>,
    /// As many activations are blocked in its calls as may be. The clerk's; others read it.
    shut: AtomicBool,
}

impl Account {
    fn new(uid: u32, limits: Limits) -> Self {
        Self {
            uid,
            limits,
            channels: AtomicUsize::new(0),
            memory: AtomicU64::new(0),
            calls: AtomicUsize::new(0),
            overflow_bytes: Arc::default(),
            files: AtomicUsize::new(0),
            waiting: AtomicBool::new(false),
            held: Mutex::default(),
            shut: AtomicBool::new(false),
        }
    }

    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// So many activations are blocked in its calls, and `most` may be whatever its limits say. If
    /// that changes whether its calls are begun: whether its channels are to be shut now. By the
    /// clerk.
    pub(crate) fn set_blocked(&self, count: usize, most: usize) -> Option<bool> {
        let shut = count >= self.limits.blocked.min(most).max(1);
        // SYNC with `shut` load in `is_shut`: see `ServerEnd::follow`.
        (self.shut.swap(shut, Ordering::SeqCst) != shut).then_some(shut)
    }

    /// Whether none of its calls is to be begun, since too many of them block.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::SeqCst)
    }

    /// Whether one more call may run; then whoever runs it [`leaves`](Self::leaves) afterwards.
    pub(crate) fn enters(&self) -> bool {
        let one_more = |calls| (calls < self.limits.calls).then_some(calls + 1);
        // SYNC with `hold`: see there.
        self.calls.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    /// A call that entered has ended.
    pub(crate) fn leaves(&self) {
        self.calls.fetch_sub(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) {
            self.release();
        }
    }

    /// No call may enter: `end` serves no more until one can.
    ///
    /// This says that somebody waits and then looks at the calls; who leaves takes one off and then
    /// looks whether somebody waits. So one of them releases.
    pub(crate) fn hold(&self, end: Weak<ServerEnd>, shut: impl FnOnce()) {
        let held = critical();
        let mut waiting = self.held();
        waiting.push(end);
        shut();
        self.waiting.store(true, Ordering::SeqCst);
        drop(waiting);
        drop(held);
        if self.calls.load(Ordering::SeqCst) < self.limits.calls {
            self.release();
        }
    }

    #[cold]
    fn release(&self) {
        let held = critical();
        let mut waiting = self.held();
        self.waiting.store(false, Ordering::SeqCst);
        let ends = std::mem::take(&mut *waiting);
        drop(waiting);
        drop(held);
        ends.iter().filter_map(Weak::upgrade).for_each(|end| end.let_go());
    }

    fn held(&self) -> MutexGuard<'_, Vec<Weak<ServerEnd>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a user's room for files is taken, until dropped.
#[derive(Debug)]
pub(crate) struct FilesOf {
    place: Arc<Place>,
    count: usize,
}

impl Place {
    /// Room for the files of one message, if there is so much.
    pub(crate) fn room_for_message(self: &Arc<Self>) -> Option<FilesOf> {
        let most = self.account.limits.files.min(process::files() as usize / 4).max(MOST_FILES);
        let more = |files: usize| (files + MOST_FILES <= most).then_some(files + MOST_FILES);
        // Relaxed: a count.
        self.account.files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(FilesOf { place: self.clone(), count: MOST_FILES })
    }

    /// One file that came with such a message.
    pub(crate) fn one_file(self: &Arc<Self>) -> FilesOf {
        self.account.files.fetch_add(1, Ordering::Relaxed);
        FilesOf { place: self.clone(), count: 1 }
    }
}

impl Drop for FilesOf {
    fn drop(&mut self) {
        self.place.account.files.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// Room for one channel of a user's, until dropped, and until the last file is closed that came
/// over the channel.
#[derive(Debug)]
pub(crate) struct Seat {
    account: Arc<Account>,
    place: Arc<Place>,
}

/// What it counts for.
#[derive(Debug)]
pub(crate) struct Place {
    account: Arc<Account>,
    /// Bytes of the channel's region.
    region: u64,
}

impl Seat {
    fn of(account: Arc<Account>, region: u64) -> Result<Self, String> {
        let Account { uid, limits, .. } = *account;
        // Relaxed, here and below: counts.
        let more = |channels| (channels < limits.bindings).then_some(channels + 1);
        if account.channels.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            let most = limits.bindings;
            return Err(format!("user {uid} has {most} bindings there, as many as it may"));
        }
        let more = |bytes: u64| bytes.checked_add(region).filter(|&bytes| bytes <= limits.memory);
        if account.memory.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            account.channels.fetch_sub(1, Ordering::Relaxed);
            let most = limits.memory;
            return Err(format!(
                "the bindings of user {uid} there take all of the {most} bytes that they may"
            ));
        }
        Ok(Self { place: Arc::new(Place { account: account.clone(), region }), account })
    }

    /// Room for one more channel of the same user.
    pub(crate) fn another(&self) -> Result<Self, String> {
        Self::of(self.account.clone(), self.place.region)
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// The same, to hold on to it.
    pub(crate) fn shared(&self) -> &Arc<Account> {
        &self.account
    }

    /// What of the binding is still to be closed.
    pub(crate) fn unclosed(&self) -> Arc<Unclosed> {
        Unclosed::new(self.account.uid, Some(self.place.clone()))
    }

    /// The overflow buffers of a channel of this user's.
    pub(crate) fn overflow_buffers(&self) -> OverflowBuffers {
        OverflowBuffers::of_server(
            self.account.uid,
            self.account.overflow_bytes.clone(),
            self.account.limits.overflow_bytes,
        )
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.account.memory.fetch_sub(self.region, Ordering::Relaxed);
        self.account.channels.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass_channel::layout::REGION;

    const BYTES: u64 = REGION as u64;

    fn quotas(usual: Limits) -> Quotas {
        Quotas::new(usual, HashMap::from([(0, Limits::NONE)]))
    }

    #[test]
    fn a_user_has_so_many_seats_and_they_come_back() {
        let quotas = quotas(Limits { bindings: 2, ..Limits::default() });
        let (first, _second) = (quotas.admit(7, BYTES).unwrap(), quotas.admit(7, BYTES).unwrap());
        assert!(quotas.admit(7, BYTES).unwrap_err().contains("user 7 has 2 bindings"));
        assert!(first.another().is_err());
        assert!(quotas.admit(8, BYTES).is_ok(), "another user");
        let root: Vec<_> = (0..100).map(|_| quotas.admit(0, BYTES).unwrap()).collect();
        assert_eq!(root.len(), 100);
        drop(first);
        assert!(quotas.admit(7, BYTES).is_ok());
    }

    #[test]
    fn memory_is_counted_by_regions() {
        let quotas = quotas(Limits { memory: 2 * BYTES, ..Limits::default() });
        let two = (quotas.admit(7, BYTES).unwrap(), quotas.admit(7, BYTES).unwrap());
        assert!(quotas.admit(7, BYTES).unwrap_err().contains("bytes"));
        assert!(quotas.admit(8, 2 * BYTES).is_ok() && quotas.admit(8, 2 * BYTES + 1).is_err());
        drop(two);
        assert!(quotas.admit(7, BYTES).is_ok());
    }

    #[test]
    fn users_without_bindings_are_forgotten() {
        let quotas = quotas(Limits::default());
        (0..1000).for_each(|uid| drop(quotas.admit(uid, BYTES).unwrap()));
        assert!(quotas.users.lock().unwrap().len() <= 2);
    }

    #[test]
    fn a_user_is_shut_at_its_bound_of_blocked_activations() {
        let seat = quotas(Limits { blocked: 3, ..Limits::default() }).admit(7, BYTES).unwrap();
        let account = seat.account();
        assert_eq!(account.set_blocked(2, 9), None);
        assert_eq!(account.set_blocked(3, 9), Some(true));
        assert!(account.is_shut());
        assert_eq!(account.set_blocked(5, 9), None, "it is already");
        assert_eq!(account.set_blocked(2, 9), Some(false));
        assert_eq!(account.set_blocked(2, 2), Some(true), "the domain's own bound");
        assert_eq!(account.set_blocked(0, 0), Some(false), "one at least");
    }

    #[test]
    fn so_many_files_wait_and_room_for_a_message_is_taken_ahead() {
        let quotas = quotas(Limits { files: 2 * MOST_FILES, ..Limits::default() });
        let (one, other) = (quotas.admit(7, BYTES).unwrap(), quotas.admit(7, BYTES).unwrap());
        let message = one.place.room_for_message().unwrap();
        let more = other.place.room_for_message();
        assert!(more.is_some() && one.place.room_for_message().is_none());
        let came = one.place.one_file();
        drop((message, more));
        assert!(one.place.room_for_message().is_some(), "one beside");
        let room = one.place.room_for_message();
        assert!(room.is_some() && other.place.room_for_message().is_none());
        drop(came);
        assert!(other.place.room_for_message().is_some());
    }

    #[test]
    fn so_many_calls_enter() {
        let seat = quotas(Limits { calls: 1, ..Limits::default() }).admit(7, BYTES).unwrap();
        let account = seat.account();
        assert!(account.enters() && !account.enters());
        account.leaves();
        assert!(account.enters());
    }
}
