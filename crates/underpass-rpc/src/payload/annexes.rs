//! Which annexes an end has, one for each slot at the most: the client makes them and the server
//! maps them, both keep them.
//!
//! The client numbers those of a slot as it makes them. A server that has mapped one says its
//! number in the slot's kept word, before the reply of the call that brought it; so between two
//! calls over a slot both know which annex is its. All of this is on the way of large arguments and
//! results alone.
//!
//! A client that drops an annex between two calls clears the kept word; the server sees that before
//! it uses the annex again, or when it counts. Nobody gives pages back in place: the peer could
//! hold the file's lock for ever (decision 0056).

use crate::binding::budget::BudgetShare;
use crate::payload::file_thread;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use underpass_channel::layout::{ANNEX, ANNEXES, SLOTS};
use underpass_channel::{Annex, Channel};
use underpass_threads::critical;
use underpass_wire::DecodeError;

/// The number of no annex.
const NONE: u16 = 0;

/// An annex, and its bytes of the budget.
#[derive(Debug)]
pub(crate) struct Kept {
    /// There until it is dropped.
    held: Option<(Annex, BudgetShare)>,
    /// The peer's user.
    user: u32,
    /// Of the server: there is no room for it any more, or another is in its place, and it goes
    /// when its call has been read.
    last_time: AtomicBool,
}

impl Kept {
    fn new(annex: Annex, room: BudgetShare, user: u32) -> Self {
        Self { held: Some((annex, room)), user, last_time: AtomicBool::new(false) }
    }

    fn held(&self) -> &(Annex, BudgetShare) {
        self.held.as_ref().expect("it is there until it is dropped")
    }

    fn annex(&self) -> &Annex {
        &self.held().0
    }

    fn room(&self) -> &BudgetShare {
        &self.held().1
    }

    /// Of the server: nobody has use for it once it has been read here.
    fn goes_when_read(&self) {
        // Relaxed: for who drops the last share.
        self.last_time.store(true, Ordering::Relaxed);
    }

    /// Of the server: counts the pages that are there, between two calls.
    fn count(&self) {
        let resident = self.annex().resident().unwrap_or(self.annex().room());
        let counted = resident.max(*ANNEX.start());
        self.room().set(counted as u64);
    }

    /// Of the server: counts all of it, for a call that may touch all of it; `false` if there is no
    /// room.
    fn count_all(&self) -> bool {
        self.room().set(self.annex().room() as u64)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Relaxed: who has the last share of it was told by who set it.
        if self.last_time.load(Ordering::Relaxed)
            && let Some((annex, room)) = self.held.take()
        {
            // Pages that the reading has taken would be this domain's for as long as the client
            // likes. The client can hold the lock that this takes: the annex counts until it is
            // done.
            file_thread::run(self.user, move || {
                annex.give_back();
                drop(room);
            });
        }
    }
}

impl AsRef<Annex> for Kept {
    fn as_ref(&self) -> &Annex {
        self.annex()
    }
}

/// One with its number.
#[derive(Clone, Debug)]
pub(crate) struct Numbered {
    pub(crate) kept: Arc<Kept>,
    pub(crate) number: u16,
}

/// What an end knows of one slot.
#[derive(Debug, Default)]
struct Place {
    /// The one that both sides have.
    common: Option<Numbered>,
    /// Of the client: one that it has made, of which it doesn't know whether the server has it.
    offered: Option<Numbered>,
    /// It went out with arguments: a server that didn't map it then never will.
    with_arguments: bool,
    /// The server has no room for it.
    refused: bool,
    /// The number of the last one made.
    last: u16,
    /// It was used since it was looked at; of the client, and there is one.
    used: bool,
    filled: bool,
}

impl Place {
    /// The server says that it has this.
    fn learn(&mut self, number: u16) {
        if self.offered.as_ref().is_some_and(|offered| offered.number == number) {
            self.common = self.offered.take();
        }
    }

    /// Of the server: lets go of the one that its client has dropped, which the slot's word says.
    fn is_dropped(&mut self, channel: &Channel, slot: u16) {
        if self.common.as_ref().is_some_and(|common| common.number != channel.kept(slot)) {
            self.common = None;
        }
    }

    /// Of the client: lets go of those that the server has, or has refused. An annex that was
    /// offered for results stays: the server may use it yet.
    fn drop_unused(&mut self, channel: &Channel, slot: u16) {
        self.learn(channel.kept(slot));
        if self.common.take().is_some() {
            channel.keep(slot, NONE);
        }
        if self.with_arguments {
            self.offered = None;
        }
        self.filled = false;
    }

    fn common(&self, number: u16) -> Option<&Numbered> {
        self.common.as_ref().filter(|common| common.number == number)
    }

    fn use_now(&mut self, annex: &Numbered) -> Numbered {
        (self.used, self.filled) = (true, true);
        annex.clone()
    }
}

