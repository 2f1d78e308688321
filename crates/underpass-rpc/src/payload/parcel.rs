//! What goes over the socket beside a message, and who it is for: the bytes that found no room
//! elsewhere, and open files.

use crate::control::messages::{ControlMessage, PayloadLocation};
use crate::payload::passed_file::PassedFiles;
use std::io;
use std::os::fd::OwnedFd;
use underpass_channel::layout::{FILES, SLOTS};
use underpass_os::Blob;

/// Files, and where the bytes lie that they go with.
#[derive(Debug)]
pub(crate) struct Parcel<Files = Vec<OwnedFd>> {
    pub(crate) bytes: Lie,
    pub(crate) files: Files,
}

/// Where the bytes of a parcel's message lie.
#[derive(Debug)]
pub(crate) enum Lie {
    /// In the slot's A-stack, so many.
    Stack(u64),
    /// In a blob, so many.
    Blob(Blob, u64),
    /// In the slot's annex, so many.
    Annex(u64),
    /// In an annex with this number, so many.
    NewAnnex(OwnedFd, u16, u64),
}

/// What came for a slot.
#[derive(Debug)]
pub(crate) enum Came {
    Parcel(Parcel<PassedFiles>),
    /// The word of a parcel, for whose files this domain had no room.
    NoFile,
    /// It did not come in time: another file of the same user holds up the thread that receives it.
    Late,
}

impl Parcel<PassedFiles> {
    /// Open files in it.
    pub(crate) fn count(&self) -> usize {
        self.files.len() + usize::from(matches!(self.bytes, Lie::Blob(..) | Lie::NewAnnex(..)))
    }
}

impl Parcel {
    /// What announces it.
    pub(crate) fn announcement(&self, slot: u16) -> io::Result<ControlMessage> {
        let files = self.files.len();
        if files > FILES {
            let why = format!("{files} files are more than the {FILES} that a message can have");
            return Err(io::Error::other(why));
        }
        let (location, length) = match &self.bytes {
            Lie::Stack(length) => (PayloadLocation::Stack, *length),
            Lie::Blob(_, length) => (PayloadLocation::Blob, *length),
            Lie::Annex(length) => (PayloadLocation::Annex, *length),
            Lie::NewAnnex(_, number, length) => (PayloadLocation::NewAnnex(*number), *length),
        };
        Ok(ControlMessage::Parcel { slot, files: files as u16, location, length })
    }
}

impl Came {
    /// Open files that it holds here.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Parcel(parcel) => parcel.count(),
            Self::NoFile | Self::Late => 0,
        }
    }

    /// The parcel that `announced` files beside that of the bytes make, of which these have come,
    /// or some have been `lost`; nothing if no honest peer sends such.
    pub(crate) fn of(
        mut files: PassedFiles,
        lost: bool,
        announced: u16,
        location: PayloadLocation,
        length: u64,
    ) -> Option<Self> {
        let beside = matches!(location, PayloadLocation::Blob | PayloadLocation::NewAnnex(_));
        let announced = usize::from(announced) + usize::from(beside);
        match lost {
            true if files.len() < announced && announced <= FILES + 1 => return Some(Self::NoFile),
            false if files.len() == announced && announced <= FILES + usize::from(beside) => {}
            _ => return None,
        }
        let bytes = match location {
            PayloadLocation::Blob => Lie::Blob(Blob::adopt(files.take_memory()?).ok()?, length),
            PayloadLocation::Stack => Lie::Stack(length),
            PayloadLocation::Annex => Lie::Annex(length),
            PayloadLocation::NewAnnex(number) => Lie::NewAnnex(files.take_memory()?, number, length),
        };
        Some(Self::Parcel(Parcel { bytes, files }))
    }
}

/// What has come for the slots of one channel and waits for its message: one parcel for each slot
/// at the most, and one annex.
///
/// A peer passes a parcel before it posts the message that goes with it. So the parcels and the
/// messages of a slot come in the same order, each over its own way, and are counted: the parcel of
/// a message that nobody waits for is not mistaken for that of the next.
#[derive(Debug)]
pub(crate) struct Waiting {
    places: Box<[Place]>,
    /// Annexes for results, and the slots that they are of.
    offered: Vec<(u16, u16, OwnedFd)>,
}

