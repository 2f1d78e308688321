//! The rows of a client's connection: which there are, how they are closed one by one, and what the
//! server has still to be told.

use super::ClientEnd;
use super::closing::Ending;
use super::row::{ClientRow, SHARE};
use crate::call::linkage::Delivered;
use crate::call::slot_queue::{SlotWish, Who};
use crate::call::task_wakeup::wake_task;
use crate::call::waiting::wake;
use crate::control::timer;
use crate::counters::Counters;
use crate::error::{CallError, Outcome};
use std::collections::HashMap;
use std::iter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use underpass_channel::Tag;
use underpass_channel::layout::{CHANNELS, SLOTS};
use underpass_os::{clock, failpoint};
use underpass_seam::atomic::{AtomicBool, AtomicU32, Ordering};
use underpass_threads::critical;

/// How long to wait before a server is told again whose socket was full.
const AGAIN: Duration = Duration::from_millis(100);

/// The most rows that were closed before they were known here, and are remembered.
const EARLY: usize = 256;

/// All channels of a connection share this.
#[derive(Debug, Default)]
pub(super) struct ClientRows {
    /// How many rows are open. A hint without the lock.
    open: AtomicU32,
    /// Whether the server knows what requests can carry in front of their arguments.
    prefixes: AtomicBool,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// By index. An index has one open row at most.
    rows: HashMap<usize, Weak<ClientRow>>,
    /// Why the connection has ended.
    ended: Option<Ending>,
    /// Rows that the server has closed before this side knew that it has them.
    early: Vec<(Tag, bool)>,
    /// Rows of which the server has still to be told that nobody uses them.
    untold: Vec<Tag>,
    /// What rows have carried that are gone, for each channel.
    gone: [Counters; CHANNELS],
}

impl ClientRows {
    /// The holder of this lock keeps its processor, and is critical.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, act: impl FnOnce(&mut Table) -> R) -> R {
        let _held = critical();
        act(&mut self.table())
    }

    /// Whether requests may have prefixes.
    pub(super) fn takes_prefixes(&self) -> bool {
        // Relaxed: set before anybody has a binding.
        self.prefixes.load(Ordering::Relaxed)
    }

    /// Whether there is one open row at most.
    pub(super) fn is_one(&self) -> bool {
        // Relaxed: a caller that comes before a new row may have a slot more than its share.
        self.open.load(Ordering::Relaxed) <= 1
    }

    /// What all rows have carried over channel `number`.
    pub(super) fn carried(&self, number: u8) -> Counters {
        let (rows, gone) = self.with(|table| {
            let rows: Vec<_> = table.rows.values().filter_map(Weak::upgrade).collect();
            (rows, table.gone.get(usize::from(number)).copied().unwrap_or_default())
        });
        rows.iter().fold(gone, |sum, row| sum.plus(&row.carried(number)))
    }

    /// The rows that are open.
    pub(super) fn open(&self) -> Vec<Arc<ClientRow>> {
        self.with(|table| {
            table.rows.values().filter_map(Weak::upgrade).filter(|row| !row.is_closed()).collect()
        })
    }

    /// The connection has ended: closes all rows, so that every caller finds the reason.
    pub(super) fn end(&self, ending: &Ending) {
        let rows: Vec<_> = self.with(|table| {
            table.ended.get_or_insert_with(|| ending.clone());
            table.rows.values().filter_map(Weak::upgrade).collect()
        });
        for row in rows {
            self.close(&row, ending.clone());
        }
    }

    fn close(&self, row: &ClientRow, ending: Ending) -> bool {
        let closed = row.close(ending);
        if closed {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        closed
    }
}

impl ClientEnd {
    /// The server has said that requests may have prefixes.
    pub(crate) fn server_takes_prefixes(&self) {
        self.shared.rows.prefixes.store(true, Ordering::Relaxed);
    }

    /// The server has opened the row `tag`. Of the first end.
    pub(crate) fn add_row(&self, tag: Tag) -> Arc<ClientRow> {
        let row = Arc::new(ClientRow::new(tag));
        self.shared.rows.open.fetch_add(1, Ordering::Relaxed);
        let (closed, same) = self.shared.rows.with(|table| {
            // The index may be that of a row that the server has closed, and of which it tells
            // late.
            let known = table.rows.get(&tag.index()).and_then(Weak::upgrade);
            if known.is_some_and(|known| known.tag().is_newer_than(tag)) {
                return (Some(Ending::of_row(false)), None);
            }
            let same = table.rows.insert(tag.index(), Arc::downgrade(&row));
            let early = table.early.iter().position(|(early, _)| *early == tag);
            let early = early.map(|place| Ending::of_row(table.early.swap_remove(place).1));
            (table.ended.clone().or(early), same)
        });
        if let Some(other) = same.and_then(|other| other.upgrade()) {
            self.close_row(&other, Ending::of_row(false));
        }
        if let Some(ending) = closed {
            self.shared.rows.close(&row, ending);
        }
        row
    }

    /// The server has closed a row. Of the first end.
    pub(super) fn row_closed(&self, tag: Tag, revoked: bool) {
        let row = self.shared.rows.with(|table| {
            let of_index = table.rows.get(&tag.index()).map(Weak::upgrade);
            let row = of_index.filter(|row| row.as_ref().is_none_or(|row| row.tag() == tag));
            if row.is_none() {
                // Perhaps the answer that brings this row is under way on another socket. A server
                // that makes rows up deceives itself.
                table.early.truncate(EARLY - 1);
                table.early.insert(0, (tag, revoked));
            }
            row.flatten()
        });
        if let Some(row) = row {
            self.poll_all_channels();
            self.close_row(&row, Ending::of_row(revoked));
        }
    }

