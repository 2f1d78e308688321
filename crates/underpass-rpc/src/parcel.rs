//! What goes over the socket beside a message, and who it is for: the bytes that found no room elsewhere, and open files.

use crate::closer::Foreign;
use crate::control::{Control, Lies};
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
    Parcel(Parcel<Foreign>),
    /// The word of a parcel, for whose files this domain had no room.
    NoFile,
}

impl Parcel<Foreign> {
    /// Open files in it.
    pub(crate) fn count(&self) -> usize {
        self.files.len() + usize::from(matches!(self.bytes, Lie::Blob(..) | Lie::NewAnnex(..)))
    }
}

impl Parcel {
    /// What announces it.
    pub(crate) fn announcement(&self, slot: u16) -> io::Result<Control> {
        let files = self.files.len();
        if files > FILES {
            let why = format!("{files} files are more than the {FILES} that a message can have");
            return Err(io::Error::other(why));
        }
        let (lies, length) = match &self.bytes {
            Lie::Stack(length) => (Lies::Stack, *length),
            Lie::Blob(_, length) => (Lies::Blob, *length),
            Lie::Annex(length) => (Lies::Annex, *length),
            Lie::NewAnnex(_, number, length) => (Lies::NewAnnex(*number), *length),
        };
        Ok(Control::Parcel { slot, files: files as u16, lies, length })
    }
}

impl Came {
    /// Open files that it holds here.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Parcel(parcel) => parcel.count(),
            Self::NoFile => 0,
        }
    }

    /// The parcel that `announced` files beside that of the bytes make, of which these have come, or some have been `lost`; nothing if no honest peer sends such.
    pub(crate) fn of(
        mut files: Foreign,
        lost: bool,
        announced: u16,
        lies: Lies,
        length: u64,
    ) -> Option<Self> {
        let beside = matches!(lies, Lies::Blob | Lies::NewAnnex(_));
        let announced = usize::from(announced) + usize::from(beside);
        match lost {
            true if files.len() < announced && announced <= FILES + 1 => return Some(Self::NoFile),
            false if files.len() == announced && announced <= FILES + usize::from(beside) => {}
            _ => return None,
        }
        let bytes = match lies {
            Lies::Blob => Lie::Blob(Blob::adopt(files.take_memory()?).ok()?, length),
            Lies::Stack => Lie::Stack(length),
            Lies::Annex => Lie::Annex(length),
            Lies::NewAnnex(number) => Lie::NewAnnex(files.take_memory()?, number, length),
        };
        Some(Self::Parcel(Parcel { bytes, files }))
    }
}

/// What has come and waits for its message: one thing for each slot at the most, and one annex.
#[derive(Debug)]
pub(crate) struct Waiting {
    places: Box<[Option<Came>]>,
    /// Annexes for results, and the slots that they are of.
    offered: Vec<(u16, u16, OwnedFd)>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { places: (0..SLOTS).map(|_| None).collect(), offered: Vec::new() }
    }
}

impl Waiting {
    /// Keeps what came for `slot`, in place of what came before; `false` if there is no such slot. If more files would wait then than `most`, they are closed.
    pub(crate) fn put(&mut self, slot: u16, came: Came, most: usize) -> bool {
        let Some(place) = self.places.get_mut(usize::from(slot)) else { return false };
        *place = None;
        let kept = if self.held() + came.held() > most { Came::NoFile } else { came };
        self.places[usize::from(slot)] = Some(kept);
        true
    }

    /// Files that wait.
    fn held(&self) -> usize {
        self.places.iter().flatten().map(Came::held).sum::<usize>() + self.offered.len()
    }

    /// Keeps an annex of `slot` that came with one file, in place of the one before; `false` if no honest client sends such. If more files would wait then than
    /// `most`, it is closed, and so is one that is no memory.
    pub(crate) fn offer(
        &mut self,
        slot: u16,
        number: u16,
        mut files: Foreign,
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

    /// Takes out what came for `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    pub(crate) fn take(&mut self, slot: u16) -> Option<Came> {
        self.places[usize::from(slot)].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closer::Tally;

    fn file() -> OwnedFd {
        std::io::pipe().unwrap().0.into()
    }

    fn foreign(files: Vec<OwnedFd>) -> Foreign {
        Foreign::new(files, &Tally::new(0, None))
    }

    fn files(count: usize) -> Foreign {
        foreign((0..count).map(|_| file()).collect())
    }

    /// An annex, or what could be one.
    fn memory() -> Foreign {
        foreign(vec![Blob::create("test").unwrap().as_fd().try_clone_to_owned().unwrap()])
    }

    fn parcel(count: usize) -> Came {
        Came::of(files(count), false, count as u16, Lies::Stack, 0).unwrap()
    }

    #[test]
    fn what_is_not_as_announced_is_no_parcel() {
        for (announced, came, lost) in
            [(0, 1, false), (2, 1, false), (1, 2, false), (0, 0, true), (1, 1, true)]
        {
            assert!(
                Came::of(files(came), lost, announced, Lies::Stack, 0).is_none(),
                "{announced} {came} {lost}"
            );
        }
        assert!(Came::of(files(1), false, 0, Lies::Blob, 0).is_none(), "a blob that is no memory");
        assert!(Came::of(files(1), false, 0, Lies::NewAnnex(1), 0).is_none(), "an annex that is no memory");
        assert!(Came::of(memory(), false, 0, Lies::NewAnnex(1), 0).is_some_and(|came| came.held() == 1));
        assert!(Came::of(files(FILES + 1), false, FILES as u16 + 1, Lies::Stack, 0).is_none(), "too many");
        assert!(Came::of(files(0), true, u16::MAX, Lies::Stack, 0).is_none(), "far too many");
        assert!(matches!(Came::of(files(1), true, 2, Lies::Stack, 0), Some(Came::NoFile)));
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
    fn the_last_annex_that_was_offered_waits() {
        let mut waiting = Waiting::default();
        assert!(waiting.offer(3, 1, memory(), false, 8) && waiting.offer(3, 2, memory(), false, 8));
        assert!(waiting.offer(4, 1, memory(), false, 1), "closed");
        assert!(waiting.take_offer(4).is_none());
        assert_eq!(waiting.take_offer(3).map(|(number, _)| number), Some(2));
        assert!(waiting.take_offer(3).is_none());
        assert!(waiting.offer(3, 1, files(1), false, 8), "no memory, and closed");
        assert!(waiting.take_offer(3).is_none());
        assert!(waiting.offer(3, 3, files(0), true, 8) && waiting.take_offer(3).is_none(), "no room");
        for (slot, count) in [(SLOTS as u16, 1), (3, 0), (3, 2)] {
            assert!(!waiting.offer(slot, 1, files(count), false, 8), "{slot} {count}");
        }
    }
}
