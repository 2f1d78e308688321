//! Quotas: how much of a server one user may have.

use crate::dispatch::server::ServerEnd;
use crate::payload::overflow_buffers::OverflowBuffers;
use crate::payload::passed_file::Unclosed;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use underpass_os::{MOST_FILES, process};
use underpass_threads::critical;

/// Limits on what the clients of one user may have of a server, all together.
///
/// The kernel says to which user a client belongs. All clients of a user share one set of limits.
/// So a user that opens a thousand bindings, from one process or from many, takes nothing from
/// other users.
///
/// # Examples
/// ```
/// use underpass::Limits;
/// let few = Limits { bindings: 16, ..Limits::default() };
/// assert!(few.calls > 1000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bindings at once.
    ///
    /// All bindings between two processes share a connection, which takes one open file. It takes a
    /// second one once a socket or a device has come over it, because the server then watches the
    /// client's process. The connection counts as a binding until the last file is closed that came
    /// over it and that no call has taken.
    ///
    /// A client asks for a further channel if several of its activations contend for the channel. A
    /// further channel counts as one binding. If the limit allows none, the binding goes on without
    /// it.
    pub bindings: usize,
    /// Bytes that the regions of these connections can take once every A-stack has been used. A
    /// region takes about 2 MiB, or more if its first interface needs larger A-stacks than 32 KiB.
    pub memory: u64,
    /// Calls under way at once, beside one for each channel. Further calls wait in their bindings'
    /// slots.
    ///
    /// At most as many calls have given their slots back and were not answered yet. If there are
    /// more, the others keep their slots.
    pub calls: usize,
    /// Bytes of overflow buffers, in which these bindings pass what their A-stacks have no space
    /// for.
    ///
    /// A buffer takes 64 KiB to 64 MiB for a call under way. Between calls it is kept and counts by
    /// the pages that are in memory, but at least 64 KiB. The client gives back what it has not
    /// used for 1 to 2 s. If the limit allows no further buffer, the call uses a file instead,
    /// which it writes and reads. That takes several times as long.
    pub overflow_bytes: u64,
    /// Activations at once that calls of this user block in the kernel without
    /// [`thread::blocking`](underpass_threads::blocking). At least 1.
    ///
    /// At this limit the server begins no further call of the user until one of the activations
    /// goes on. The calls wait in their bindings' slots. Calls that begin at the same moment may
    /// block in addition, one for each processor. Handlers that block until another call of the
    /// same user comes need a limit that leaves space for that call.
    ///
    /// Calls on a processor that the user's own client has donated do not count. Whatever this
    /// limit says, a user never gets more than half of the activations that the domain may have, so
    /// the others stay free for other users.
    pub blocked: usize,
    /// Open files at once that came over these bindings and that no call has taken yet, or that are
    /// still to be closed.
    ///
    /// While the server receives a message with files, it reserves 65 files. If the limit does not
    /// allow that, messages with files wait in their sockets, and after 2 s their calls fail with
    /// [`NoResources`](crate::CallError::NoResources). Whatever this limit says, a user never gets
    /// more than a quarter of the files that this process may open.
    pub files: usize,
    /// Interfaces at once that were passed as values between this server and these clients: those
    /// that the clients hold, and those of theirs that this domain holds. A call that would pass
    /// more fails with [`NoResources`](crate::CallError::NoResources).
    pub interfaces: usize,
}

impl Default for Limits {
    /// 256 bindings, 1 GiB of regions, 4096 calls, 256 MiB of overflow buffers, 16 blocked
    /// activations, 4096 files, 131,072 interfaces.
    fn default() -> Self {
        Self {
            bindings: 256,
            memory: 1 << 30,
            calls: 4096,
            overflow_bytes: 256 << 20,
            blocked: 16,
            files: 4096,
            interfaces: 1 << 17,
        }
    }
}

impl Limits {
    /// No limits, except those that [`blocked`](Self::blocked) and [`files`](Self::files) name.
    pub const NONE: Self = Self {
        bindings: usize::MAX,
        memory: u64::MAX,
        calls: usize::MAX,
        overflow_bytes: u64::MAX,
        blocked: usize::MAX,
        files: usize::MAX,
        interfaces: usize::MAX,
    };

    /// The limits of root, unless a server sets others. Its bindings may take 7/8 of the files that
    /// this process may open: root could end the process anyway.
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
        // An account that nobody holds is empty.
        users.retain(|_, account| Arc::strong_count(account) > 1);
        let limits = self.of.get(&uid).copied().unwrap_or(self.usual);
        users.entry(uid).or_insert(Arc::new(Account::new(uid, limits))).clone()
    }

    /// Charges a binding to `uid`, with the bytes of its connection's region, or none for a binding
    /// of a connection that there is. The error is a text for the client.
    pub(crate) fn admit(&self, uid: u32, region: u64) -> Result<ChannelQuota, String> {
        ChannelQuota::of(self.account(uid), region)
    }

    /// Whether the user may have as much of this server as `other` says. Then its bindings of both
    /// can share a connection.
    pub(crate) fn allow_the_same(&self, uid: u32, other: &Limits) -> bool {
        self.of.get(&uid).unwrap_or(&self.usual) == other
    }
}

