//! The further channels of a connection, so that each activation that calls over it can have one of
//! its own.
//!
//! A connection begins with one channel, and most connections stay so. If activations contend for
//! it, the client asks the server for another channel over the first one's socket. The clerk
//! receives the answer; meanwhile all callers go on as before. Each channel has a region of its
//! own, and an end of its own on each side. Each is polled, made dormant and donates as if it were
//! the only channel. All channels of a connection share its socket and its end.

use super::ClientEnd;
use crate::call::thread_index::{THREAD_INDEXES, thread_index};
use crate::control::clerk::clerk;
use crate::payload::overflow_buffers::OverflowBuffers;
use crate::payload::passed_file::PassedFiles;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use underpass_channel::Channel;
use underpass_channel::layout::CHANNELS;
use underpass_seam::atomic::{AtomicU32, Ordering, fence};
use underpass_threads::critical;

/// The channels beside the first, and which activation uses which.
pub(super) struct Further {
    /// For each thread index the channel that it uses, 1 for the first. It is 0 if the thread has
    /// never been seen to contend: then it uses the first.
    places: [AtomicU32; THREAD_INDEXES],
    ends: [OnceLock<Arc<ClientEnd>>; CHANNELS - 1],
    plan: Mutex<Plan>,
}

#[derive(Debug)]
struct Plan {
    /// How many threads have a place in each channel.
    users: [usize; CHANNELS],
    /// How many channels there are, with the first.
    open: usize,
    /// The keys of the further ones, for the clerk.
    keys: Vec<u64>,
    /// The thread for which another channel was asked for. It stays set if the server can't give
    /// any.
    asker: Option<usize>,
    /// Nobody wants the binding any more.
    ended: bool,
}

impl Further {
    fn new() -> Self {
        Self {
            places: [const { AtomicU32::new(0) }; THREAD_INDEXES],
            ends: [const { OnceLock::new() }; CHANNELS - 1],
            plan: Mutex::new(Plan {
                users: [0; CHANNELS],
                open: 1,
                keys: Vec::new(),
                asker: None,
                ended: false,
            }),
        }
    }

    /// The holder of this lock keeps its processor, since the clerk waits for it.
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, thread_index: usize) -> usize {
        // Relaxed: which channel a caller uses is a matter of speed.
        self.places[thread_index].load(Ordering::Relaxed) as usize
    }

    /// The further channel of the caller's activation, if it has one.
    #[inline(never)]
    fn of_caller(&self) -> Option<&ClientEnd> {
        self.end(self.place(thread_index()))
    }

    fn end(&self, place: usize) -> Option<&ClientEnd> {
        self.ends.get(place.checked_sub(2)?)?.get().map(|end| &**end)
    }

    /// Moves thread `thread_index`, which contends with `other`, to the channel with the fewest
    /// users, if that helps. Returns whether another channel is to be asked for.
    fn divide(&self, plan: &mut Plan, thread_index: usize, other: usize) -> bool {
        for thread_index in [thread_index, other] {
            if self.place(thread_index) == 0 {
                self.places[thread_index].store(1, Ordering::Relaxed);
                plan.users[0] += 1;
            }
        }
        let from = self.place(thread_index) - 1;
        let to = (0..plan.open).min_by_key(|&channel| plan.users[channel]).unwrap_or(from);
        if plan.users[to] + 1 < plan.users[from] {
            plan.users[from] -= 1;
            plan.users[to] += 1;
            self.places[thread_index].store(to as u32 + 1, Ordering::Relaxed);
            return false;
        }
        let wanted = plan.users[from] > 1 && plan.open < CHANNELS && plan.asker.is_none() && !plan.ended;
        if wanted {
            plan.asker = Some(thread_index);
        }
        wanted
    }

    /// The threads with a place in `channel`, 0 for the first.
    fn users(&self, channel: usize) -> impl Iterator<Item = usize> {
        (0..THREAD_INDEXES).filter(move |&thread_index| self.place(thread_index) == channel + 1)
    }
}

impl ClientEnd {
    /// The channel of this binding for the caller's activation.
    #[inline(always)]
    pub(super) fn nearest(&self) -> &Self {
        match self.shared.further.get() {
            None => self,
            Some(further) => further.of_caller().unwrap_or(self),
        }
    }

    /// Whether thread `thread_index` may call over this channel although it has no place in any.
    pub(super) fn may_be_used_by(&self, thread_index: usize) -> bool {
        self.shared.further.get().is_some_and(|further| further.place(thread_index) == 0)
    }

    /// The further ends. Of the first end.
    pub(super) fn further_ends(&self) -> impl Iterator<Item = &Self> {
        self.shared
            .further
            .get()
            .into_iter()
            .flat_map(|further| further.ends.iter())
            .filter_map(|end| end.get().map(|end| &**end))
    }