/// Those of an end.
pub(crate) struct Annexes {
    /// It is the server's.
    maps: bool,
    /// Bytes that they take, of `most`: of the client's user, at the server; of this channel, at
    /// the client.
    budget: Arc<AtomicU64>,
    most: u64,
    /// The client's user, at the server.
    user: u32,
    places: OnceLock<Box<[Mutex<Place>]>>,
    /// Somebody will look for such as nobody uses.
    watched: AtomicBool,
}

impl Default for Annexes {
    /// Those of a client.
    fn default() -> Self {
        Self {
            maps: false,
            budget: Arc::default(),
            most: ANNEXES as u64,
            user: u32::MAX,
            places: OnceLock::new(),
            watched: AtomicBool::new(false),
        }
    }
}

impl Annexes {
    /// Those of a server for a client of `user`, who may have so many bytes of them.
    pub(crate) fn of_server(user: u32, budget: Arc<AtomicU64>, most: u64) -> Self {
        Self { maps: true, budget, most, user, ..Self::default() }
    }

    /// Whether it is the server's end that has them.
    pub(crate) fn maps(&self) -> bool {
        self.maps
    }

    fn places(&self) -> &[Mutex<Place>] {
        self.places.get_or_init(|| (0..SLOTS).map(|_| Mutex::default()).collect())
    }

    /// Does something with what is known of `slot`. Whoever does keeps its processor, since the
    /// clerk may wait for it.
    fn at<R>(&self, slot: u16, act: impl FnOnce(&mut Place) -> R) -> R {
        let _held = critical();
        act(&mut lock(&self.places()[usize::from(slot)]))
    }

    /// The annex of `slot` in which the bytes of a message lie that has come.
    pub(crate) fn named(&self, channel: &Channel, slot: u16) -> Option<Arc<Kept>> {
        self.at(slot, |place| {
            let common = if self.maps {
                self.for_call(place, channel, slot)
            } else {
                let number = channel.kept(slot);
                place.learn(number);
                place.common(number).cloned()
            };
            common.map(|common| place.use_now(&common).kept)
        })
    }

    /// Of the server: the one of a slot over which a call has come. Where there is no room for all
    /// of it any more this is the last time, of which its client is told.
    fn for_call(&self, place: &mut Place, channel: &Channel, slot: u16) -> Option<Numbered> {
        place.is_dropped(channel, slot);
        let common = place.common.clone()?;
        if !common.kept.count_all() {
            common.kept.goes_when_read();
            place.common = None;
            channel.keep(slot, NONE);
        }
        Some(common)
    }

    /// Of the client: one of `slot` for arguments of `size` bytes, and its file if it is to go
    /// along, since the server doesn't have it; nothing if they are to go in a file of their own.
    pub(crate) fn for_arguments(
        &self,
        channel: &Channel,
        slot: u16,
        size: usize,
    ) -> Option<(Numbered, Option<OwnedFd>)> {
        let number = channel.kept(slot);
        self.at(slot, |place| {
            place.learn(number);
            if let Some(common) =
                place.common(number).filter(|common| common.kept.annex().room() >= size).cloned()
            {
                return Some((place.use_now(&common), None));
            }
            if place.with_arguments && place.offered.take().is_some() {
                place.refused = true;
            }
            if place.refused {
                return None;
            }
            let (made, file) = self.make(place, size)?;
            place.with_arguments = true;
            Some((place.use_now(&made), Some(file)))
        })
    }

    /// Of the client: one of `slot` for results of `size` bytes, such as have just come in a file
    /// of their own, with its file to pass.
    pub(crate) fn for_results(
        &self,
        channel: &Channel,
        slot: u16,
        size: usize,
    ) -> Option<(Numbered, OwnedFd)> {
        let number = channel.kept(slot);
        self.at(slot, |place| {
            place.learn(number);
            // One at a time: the server may take it whenever it has results for it.
            if place.offered.is_some()
                || place.common(number).is_some_and(|annex| annex.kept.annex().room() >= size)
            {
                return None;
            }
            let made = self.make(place, size)?;
            place.with_arguments = false;
            Some(made)
        })
    }

    /// Makes one and offers it in place of what was offered before.
    fn make(&self, place: &mut Place, size: usize) -> Option<(Numbered, OwnedFd)> {
        place.offered = None;
        // Without memory or files for it there is a way of which the caller is told.
        let (annex, file) = Annex::create(size).ok()??;
        let room = BudgetShare::take(&self.budget, annex.room() as u64, self.most)?;
        place.last = place.last.checked_add(1).unwrap_or(1);
        let made = Numbered { kept: Arc::new(Kept::new(annex, room, self.user)), number: place.last };
        place.offered = Some(made.clone());
        Some((made, file))
    }