/// How a count of blocked activations changed whether a user's calls may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// They may begin, or may not, as before.
    Unchanged,
    /// From now on none may begin: the user's channels must be shut.
    Shut,
    /// From now on they may begin again.
    Opened,
}

/// What one user has.
#[derive(Debug)]
pub(crate) struct Account {
    uid: u32,
    limits: Limits,
    channels: AtomicUsize,
    memory: AtomicU64,
    calls: AtomicUsize,
    /// Calls that have given their slots back and were not answered yet.
    late: AtomicUsize,
    /// Interfaces that were passed as values.
    interfaces: AtomicUsize,
    overflow_bytes: Arc<AtomicU64>,
    /// Files that no call has taken, and files reserved for messages that are being received.
    files: AtomicUsize,
    /// Whether channels wait because the user has as many calls under way as it may.
    waiting: AtomicBool,
    held: Mutex<Vec<Weak<ServerEnd>>>,
    /// Whether as many activations are blocked in the user's calls as may be. The clerk writes it;
    /// others read it.
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
            late: AtomicUsize::new(0),
            interfaces: AtomicUsize::new(0),
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

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Records that `count` activations are blocked in the user's calls, where `most` are allowed
    /// whatever the limits say. Says whether that changes if the user's calls may begin. Called by
    /// the clerk.
    pub(crate) fn set_blocked(&self, count: usize, most: usize) -> Admission {
        let shut = count >= self.limits.blocked.min(most).max(1);
        // SYNC with `shut` load in `is_shut`: see `ServerEnd::follow`.
        match (self.shut.swap(shut, Ordering::SeqCst), shut) {
            (false, true) => Admission::Shut,
            (true, false) => Admission::Opened,
            _ => Admission::Unchanged,
        }
    }