/// Of one slot.
#[derive(Debug, Default)]
struct Place {
    came: Option<Came>,
    /// Parcels that have come.
    arrived: u32,
    /// Parcels that were taken, or that nobody waits for.
    consumed: u32,
    /// The last was dropped before its message was seen.
    forgotten: bool,
}

impl Place {
    /// Takes out the parcel that came, which is that of the next message.
    fn take(&mut self) -> Option<Came> {
        let came = self.came.take()?;
        self.consumed = self.arrived;
        Some(came)
    }
}

impl Default for Waiting {
    fn default() -> Self {
        Self { places: (0..SLOTS).map(|_| Place::default()).collect(), offered: Vec::new() }
    }
}

impl Waiting {
    /// Keeps what came for `slot`, in place of what came before; `false` if there is no such slot.
    /// Where more files than `most` would wait then, they are closed.
    pub(crate) fn put(&mut self, slot: u16, came: Came, most: usize) -> bool {
        let Some(place) = self.places.get_mut(usize::from(slot)) else { return false };
        place.came = None;
        place.forgotten = false;
        place.arrived = place.arrived.wrapping_add(1);
        // Its message came first, and nobody waits for it.
        if place.consumed.wrapping_sub(place.arrived).cast_signed() >= 0 {
            return true;
        }
        let kept = if self.held() + came.held() > most { Came::NoFile } else { came };
        self.places[usize::from(slot)].came = Some(kept);
        true
    }

    /// Files that wait.
    fn held(&self) -> usize {
        self.places.iter().filter_map(|place| place.came.as_ref()).map(Came::held).sum::<usize>()
            + self.offered.len()
    }

    /// Keeps an annex of `slot` that came with one file, in place of the one before; `false` if no
    /// honest client sends such. Where more files than `most` would wait then, it is closed, and so
    /// is one that is no memory.
    pub(crate) fn offer(
        &mut self,
        slot: u16,
        number: u16,
        mut files: PassedFiles,
        lost: bool,
        most: usize,
    ) -> bool {
        self.take_offer(slot);
        match files.len() {
            1 => {
                if self.held() < most
                    && let Some(file) = files.take_memory()
                {
                    self.offered.push((slot, number, file));
                }
            }
            // There was no room for it.
            0 if lost => {}
            _ => return false,
        }
        u32::from(slot) < SLOTS
    }

    /// Takes out the annex that came for `slot`, and its number.
    pub(crate) fn take_offer(&mut self, slot: u16) -> Option<(u16, OwnedFd)> {
        let place = self.offered.iter().position(|(of, ..)| *of == slot)?;
        let (_, number, file) = self.offered.swap_remove(place);
        Some((number, file))
    }

    /// Takes out the parcel of the message of `slot` that has come.
    ///
    /// # Panics
    /// If there is no such slot.
    pub(crate) fn take(&mut self, slot: u16) -> Option<Came> {
        self.places[usize::from(slot)].take()
    }

    /// The parcel of `slot` that has come is dropped: nobody waits for its message any more, which
    /// has not been seen yet.
    ///
    /// # Panics
    /// If there is no such slot.
    pub(crate) fn forget(&mut self, slot: u16) -> Option<Came> {
        let place = &mut self.places[usize::from(slot)];
        let came = place.take();
        place.forgotten |= came.is_some();
        came
    }

