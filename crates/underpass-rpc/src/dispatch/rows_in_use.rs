//! Where a call begins to use a row, and where a row's value is taken out: the two promises that
//! this crate makes to [`Rows`]. The proof is in the channel's `README.md`, *Rows*.

use crate::binding::row::ServedRow;
use underpass_channel::{NoRow, RowUse, Rows, Tag};
use underpass_sync::SpinGuard;

/// A call of `procedure` begins to use the row `tag`, if that takes calls. `_inside` is the guard
/// of the lock of the slot's end, and `slot` has no call under way.
#[inline(always)]
pub(crate) fn begin<'r>(
    _inside: &SpinGuard<'_>,
    slot: &RowUse,
    rows: &'r Rows<ServedRow>,
    tag: Tag,
    procedure: u16,
) -> Result<&'r ServedRow, NoRow> {
    // SAFETY: the lock is held, as the guard shows, and the slot has no call, so it uses no row.
    // `ServerEnd` ends the use under the lock, after the stub has returned or the handler has
    // ended. `Family::sweep` looks at all uses.
    unsafe { slot.begin(rows, tag, procedure) }
}

/// The row of the call of `slot`, which the calling thread runs.
pub(crate) fn of_own_call<'r>(slot: &RowUse, rows: &'r Rows<ServedRow>) -> Option<&'r ServedRow> {
    // SAFETY: the calling thread runs the call, so the call does not end meanwhile.
    unsafe { slot.value(rows) }
}

/// Takes out the value of a row. `Family::sweep` alone calls it: under its lock, for a closed row,
/// and after it has looked at all ends.
pub(crate) fn remove(rows: &Rows<ServedRow>, tag: Tag) -> Option<ServedRow> {
    // SAFETY: as said above. The row is in `closing` until it is removed, so this happens once.
    unsafe { rows.remove(tag) }
}