    /// Threads `thread_index` and `other` contend for a channel. Of the first end.
    pub(super) fn relieve(&self, thread_index: usize, other: usize) {
        let further = self.shared.further.get_or_init(|| Box::new(Further::new()));
        let held = critical();
        // Another thread divides the channels already.
        let Ok(mut plan) = further.plan.try_lock() else { return };
        let ask = further.divide(&mut plan, thread_index, other);
        self.settle(further, &plan);
        drop(plan);
        drop(held);
        if ask && !self.mailbox.ask() {
            let _held = critical();
            further.plan().asker = None;
        }
    }

    /// Tells the channels which threads use them.
    fn settle(&self, further: &Further, plan: &Plan) {
        for channel in 0..plan.open {
            let end = further.end(channel + 1).unwrap_or(self);
            end.channel_owner.appoint(further.users(channel));
            end.contention.reset();
        }
    }

    /// The server has answered the question for a channel: with the region of channel `number`, or
    /// with nothing.
    #[cold]
    pub(super) fn opened(&self, number: u8, mut files: PassedFiles) {
        let asked = self.shared.further.get().filter(|further| {
            let _held = critical();
            further.plan().asker.is_some()
        });
        let Some(further) = asked else {
            self.violated("a channel that nobody asked for");
            return;
        };
        if files.len() != 1 {
            // One side has no file left: the binding stays as it is.
            return;
        }
        match self.adopt(&mut files) {
            Ok(channel) => self.add(further, number, channel),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                self.violated("a further channel whose memory is not sealed or has another size");
            }
            Err(_) => {}
        }
    }

    /// The channel whose region came.
    fn adopt(&self, files: &mut PassedFiles) -> io::Result<Channel> {
        let region = files.take_memory().ok_or(io::ErrorKind::InvalidData)?;
        Channel::adopt(region.as_fd(), self.channel.fence(), self.channel.stack())
    }

    fn add(&self, further: &Further, number: u8, channel: Channel) {
        let mailbox = self.mailbox.another(number, OverflowBuffers::default());
        let end =
            Self::beside(Some(self.own.clone()), self.shared.rows.clone(), channel, mailbox, self.placement);
        let Ok(clerk) = clerk() else { return };
        let Ok(key) = clerk.bound(&end) else { return };
        let held = critical();
        let mut plan = further.plan();
        let place = further.ends.get(plan.open - 1).filter(|_| !plan.ended);
        let Some(asker) =
            place.is_some_and(|place| place.set(end.clone()).is_ok()).then(|| plan.asker.take())
        else {
            drop(plan);
            drop(held);
            return clerk.unwatch(key);
        };
        plan.keys.push(key);
        plan.open += 1;
        if let Some(thread_index) = asker {
            further.divide(&mut plan, thread_index, thread_index);
        }
        self.settle(further, &plan);
        drop(plan);
        drop(held);
        // SYNC with `closed` swap in `close_alone`: that one sees this end, or this one sees that.
        fence(Ordering::SeqCst);
        if self.is_closed()
            && let Some(ending) = self.ending()
        {
            end.close_alone(ending);
        }
    }

    /// Acts as if two activations contended for the channel.
    #[cfg(fuzzing)]
    pub(crate) fn contend(&self) {
        self.relieve(0, 1);
    }

    /// Nobody wants the binding any more: returns the clerk's keys of its further channels.
    pub(crate) fn end_further(&self) -> Vec<u64> {
        let Some(further) = self.shared.further.get() else { return Vec::new() };
        let _held = critical();
        let mut plan = further.plan();
        plan.ended = true;
        std::mem::take(&mut plan.keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(further: &Further, channels: usize) -> MutexGuard<'_, Plan> {
        let mut plan = further.plan();
        plan.open = channels;
        plan
    }

    #[test]
    fn a_contending_thread_gets_a_channel_of_its_own() {
        let further = Further::new();
        let mut plan = open(&further, 1);
        assert!(further.divide(&mut plan, 3, 5), "another is asked for");
        assert!(!further.divide(&mut plan, 5, 3), "once");
        assert_eq!((plan.asker.take(), plan.users[0]), (Some(3), 2));
        plan.open = 2;
        assert!(!further.divide(&mut plan, 3, 3));
        assert_eq!((further.place(3), further.place(5)), (2, 1));
        assert!(!further.divide(&mut plan, 5, 3), "both have one");
        // A third one comes, and asks for a third channel.
        assert!(further.divide(&mut plan, 7, 5));
        plan.open = 3;
        assert!(!further.divide(&mut plan, 7, 5));
        assert_eq!((further.place(7), further.users(2).collect::<Vec<_>>()), (3, vec![7]));
    }

    #[test]
    fn more_callers_than_channels_share_them_evenly() {
        let further = Further::new();
        let mut plan = open(&further, CHANNELS);
        for _ in 0..4 {
            for thread_index in 0..2 * CHANNELS {
                assert!(!further.divide(&mut plan, thread_index, (thread_index + 1) % (2 * CHANNELS)));
            }
        }
        assert!(plan.users.iter().all(|&users| users == 2), "{plan:?}");
    }
}
