//! The rows of a connection: what a request's tag stands for, and how a row is removed while calls
//! run. The proof is in `README.md`, *Rows*.

use crate::tag::Tag;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use underpass_seam::atomic::{AtomicU64, Ordering};
use underpass_seam::cell::UnsafeCell;

/// Rows that every table has from the beginning.
const FIRST: usize = 8;
/// Further pieces of a table. Each is as long as all pieces before it.
const PIECES: usize = Tag::ROWS.ilog2() as usize - FIRST.ilog2() as usize;

/// The state of a row that is open for calls is its tag. One of these bits is set in any other.
const REVOKED: u64 = 1 << 61;
const DRAINS: u64 = 1 << 62;
const CLOSED: u64 = 1 << 63;

/// Why a tag leads to no row that takes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRow {
    /// The row takes no more calls, and will be closed.
    Drains,
    /// The row was closed because its binding was revoked.
    Revoked,
    /// The row is closed, is free, or never was.
    Closed,
}

/// The rows of one side of a connection, each with a value: what calls over the row need.
///
/// | field | who writes it, and when |
/// |---|---|
/// | `state` | `open` while the row is free; afterwards any thread |
/// | `value` | `open` while the row is free; `remove` once no call uses the row |
/// | `free` | under its lock |
pub struct Rows<T> {
    first: [Row<T>; FIRST],
    pieces: [OnceLock<Box<[Row<T>]>>; PIECES],
    free: Mutex<Free>,
}

struct Row<T> {
    state: AtomicU64,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: rows are shared by threads, which take values out and read them by the rules of
// `README.md`, *Rows*: a value is written before its tag is known, read while a call uses the row,
// and taken after the last of them.
unsafe impl<T: Send + Sync> Sync for Rows<T> {}
// SAFETY: it owns its values.
unsafe impl<T: Send> Send for Rows<T> {}

/// The rows that are free.
#[derive(Default)]
struct Free {
    /// Rows with a lower index were used before.
    used: usize,
    /// Rows that can be used again, each with its next generation. The one that has been free for
    /// longest is first.
    again: VecDeque<Tag>,
}

impl<T> Default for Row<T> {
    fn default() -> Self {
        Self { state: AtomicU64::new(CLOSED), value: UnsafeCell::new(None) }
    }
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self {
            first: std::array::from_fn(|_| Row::default()),
            pieces: [const { OnceLock::new() }; PIECES],
            free: Mutex::default(),
        }
    }
}

impl<T> Rows<T> {
    /// The lock is held for a moment, without a call of foreign code.
    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The row at `index`, if the table has got that long.
    #[inline(always)]
    fn row(&self, index: usize) -> Option<&Row<T>> {
        match self.first.get(index) {
            Some(row) => Some(row),
            None => self.row_in_piece(index),
        }
    }

    #[inline(never)]
    fn row_in_piece(&self, index: usize) -> Option<&Row<T>> {
        let (piece, place) = place_of(index);
        self.pieces.get(piece)?.get()?.get(place)
    }

    /// Opens a row with `value`, and returns its tag. Gives the value back if there are as many
    /// rows as there may be.
    ///
    /// # Errors
    /// The value.
    pub fn open(&self, value: T) -> Result<Tag, T> {
        let mut free = self.free();
        let tag = match free.again.pop_front() {
            Some(tag) => tag,
            None if free.used < Tag::ROWS => {
                free.used += 1;
                Tag::new(free.used as u32 - 1, 1)
            }
            None => return Err(value),
        };
        drop(free);
        if tag.index() >= FIRST {
            let (piece, _) = place_of(tag.index());
            self.pieces[piece].get_or_init(|| (0..FIRST << piece).map(|_| Row::default()).collect());
        }
        // Always there: its piece was made when the index was first used, or just now.
        let Some(row) = self.row(tag.index()) else { return Err(value) };
        // SAFETY: the row was free, and this thread alone got its index. By step M3 of `README.md`,
        // no call reads its value.
        unsafe { put(&row.value, Some(value)) };
        // SYNC with `state` load in `find`: the value.
        row.state.store(tag.word(), Ordering::Release);
        Ok(tag)
    }

    /// *Take, T1:* the value of the row that takes calls under `tag`.
    ///
    /// # Errors
    /// Why there is none.
    #[inline(always)]
    fn find(&self, tag: Tag) -> Result<&UnsafeCell<Option<T>>, NoRow> {
        let Some(row) = self.row(tag.index()) else { return Err(NoRow::Closed) };
        // SYNC with `state` store in `open`: the value.
        let state = row.state.load(Ordering::Acquire);
        if state != tag.word() {
            return Err(why_not(state, tag));
        }
        Ok(&row.value)
    }