    /// Of the server: the one in `file`, which came with a call over `slot`; nothing if its user
    /// may have no more.
    ///
    /// # Errors
    /// No honest client makes such.
    pub(crate) fn map(
        &self,
        channel: &Channel,
        slot: u16,
        number: u16,
        file: &OwnedFd,
    ) -> Result<Option<Arc<Kept>>, DecodeError> {
        let room = Annex::room_in(file.as_fd()).map_err(|_| DecodeError::Truncated)?;
        let Some(taken) = BudgetShare::take(&self.budget, room as u64, self.most) else { return Ok(None) };
        let annex = match Annex::adopt(file.as_fd(), room) {
            Ok(annex) => annex,
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => return Err(DecodeError::Truncated),
            // No memory to map it: the bytes can be read from it all the same.
            Err(_) => return Ok(None),
        };
        let kept = Arc::new(Kept::new(annex, taken, self.user));
        let before = self.at(slot, |place| {
            (place.used, place.filled) = (true, true);
            place.common.replace(Numbered { kept: kept.clone(), number })
        });
        // Its client has read what it had for it: this call came after. Else a client could have
        // any number of files filled by being read here, and keep them.
        if let Some(before) = before {
            before.kept.goes_when_read();
        }
        channel.keep(slot, number);
        Ok(Some(kept))
    }

    /// Of the server: the one of `slot` for results of `size` bytes, which it has, or was
    /// `offered`.
    pub(crate) fn for_reply(
        &self,
        channel: &Channel,
        slot: u16,
        size: usize,
        offered: impl FnOnce() -> Option<(u16, OwnedFd)>,
    ) -> Option<Numbered> {
        let common = self.at(slot, |place| {
            place.is_dropped(channel, slot);
            let common = place.common.clone().filter(|common| common.kept.annex().room() >= size)?;
            common.kept.count_all().then(|| place.use_now(&common))
        });
        if common.is_some() {
            return common;
        }
        let (number, file) = offered()?;
        // One that no honest client makes is as good as none.
        let kept = self.map(channel, slot, number, &file).ok()??;
        (kept.annex().room() >= size).then_some(Numbered { kept, number })
    }

    /// Whether somebody is to look after them from now on, who was not before.
    pub(crate) fn begin_watch(&self) -> bool {
        // Relaxed: who begins is the caller itself, or the clerk.
        !self.watched.swap(true, Ordering::Relaxed)
    }

    /// Of the client: drops those that were not used since this was last asked, and whose slots are
    /// free; says whether others are left.
    pub(crate) fn sweep(&self, channel: &Channel, is_free: impl Fn(u16) -> bool) -> bool {
        self.watched.store(false, Ordering::Relaxed);
        let mut more = false;
        for slot in 0..SLOTS as u16 {
            more |= self.at(slot, |place| {
                place.refused = false;
                // A call over the slot from now on waits for this place before it looks for an
                // annex.
                if place.filled && !std::mem::take(&mut place.used) && is_free(slot) {
                    place.drop_unused(channel, slot);
                }
                place.filled
            });
        }
        more
    }

    /// Of the server: of those that no call has used since this was last asked, and whose slots are
    /// free, lets go of the ones that the client has dropped. Of the others it counts the pages
    /// that are there for their user, instead of all that could be. Says whether any are left.
    pub(crate) fn count(&self, channel: &Channel, is_free: impl Fn(u16) -> bool) -> bool {
        self.watched.store(false, Ordering::Relaxed);
        let mut more = false;
        for slot in 0..SLOTS as u16 {
            more |= self.at(slot, |place| {
                // A call that begins from now on waits for this place, and counts all.
                if place.common.is_some() && !std::mem::take(&mut place.used) && is_free(slot) {
                    place.is_dropped(channel, slot);
                    place.common.iter().for_each(|common| common.kept.count());
                }
                place.common.is_some()
            });
        }
        more
    }

    /// Lets go of that of `slot`.
    pub(crate) fn forget(&self, slot: u16) {
        if self.places.get().is_some() {
            drop(self.at(slot, std::mem::take));
        }
    }

    /// Lets go of all; those in use live as long as that.
    pub(crate) fn forget_all(&self) {
        (0..SLOTS as u16).for_each(|slot| self.forget(slot));
    }
}

fn lock(place: &Mutex<Place>) -> MutexGuard<'_, Place> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Annexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Annexes").field("bytes", &self.budget).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn an_annex_counts_until_its_pages_were_given_back() {
        const USER: u32 = 4_000_000_001;
        // The user's closer hangs, as over a lock that a peer holds.
        let (free, locked) = channel::<()>();
        file_thread::run(USER, move || _ = locked.recv());
        let (annex, _file) = Annex::create(1).unwrap().unwrap();
        let (budget, bytes) = (Arc::default(), annex.room() as u64);
        let kept = Kept::new(annex, BudgetShare::take(&budget, bytes, bytes).unwrap(), USER);
        kept.goes_when_read();
        drop(kept);
        assert!(BudgetShare::take(&budget, bytes, bytes).is_none(), "its mapping is there still");
        drop(free);
        while BudgetShare::take(&budget, bytes, bytes).is_none() {
            std::thread::yield_now();
        }
    }
}