    fn poll_all_channels(&self) {
        iter::once(self).chain(self.further_ends()).for_each(Self::poll_all);
    }

    /// Closes a row, and frees its callers. Their slots come back when the server has answered. Of
    /// the first end.
    ///
    /// 1. A caller loads `open`, stores that it expects a reply over the row, and posts, under the
    ///    lock of its end.
    /// 2. This function sets `open`, and then looks under the lock which callers expect a reply.
    ///
    /// So the caller finds the row closed, or this function finds the caller.
    pub(super) fn close_row(&self, row: &ClientRow, ending: Ending) -> bool {
        if !self.shared.rows.close(row, ending) {
            return false;
        }
        for end in iter::once(self).chain(self.further_ends()) {
            end.free_callers_of(row.tag());
            end.queue.take_of(row.tag()).iter().for_each(Who::call);
            end.late.waiters_of(row.tag()).iter().for_each(Who::call);
        }
        true
    }

    /// Frees the callers that expect a reply over the row.
    fn free_callers_of(&self, tag: Tag) {
        for number in 0..SLOTS as u16 {
            let linkage = self.linkage(number);
            let inside = self.lock();
            let freed = if linkage.row() == tag { linkage.free() } else { Delivered::Taken(None) };
            let task = matches!(freed, Delivered::Watched).then(|| self.waker_table.take(number)).flatten();
            drop(inside);
            if let Some(waker) = task {
                wake_task(waker);
            }
            if let Delivered::Taken(Some(who)) = freed {
                wake(who);
            }
        }
    }

    /// Nobody uses the row any more: the last handle of its binding is gone. `tell`: the connection
    /// goes on, so the server is told. Of the first end.
    pub(crate) fn drop_row(&self, row: &ClientRow, tell: bool) {
        let tag = row.tag();
        let was_open = self.shared.rows.close(row, Ending::of_row(false));
        self.shared.rows.with(|table| {
            // The index may be another row's by now.
            if table.rows.get(&tag.index()).is_some_and(|same| std::ptr::eq(same.as_ptr(), row)) {
                table.rows.remove(&tag.index());
            }
            for (number, gone) in (0..).zip(&mut table.gone) {
                *gone = gone.plus(&row.carried(number));
            }
        });
        if tell && was_open && !self.is_closed() {
            self.release(tag);
        }
    }

    /// Tells the server that nobody uses the row. If its socket is full, tells it later. Of the
    /// first end.
    pub(crate) fn release(&self, tag: Tag) {
        self.kernel.entered(1);
        if self.mailbox.release(tag) {
            failpoint!("import-released");
            return;
        }
        let first = self.shared.rows.with(|table| {
            table.untold.push(tag);
            table.untold.len() == 1
        });
        if first {
            let own = self.own.clone();
            timer::set(clock::deadline_ns(AGAIN), move || {
                let Some(own) = own.upgrade().filter(|own| !own.is_closed()) else { return };
                let untold = own.shared.rows.with(|table| std::mem::take(&mut table.untold));
                untold.into_iter().for_each(|tag| own.release(tag));
            });
        }
    }

    /// The server has refused a call, as it has no such row: the error that the caller gets. What
    /// the server says of the row is read first.
    #[cold]
    pub(crate) fn without_row(&self, row: &ClientRow, revoked: bool) -> CallError {
        self.mailbox.read();
        let first = self.first_end();
        first.as_deref().unwrap_or(self).close_row(row, Ending::of_row(revoked));
        *row.reason(Outcome::NotStarted)
    }

    /// Ends a row because the server has captured too many of its calls.
    pub(super) fn row_captured(&self, row: &ClientRow) {
        let first = self.first_end();
        let first = first.as_deref().unwrap_or(self);
        if self.shared.rows.is_one() && !self.mailbox.is_reverse() {
            return first.end(CallError::Captured(Outcome::Unknown), false);
        }
        if first.close_row(row, Ending::captured()) {
            first.release(row.tag());
        }
    }

    /// Whether no call may begin over the row. In a forked child the end alone is closed.
    pub(super) fn is_over(&self, row: &ClientRow) -> bool {
        self.is_closed() || row.is_closed()
    }

    /// Whether a caller with this wish may lease a slot now. Under the lock.
    pub(super) fn has_room(&self, wish: &SlotWish) -> bool {
        let leased = self.slots.leased();
        leased < wish.most && (leased < SHARE || self.is_below_share(wish.row))
    }

    #[cold]
    fn is_below_share(&self, tag: Tag) -> bool {
        self.shared.rows.is_one() || self.leased_by(tag) < SHARE
    }

    /// How many slots the calls over the row have.
    fn leased_by(&self, tag: Tag) -> u32 {
        let free = self.slots.free();
        let leased = (0..).zip(&*self.linkage).filter(|(number, _)| free & 1 << number == 0);
        leased.filter(|(_, linkage)| linkage.row() == tag).count() as u32
    }

    /// How many slots the server holds of calls over the row that nobody waits for. Under the lock.
    pub(super) fn quarantined_by(&self, tag: Tag) -> u32 {
        self.linkage.iter().filter(|linkage| linkage.is_abandoned() && linkage.row() == tag).count() as u32
    }

    /// What the binding of this row has carried, over all channels. Wake-ups, sleeps and donations
    /// serve all bindings of the connection. Of the first end.
    pub(crate) fn counters_of(&self, row: &ClientRow) -> Counters {
        iter::once(self).chain(self.further_ends()).fold(Counters::default(), |sum, end| {
            let mut carried = row.carried(end.number());
            end.kernel.add_to(&mut carried);
            sum.plus(&carried.of_channel(end.is_further()))
        })
    }
}