    /// The message of `slot` was seen, and nobody waits for its parcel, which may still come if
    /// `more` does.
    ///
    /// # Panics
    /// If there is no such slot.
    pub(crate) fn discard(&mut self, slot: u16, more: bool) -> Option<Came> {
        let place = &mut self.places[usize::from(slot)];
        let came = place.take();
        if !std::mem::take(&mut place.forgotten) && came.is_none() && more {
            place.consumed = place.consumed.wrapping_add(1);
        }
        came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory_file() -> OwnedFd {
        Blob::create("test").unwrap().as_fd().try_clone_to_owned().unwrap()
    }

    fn files(count: usize) -> PassedFiles {
        PassedFiles::of_memory((0..count).map(|_| memory_file()).collect())
    }

    fn memory() -> PassedFiles {
        files(1)
    }

    fn parcel(count: usize) -> Came {
        Came::of(files(count), false, count as u16, PayloadLocation::Stack, 0).unwrap()
    }

    #[test]
    fn what_is_not_as_announced_is_no_parcel() {
        for (announced, came, lost) in
            [(0, 1, false), (2, 1, false), (1, 2, false), (0, 0, true), (1, 1, true)]
        {
            assert!(
                Came::of(files(came), lost, announced, PayloadLocation::Stack, 0).is_none(),
                "{announced} {came} {lost}"
            );
        }
        assert!(
            Came::of(memory(), false, 0, PayloadLocation::NewAnnex(1), 0)
                .is_some_and(|came| came.held() == 1)
        );
        assert!(
            Came::of(files(FILES + 1), false, FILES as u16 + 1, PayloadLocation::Stack, 0).is_none(),
            "too many"
        );
        assert!(Came::of(files(0), true, u16::MAX, PayloadLocation::Stack, 0).is_none(), "far too many");
        assert!(matches!(Came::of(files(1), true, 2, PayloadLocation::Stack, 0), Some(Came::NoFile)));
        assert_eq!(parcel(FILES).held(), FILES);
    }

    #[test]
    fn files_that_wait_are_bounded() {
        let mut waiting = Waiting::default();
        assert!(!waiting.put(SLOTS as u16, parcel(0), 8));
        assert!(waiting.put(0, parcel(4), 8) && waiting.put(1, parcel(4), 8));
        assert!(waiting.put(2, parcel(1), 8));
        assert!(matches!(waiting.take(2), Some(Came::NoFile)), "closed, and its call told");
        // In place of others, which go.
        assert!(waiting.put(1, parcel(3), 8) && waiting.put(2, parcel(1), 8));
        assert!(matches!(waiting.take(2), Some(Came::Parcel(_))));
        assert!(waiting.take(2).is_none());
    }

    #[test]
    fn a_parcel_that_nobody_waits_for_is_not_that_of_the_next_message() {
        let mut waiting = Waiting::default();
        let held = |came: Option<Came>| came.map(|came| came.held());
        // Its message is seen first, while something is under way.
        assert!(waiting.discard(1, true).is_none());
        assert!(waiting.put(1, parcel(1), 8) && waiting.take(1).is_none());
        assert!(waiting.put(1, parcel(2), 8));
        assert_eq!(held(waiting.take(1)), Some(2));
        // It is forgotten before its message is seen.
        assert!(waiting.put(1, parcel(3), 8));
        assert_eq!((held(waiting.forget(1)), held(waiting.discard(1, true))), (Some(3), None));
        assert!(waiting.put(1, parcel(4), 8));
        assert_eq!(held(waiting.take(1)), Some(4));
        // Nothing is under way: a liar's, and not waited for.
        assert!(waiting.discard(1, false).is_none() && waiting.put(1, parcel(5), 8));
        assert_eq!(held(waiting.discard(1, false)), Some(5));
    }

    #[test]
    fn the_last_annex_that_was_offered_waits() {
        let mut waiting = Waiting::default();
        assert!(waiting.offer(3, 1, memory(), false, 8) && waiting.offer(3, 2, memory(), false, 8));
        assert!(waiting.offer(4, 1, memory(), false, 1), "closed");
        assert!(waiting.take_offer(4).is_none());
        assert_eq!(waiting.take_offer(3).map(|(number, _)| number), Some(2));
        assert!(waiting.take_offer(3).is_none());
        assert!(waiting.offer(3, 3, files(0), true, 8) && waiting.take_offer(3).is_none(), "no room");
        for (slot, count) in [(SLOTS as u16, 1), (3, 0), (3, 2)] {
            assert!(!waiting.offer(slot, 1, files(count), false, 8), "{slot} {count}");
        }
    }
}
