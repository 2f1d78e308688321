//! What goes over the socket beside a message, and who it is for: the bytes that found no room elsewhere, and open files.

use crate::control::Control;
use std::io;
use std::os::fd::OwnedFd;
use underpass_channel::layout::{FILES, SLOTS};
use underpass_os::{Blob, Received};

/// Files, and where the bytes lie that they go with.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) bytes: Lie,
    pub(crate) files: Vec<OwnedFd>,
}

/// Where the bytes of a parcel's message lie.
#[derive(Debug)]
pub(crate) enum Lie {
    /// In the slot's A-stack, so many.
    Stack(u64),
    /// In a blob, so many.
    Blob(Blob, u64),
}

/// What came for a slot.
#[derive(Debug)]
pub(crate) enum Came {
    Parcel(Parcel),
    /// The word of a parcel, for whose files this domain had no room.
    NoFile,
}

impl Parcel {
    /// Open files in it.
    pub(crate) fn count(&self) -> usize {
        self.files.len() + usize::from(matches!(self.bytes, Lie::Blob(..)))
    }

    /// What announces it.
    pub(crate) fn announcement(&self, slot: u16) -> io::Result<Control> {
        let files = self.files.len();
        if files > FILES {
            let why = format!("{files} files are more than the {FILES} that a message can have");
            return Err(io::Error::other(why));
        }
        let (blob, length) = match &self.bytes {
            Lie::Stack(length) => (false, *length),
            Lie::Blob(_, length) => (true, *length),
        };
        Ok(Control::Parcel { slot, files: files as u16, blob, length })
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

    /// The parcel that `announced` files and `blob` make, of which these have `received`; nothing if no honest peer sends such.
    pub(crate) fn of(received: Received, announced: u16, blob: bool, length: u64) -> Option<Self> {
        let (announced, mut files) = (usize::from(announced) + usize::from(blob), received.files);
        match received.lost_files {
            true if files.len() < announced && announced <= FILES + 1 => return Some(Self::NoFile),
            false if files.len() == announced && announced <= FILES + usize::from(blob) => {}
            _ => return None,
        }
        let bytes = match blob {
            true => Lie::Blob(Blob::adopt(files.remove(0)).ok()?, length),
            false => Lie::Stack(length),
        };
        Some(Self::Parcel(Parcel { bytes, files }))
    }
}

/// What has come and waits for its message: one thing for each slot at the most.
#[derive(Debug)]
pub(crate) struct Waiting {
    places: Box<[Option<Came>]>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { places: (0..SLOTS).map(|_| None).collect() }
    }
}

impl Waiting {
    /// Keeps what came for `slot`, in place of what came before; `false` if there is no such slot. If more files would wait then than `most`, they are closed.
    pub(crate) fn put(&mut self, slot: u16, came: Came, most: usize) -> bool {
        let Some(place) = self.places.get_mut(usize::from(slot)) else { return false };
        *place = None;
        let held: usize = self.places.iter().flatten().map(Came::held).sum();
        let kept = if held + came.held() > most { Came::NoFile } else { came };
        self.places[usize::from(slot)] = Some(kept);
        true
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

    fn file() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    fn received(files: usize, lost_files: bool) -> Received {
        Received { len: 16, files: (0..files).map(|_| file()).collect(), lost_files }
    }

    fn parcel(files: usize) -> Came {
        Came::of(received(files, false), files as u16, false, 0).unwrap()
    }

    #[test]
    fn what_is_not_as_announced_is_no_parcel() {
        for (announced, came, lost) in
            [(0, 1, false), (2, 1, false), (1, 2, false), (0, 0, true), (1, 1, true)]
        {
            assert!(
                Came::of(received(came, lost), announced, false, 0).is_none(),
                "{announced} {came} {lost}"
            );
        }
        assert!(Came::of(received(1, false), 0, true, 0).is_none(), "a blob that is no memory");
        assert!(Came::of(received(FILES + 1, false), FILES as u16 + 1, false, 0).is_none(), "too many");
        assert!(Came::of(received(0, true), u16::MAX, false, 0).is_none(), "far too many");
        assert!(matches!(Came::of(received(1, true), 2, false, 0), Some(Came::NoFile)));
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
}