    /// Whether no call of the user may begin, because too many of them block.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::SeqCst)
    }

    /// Whether one more call may run. If so, the caller must call [`leaves`](Self::leaves) when the
    /// call has ended.
    pub(crate) fn enters(&self) -> bool {
        let one_more = |calls| (calls < self.limits.calls).then_some(calls + 1);
        // SYNC with `hold`: see there.
        self.calls.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    /// One more call runs, whatever the limit says. Returns `true`.
    pub(crate) fn enters_anyway(&self) -> bool {
        self.calls.fetch_add(1, Ordering::SeqCst);
        true
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
    /// No wake-up is lost. This sets `waiting` and then reads `calls`. [`leaves`](Self::leaves)
    /// decrements `calls` and then reads `waiting`. Both are sequentially consistent, so at least
    /// one of them sees the other's write, and releases the end.
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

/// The charge for one call that is answered late, until it is answered.
#[derive(Debug)]
pub(crate) struct LateQuota(Arc<Account>);

impl Account {
    /// Charges a call that gives its slot back, if the quota allows it.
    pub(crate) fn late_answer(self: &Arc<Self>) -> Option<LateQuota> {
        let one_more = |late| (late < self.limits.calls).then_some(late + 1);
        // Relaxed, here and below: a count.
        self.late.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(LateQuota(self.clone()))
    }
}

impl Drop for LateQuota {
    fn drop(&mut self) {
        self.0.late.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The charge for one interface that was passed as a value, until it ends.
#[derive(Debug)]
pub(crate) struct InterfaceQuota(Arc<Account>);

impl Account {
    /// Charges one more interface, if the quota allows it.
    ///
    /// # Errors
    /// A text that says which limit there is.
    pub(crate) fn interface(self: &Arc<Self>) -> Result<InterfaceQuota, String> {
        let one_more = |count| (count < self.limits.interfaces).then_some(count + 1);
        // Relaxed, here and below: a count.
        match self.interfaces.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(InterfaceQuota(self.clone())),
            Err(most) => {
                Err(format!("user {} has {most} interfaces as values there, as many as it may", self.uid))
            }
        }
    }
}

impl Drop for InterfaceQuota {
    fn drop(&mut self) {
        self.0.interfaces.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A part of a user's file quota, until dropped.
#[derive(Debug)]
pub(crate) struct FileQuota {
    charge: Arc<ChannelCharge>,
    count: usize,
}

impl ChannelCharge {
    /// Reserves files for one message, if the quota allows it.
    pub(crate) fn room_for_message(self: &Arc<Self>) -> Option<FileQuota> {
        self.room_for_files(MOST_FILES)
    }

    /// Reserves `count` files, if the quota allows it.
    pub(crate) fn room_for_files(self: &Arc<Self>, count: usize) -> Option<FileQuota> {
        let most = self.account.limits.files.min(process::files() as usize / 4).max(MOST_FILES);
        let more = |files: usize| (files + count <= most).then_some(files + count);
        // Relaxed: a count.
        self.account.files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(FileQuota { charge: self.clone(), count })
    }

    /// Charges one file that came with such a message.
    pub(crate) fn one_file(self: &Arc<Self>) -> FileQuota {
        self.account.files.fetch_add(1, Ordering::Relaxed);
        FileQuota { charge: self.clone(), count: 1 }
    }
}

impl Drop for FileQuota {
    fn drop(&mut self) {
        self.charge.account.files.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// The charge for one channel of a user. It lasts until this value is dropped and the last file is
/// closed that came over the channel.
#[derive(Debug)]
pub(crate) struct ChannelQuota {
    account: Arc<Account>,
    charge: Arc<ChannelCharge>,
}

/// The charge itself, which passed files share.
#[derive(Debug)]
pub(crate) struct ChannelCharge {
    account: Arc<Account>,
    /// Bytes of the channel's region.
    region: u64,
}

impl ChannelQuota {
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
        Ok(Self { charge: Arc::new(ChannelCharge { account: account.clone(), region }), account })
    }

    /// Charges one more channel to the same user.
    pub(crate) fn another(&self) -> Result<Self, String> {
        Self::of(self.account.clone(), self.charge.region)
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// The same account, to keep.
    pub(crate) fn shared(&self) -> &Arc<Account> {
        &self.account
    }

    /// The count of this channel's files that are still to be closed.
    pub(crate) fn unclosed(&self) -> Arc<Unclosed> {
        Unclosed::new(self.account.uid, Some(self.charge.clone()))
    }

    /// The overflow buffers of a channel of this user.
    pub(crate) fn overflow_buffers(&self) -> OverflowBuffers {
        OverflowBuffers::of_server(
            self.account.uid,
            self.account.overflow_bytes.clone(),
            self.account.limits.overflow_bytes,
        )
    }
}

impl Drop for ChannelCharge {
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
    fn a_user_has_a_quota_of_channels_and_they_come_back() {
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
    fn memory_is_charged_by_regions() {
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
        let quota = quotas(Limits { blocked: 3, ..Limits::default() }).admit(7, BYTES).unwrap();
        let account = quota.account();
        assert_eq!(account.set_blocked(2, 9), Admission::Unchanged);
        assert_eq!(account.set_blocked(3, 9), Admission::Shut);
        assert!(account.is_shut());
        assert_eq!(account.set_blocked(5, 9), Admission::Unchanged, "it is already");
        assert_eq!(account.set_blocked(2, 9), Admission::Opened);
        assert_eq!(account.set_blocked(2, 2), Admission::Shut, "the domain's own bound");
        assert_eq!(account.set_blocked(0, 0), Admission::Opened, "one at least");
    }

    #[test]
    fn waiting_files_are_bounded_and_a_message_reserves_its_files() {
        let quotas = quotas(Limits { files: 2 * MOST_FILES, ..Limits::default() });
        let (one, other) = (quotas.admit(7, BYTES).unwrap(), quotas.admit(7, BYTES).unwrap());
        let message = one.charge.room_for_message().unwrap();
        let more = other.charge.room_for_message();
        assert!(more.is_some() && one.charge.room_for_message().is_none());
        let came = one.charge.one_file();
        drop((message, more));
        assert!(one.charge.room_for_message().is_some(), "one beside");
        let room = one.charge.room_for_message();
        assert!(room.is_some() && other.charge.room_for_message().is_none());
        drop(came);
        assert!(other.charge.room_for_message().is_some());
    }

    #[test]
    fn late_answers_are_bounded() {
        let quota = quotas(Limits { calls: 2, ..Limits::default() }).admit(7, BYTES).unwrap();
        let (one, other) = (quota.shared().late_answer(), quota.shared().late_answer());
        assert!(one.is_some() && other.is_some() && quota.shared().late_answer().is_none());
        drop(one);
        assert!(quota.shared().late_answer().is_some());
    }

    #[test]
    fn interfaces_as_values_are_bounded_for_each_user() {
        let quotas = quotas(Limits { interfaces: 2, ..Limits::default() });
        let [one, other] = [(); 2].map(|()| quotas.admit(7, BYTES).unwrap());
        let (first, _second) = (one.shared().interface().unwrap(), other.shared().interface().unwrap());
        assert!(one.shared().interface().unwrap_err().contains("user 7 has 2 interfaces"));
        assert!(quotas.admit(8, BYTES).unwrap().shared().interface().is_ok(), "another user");
        drop(first);
        assert!(other.shared().interface().is_ok());
    }

    #[test]
    fn calls_under_way_are_bounded() {
        let quota = quotas(Limits { calls: 1, ..Limits::default() }).admit(7, BYTES).unwrap();
        let account = quota.account();
        assert!(account.enters() && !account.enters());
        account.leaves();
        assert!(account.enters());
    }
}