    /// The row takes no more calls: they find [`NoRow::Drains`]. Returns `false` if it is closed.
    pub fn drain(&self, tag: Tag) -> bool {
        let Some(row) = self.row(tag.index()) else { return false };
        // Relaxed, here and in `close`: the locks that the caller takes next order it.
        let moved =
            row.state.compare_exchange(tag.word(), tag.word() | DRAINS, Ordering::Relaxed, Ordering::Relaxed);
        moved.is_ok_and(|_| true) || moved == Err(tag.word() | DRAINS)
    }

    /// *Remove, M1:* closes the row for good. Returns `false` if it is closed already, or never
    /// was.
    pub fn close(&self, tag: Tag, revoked: bool) -> bool {
        let Some(row) = self.row(tag.index()) else { return false };
        let closed = tag.word() | CLOSED | if revoked { REVOKED } else { 0 };
        let open = |state: u64| (state & !DRAINS == tag.word()).then_some(closed);
        row.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, open).is_ok()
    }

    /// Whether calls that have begun over the row are of use to nobody, because it is closed.
    pub fn is_closed(&self, tag: Tag) -> bool {
        // Relaxed: a hint.
        self.row(tag.index()).is_none_or(|row| row.state.load(Ordering::Relaxed) & !DRAINS != tag.word())
    }

    /// *Remove, M3:* takes the value of a closed row out. The row may be opened again then, under
    /// another tag.
    ///
    /// # Safety
    /// The row was closed. Afterwards the caller, or a thread that it heard of, has looked at every
    /// end of the connection, under the end's lock, and has found no call that uses the row. This
    /// is called once for each row.
    pub unsafe fn remove(&self, tag: Tag) -> Option<T> {
        let row = self.row(tag.index())?;
        // SAFETY: no call uses the row and none can begin to, as the caller promises.
        let value = unsafe { take(&row.value) };
        // Generation 0 is left out, so that no tag is zero.
        let next = Tag::new(tag.index() as u32, tag.generation() + 1);
        let next = if next.generation() == 0 { Tag::new(tag.index() as u32, 1) } else { next };
        self.free().again.push_back(next);
        value
    }
}

/// Why a row with this state takes no calls under `tag`.
#[cold]
fn why_not(state: u64, tag: Tag) -> NoRow {
    match state ^ tag.word() {
        DRAINS => NoRow::Drains,
        bits if bits == CLOSED | REVOKED => NoRow::Revoked,
        _ => NoRow::Closed,
    }
}

/// The piece of a row behind the first ones, and its place there.
fn place_of(index: usize) -> (usize, usize) {
    let piece = (index / FIRST).checked_ilog2().unwrap_or(0) as usize;
    (piece, index - (FIRST << piece))
}

impl<T> std::fmt::Debug for Rows<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

/// The row that the call of one slot uses, and the call's procedure, for display. The procedure is
/// above the bits of the tag. No row in use has the tag zero.
///
/// It changes, and is read, under the lock of the slot's end. The thread that runs the call may
/// read it without.
#[derive(Debug, Default)]
pub struct RowUse(AtomicU64);

impl RowUse {
    /// *Take, T1 and T2:* a call of `procedure` over the row `tag` begins. Returns the row's value.
    ///
    /// # Errors
    /// The row takes no calls; nothing begins.
    ///
    /// # Safety
    /// The caller holds the lock of the slot's end, and no call of the slot uses a row. The value
    /// is not used after [`end`](Self::end). The thread that removes rows looks at this by
    /// [`uses`](Self::uses).
    #[inline(always)]
    pub unsafe fn begin<'r, T>(&self, rows: &'r Rows<T>, tag: Tag, procedure: u16) -> Result<&'r T, NoRow> {
        let value = rows.find(tag)?;
        // Relaxed, here and below: the lock orders them.
        self.0.store(tag.word() | u64::from(procedure) << Tag::BITS, Ordering::Relaxed);
        // SAFETY: the row was open when this thread held the lock. A thread that closes it from now
        // on looks at this end under the lock before the value is taken out, and finds the use.
        unsafe { get(value) }.ok_or(NoRow::Closed)
    }

    /// *End, E1:* the call is over. Under the lock.
    #[inline(always)]
    pub fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The row that a call uses, if one does. Certain under the lock.
    #[inline]
    pub fn uses(&self) -> Option<Tag> {
        let tag = Tag::of_word(self.0.load(Ordering::Relaxed));
        (tag != Tag::NONE).then_some(tag)
    }

    /// The procedure of the call, as the client says.
    pub fn procedure(&self) -> u16 {
        (self.0.load(Ordering::Relaxed) >> Tag::BITS) as u16
    }

    /// The value of the row that the call uses.
    ///
    /// # Safety
    /// The calling thread runs the slot's call, which has begun with these rows and does not end
    /// while the value is used.
    pub unsafe fn value<'r, T>(&self, rows: &'r Rows<T>) -> Option<&'r T> {
        let row = rows.row(self.uses()?.index())?;
        // SAFETY: the call uses the row, so its value is not taken out before the call has ended.
        unsafe { get(&row.value) }
    }
}

