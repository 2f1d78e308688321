//! Publishing a version of an object, and copying the newest one. The steps are those of
//! `README.md`.

use crate::layout::{BEGUN, DATA, ENDED, PUBLISHED, SLOTS, STAMP, slot};
use crate::words::{ReadableWords, Words, WritableWords};
use std::mem::MaybeUninit;
use underpass_os::failpoint;
use underpass_seam::atomic::{Ordering, fence};

/// Which version was copied, and when it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamped {
    pub(crate) version: u64,
    pub(crate) published_ns: u64,
}

/// Publishes `bytes` as `version`, which is the one behind the last. Only the home does, one thread
/// at a time.
pub(crate) fn publish(words: &impl WritableWords, version: u64, published_ns: u64, bytes: &[u8]) {
    let at = slot(version, bytes.len());
    // P1. Relaxed: the fence orders it.
    words.word(BEGUN).store(version, Ordering::Relaxed);
    // SYNC with the fence in `copy_once`: a reader that has copied any of what P2 writes finds this
    // version begun.
    fence(Ordering::Release);
    failpoint!("version-begun");
    // P2. Relaxed: P3 orders it for readers of this version, the fence for those of an older one.
    words.word(at + STAMP).store(published_ns, Ordering::Relaxed);
    words.write(at + DATA, bytes);
    failpoint!("version-written");
    // P3. SYNC with `PUBLISHED` load in `copy_once`: the slot of this version.
    words.word(PUBLISHED).store(version, Ordering::Release);
    failpoint!("version-published");
}

/// Copies the newest version to `place`, and returns its bytes. `None` if the home has overwritten
/// it in the meantime. The home may be hostile, so the copy can be any bytes.
#[inline]
pub(crate) fn copy_once<'a>(
    words: &impl ReadableWords,
    place: &'a mut [MaybeUninit<u8>],
) -> Option<(Stamped, &'a [u8])> {
    // C1. SYNC with `PUBLISHED` store in `publish`: the slot of this version.
    let version = words.word(PUBLISHED).load(Ordering::Acquire);
    let at = slot(version, place.len());
    // C2. Relaxed: C1 orders it for this version. The fence orders C3 for an overwritten one.
    let published_ns = words.word(at + STAMP).load(Ordering::Relaxed);
    let bytes = words.read(at + DATA, place);
    failpoint!("version-copied");
    // SYNC with the fence in `publish`: if C2 has copied any of a later version, C3 finds it begun.
    fence(Ordering::Acquire);
    // C3. Relaxed: the fence orders it.
    let begun = words.word(BEGUN).load(Ordering::Relaxed);
    // The slot is written again for the version `SLOTS` later. A hostile home can write any
    // numbers.
    let ahead = begun.wrapping_sub(version);
    (ahead < SLOTS).then_some((Stamped { version, published_ns }, bytes))
}

/// Says that no version follows.
pub(crate) fn end(words: &impl WritableWords) {
    // SYNC with `ENDED` load in `has_ended`: the last version.
    words.word(ENDED).store(1, Ordering::Release);
}

/// Whether the home has said that no version follows.
#[inline]
pub(crate) fn has_ended(words: &impl Words) -> bool {
    // SYNC with `ENDED` store in `end`: the last version.
    words.word(ENDED).load(Ordering::Acquire) != 0
}