const _: () = {
    assert!(Tag::BITS + u16::BITS < u64::BITS, "a use has room for tag, procedure and its mark");
    assert!(REVOKED > 1 << Tag::BITS, "the bits of a state are no bits of a tag");
};

/// Writes a value.
///
/// # Safety
/// No other thread accesses it.
unsafe fn put<T>(cell: &UnsafeCell<Option<T>>, value: Option<T>) {
    // SAFETY: as the caller promises.
    #[cfg(not(underpass_loom))]
    unsafe {
        *cell.get() = value;
    }
    // SAFETY: as above.
    #[cfg(underpass_loom)]
    cell.with_mut(|place| unsafe { *place = value });
}

/// Takes a value out.
///
/// # Safety
/// No other thread accesses it.
unsafe fn take<T>(cell: &UnsafeCell<Option<T>>) -> Option<T> {
    // SAFETY: as the caller promises.
    #[cfg(not(underpass_loom))]
    return unsafe { (*cell.get()).take() };
    // SAFETY: as above.
    #[cfg(underpass_loom)]
    cell.with_mut(|place| unsafe { (*place).take() })
}

/// The value.
///
/// # Safety
/// No thread writes it while it is used.
#[inline(always)]
unsafe fn get<T>(cell: &UnsafeCell<Option<T>>) -> Option<&T> {
    // SAFETY: as the caller promises.
    #[cfg(not(underpass_loom))]
    return unsafe { (*cell.get()).as_ref() };
    // SAFETY: as above.
    #[cfg(underpass_loom)]
    cell.with(|place| unsafe { (*place).as_ref() })
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    fn begins<'r>(of: &RowUse, rows: &'r Rows<u32>, tag: Tag) -> Result<&'r u32, NoRow> {
        // SAFETY: one thread has the rows and the use, so no lock is needed.
        unsafe { of.begin(rows, tag, 7) }
    }

    #[test]
    fn a_row_takes_calls_while_it_is_open() {
        let (rows, of) = (Rows::default(), RowUse::default());
        let tag = rows.open(5).unwrap();
        assert_eq!((begins(&of, &rows, tag), of.uses(), of.procedure()), (Ok(&5), Some(tag), 7));
        of.end();
        assert_eq!(of.uses(), None);
        assert!(rows.drain(tag) && rows.drain(tag));
        assert_eq!(begins(&of, &rows, tag), Err(NoRow::Drains));
        assert!(rows.close(tag, false) && !rows.close(tag, true) && !rows.drain(tag));
        assert_eq!((begins(&of, &rows, tag), of.uses()), (Err(NoRow::Closed), None));
        // SAFETY: no call uses the row.
        assert_eq!(unsafe { rows.remove(tag) }, Some(5));
        let next = rows.open(6).unwrap();
        assert_eq!((next.index(), next.generation()), (tag.index(), tag.generation() + 1));
        assert_eq!((begins(&of, &rows, tag), begins(&of, &rows, next)), (Err(NoRow::Closed), Ok(&6)));
    }

    #[test]
    fn each_of_100_000_rows_has_its_own_value() {
        let rows = Rows::default();
        let tags: Vec<_> = (0..100_000).map(|value| rows.open(value).unwrap()).collect();
        let of = RowUse::default();
        for (value, tag) in (0..).zip(&tags) {
            assert_eq!(begins(&of, &rows, *tag), Ok(&value));
            of.end();
        }
        let none = [Tag::new(100_000, 1), Tag::new(Tag::ROWS as u32 - 1, 1), Tag::new(7, 2), Tag::NONE];
        assert!(none.iter().all(|tag| begins(&of, &rows, *tag) == Err(NoRow::Closed)));
        assert!(none.iter().all(|tag| !rows.close(*tag, false) && !rows.drain(*tag)));
        assert!(rows.close(tags[5], true));
        assert_eq!(begins(&of, &rows, tags[5]), Err(NoRow::Revoked));
    }

    #[test]
    fn the_pieces_follow_each_other() {
        let places: Vec<_> = (FIRST..8 * FIRST).map(place_of).collect();
        assert!(places.windows(2).all(|two| {
            let [(piece, place), next] = [two[0], two[1]];
            next == if place + 1 == FIRST << piece { (piece + 1, 0) } else { (piece, place + 1) }
        }));
        assert_eq!((places[0], place_of(Tag::ROWS - 1).0), ((0, 0), PIECES - 1));
    }
}
