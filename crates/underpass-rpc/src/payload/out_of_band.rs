//! Out-of-band messages: what goes over the socket ahead of a message in the ring. They carry open
//! files, and the bytes for which there was no room elsewhere.

use crate::control::messages::{ControlMessage, PayloadLocation};
use crate::payload::passed_file::PassedFiles;
use std::io;
use std::os::fd::OwnedFd;
use underpass_channel::layout::{FILES, SLOTS};
use underpass_os::PayloadFile;

/// The files of a message, and where its bytes lie.
#[derive(Debug)]
pub(crate) struct OutOfBand<Files = Vec<OwnedFd>> {
    pub(crate) bytes: BytesLocation,
    pub(crate) files: Files,
}

/// Where the bytes of the message lie, and how many there are.
#[derive(Debug)]
pub(crate) enum BytesLocation {
    /// In the slot's A-stack.
    Stack(u64),
    /// In a payload file.
    PayloadFile(PayloadFile, u64),
    /// In the slot's overflow buffer.
    OverflowBuffer(u64),
    /// In a new overflow buffer: its file, its number and the number of bytes.
    NewOverflowBuffer(OwnedFd, u16, u64),
}

/// What came out of band for a slot.
#[derive(Debug)]
pub(crate) enum Came {
    OutOfBand(OutOfBand<PassedFiles>),
    /// An announcement came, but this domain had no room for its files.
    NoFile,
    /// It did not come in time: another file of the same user holds up the thread that receives it.
    Late,
}

impl OutOfBand<PassedFiles> {
    /// How many open files it holds.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
            + usize::from(matches!(
                self.bytes,
                BytesLocation::PayloadFile(..) | BytesLocation::NewOverflowBuffer(..)
            ))
    }
}

impl OutOfBand {
    /// How many open files this domain keeps for it.
    pub(crate) fn files_to_send(&self) -> usize {
        self.files.len()
            + usize::from(matches!(
                self.bytes,
                BytesLocation::PayloadFile(..) | BytesLocation::NewOverflowBuffer(..)
            ))
    }

    /// The announcement to send with it.
    pub(crate) fn announcement(&self, slot: u16) -> io::Result<ControlMessage> {
        let files = self.files.len();
        if files > FILES {
            let why = format!("{files} files are more than the {FILES} that a message can have");
            return Err(io::Error::other(why));
        }
        let (location, length) = match &self.bytes {
            BytesLocation::Stack(length) => (PayloadLocation::Stack, *length),
            BytesLocation::PayloadFile(_, length) => (PayloadLocation::PayloadFile, *length),
            BytesLocation::OverflowBuffer(length) => (PayloadLocation::OverflowBuffer, *length),
            BytesLocation::NewOverflowBuffer(_, number, length) => {
                (PayloadLocation::NewOverflowBuffer(*number), *length)
            }
        };
        Ok(ControlMessage::OutOfBand { slot, files: files as u16, location, length })
    }
}

impl Came {
    /// How many open files it holds here.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::OutOfBand(out_of_band) => out_of_band.count(),
            Self::NoFile | Self::Late => 0,
        }
    }

    /// Assembles the message from `files`, where `announced` were announced in addition to the file
    /// of the bytes, and some may have been `lost`. Nothing if no honest peer sends this.
    pub(crate) fn of(
        mut files: PassedFiles,
        lost: bool,
        announced: u16,
        location: PayloadLocation,
        length: u64,
    ) -> Option<Self> {
        let beside = matches!(location, PayloadLocation::PayloadFile | PayloadLocation::NewOverflowBuffer(_));
        let announced = usize::from(announced) + usize::from(beside);
        match lost {
            true if files.len() < announced && announced <= FILES + 1 => return Some(Self::NoFile),
            false if files.len() == announced && announced <= FILES + usize::from(beside) => {}
            _ => return None,
        }
        let bytes = match location {
            PayloadLocation::PayloadFile => {
                BytesLocation::PayloadFile(PayloadFile::adopt(files.take_memory()?).ok()?, length)
            }
            PayloadLocation::Stack => BytesLocation::Stack(length),
            PayloadLocation::OverflowBuffer => BytesLocation::OverflowBuffer(length),
            PayloadLocation::NewOverflowBuffer(number) => {
                BytesLocation::NewOverflowBuffer(files.take_memory()?, number, length)
            }
        };
        Some(Self::OutOfBand(OutOfBand { bytes, files }))
    }
}

/// Out-of-band messages and overflow buffers that have come for the slots of one channel and wait
/// for their message in the ring: at most one of each for a slot.
///
/// A peer sends an out-of-band message before it posts the message to which it belongs. So for each
/// slot both kinds come in the same order, each over its own way, and both are counted. If nobody
/// waits for a message, its out-of-band part is thus not mistaken for that of the next message.
#[derive(Debug)]
pub(crate) struct PendingOutOfBand {
    places: Box<[Place]>,
    /// Overflow buffers that were offered for results: slot, number and file.
    offered: Vec<(u16, u16, OwnedFd)>,
}

/// The state of one slot.
#[derive(Debug, Default)]
struct Place {
    came: Option<Came>,
    /// Out-of-band messages that have come.
    arrived: u32,
    /// Those that were taken, or for which nobody waits.
    consumed: u32,
    /// The last one was dropped before its message in the ring was seen.
    forgotten: bool,
}

impl Place {
    /// Takes out the one that came, which belongs to the next message.
    fn take(&mut self) -> Option<Came> {
        let came = self.came.take()?;
        self.consumed = self.arrived;
        Some(came)
    }
}

impl Default for PendingOutOfBand {
    fn default() -> Self {
        Self { places: (0..SLOTS).map(|_| Place::default()).collect(), offered: Vec::new() }
    }
}

impl PendingOutOfBand {
    /// Stores what came for `slot`, in place of what came before. Returns `false` if there is no
    /// such slot. If more than `most` files would wait then, the new files are closed.
    pub(crate) fn put(&mut self, slot: u16, came: Came, most: usize) -> bool {
        let Some(place) = self.places.get_mut(usize::from(slot)) else { return false };
        place.came = None;
        place.forgotten = false;
        place.arrived = place.arrived.wrapping_add(1);
        // Its message in the ring came first, and nobody waits for it.
        if place.consumed.wrapping_sub(place.arrived).cast_signed() >= 0 {
            return true;
        }
        let kept = if self.held() + came.held() > most { Came::NoFile } else { came };
        self.places[usize::from(slot)].came = Some(kept);
        true
    }

    /// How many files wait.
    fn held(&self) -> usize {
        self.places.iter().filter_map(|place| place.came.as_ref()).map(Came::held).sum::<usize>()
            + self.offered.len()
    }

    /// Stores an overflow buffer of `slot` that came with one file, in place of the one before.
    /// Returns `false` if no honest client sends this. The file is closed if more than `most` files
    /// would wait then, or if it is no memory.
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
            // There was no room for the file.
            0 if lost => {}
            _ => return false,
        }
        u32::from(slot) < SLOTS
    }

    /// Takes out the overflow buffer that came for `slot`, and its number.
    pub(crate) fn take_offer(&mut self, slot: u16) -> Option<(u16, OwnedFd)> {
        let place = self.offered.iter().position(|(of, ..)| *of == slot)?;
        let (_, number, file) = self.offered.swap_remove(place);
        Some((number, file))
    }

    /// Takes out the out-of-band part of the message of `slot` that has come.
    ///
    /// # Panics
    /// If there is no such slot.
    pub(crate) fn take(&mut self, slot: u16) -> Option<Came> {
        self.places[usize::from(slot)].take()
    }

    /// Drops the out-of-band part that has come for `slot`. Nobody waits for its message any more,
    /// and that has not been seen yet.
    ///
    /// # Panics
    /// If there is no such slot.
    pub(crate) fn forget(&mut self, slot: u16) -> Option<Came> {
        let place = &mut self.places[usize::from(slot)];
        let came = place.take();
        place.forgotten |= came.is_some();
        came
    }

    /// The message of `slot` was seen, and nobody waits for its out-of-band part. That may still
    /// come if `more` messages of the socket do.
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
        PayloadFile::create("test").unwrap().as_fd().try_clone_to_owned().unwrap()
    }

    fn files(count: usize) -> PassedFiles {
        PassedFiles::of_memory((0..count).map(|_| memory_file()).collect())
    }

    fn memory() -> PassedFiles {
        files(1)
    }

    fn out_of_band(count: usize) -> Came {
        Came::of(files(count), false, count as u16, PayloadLocation::Stack, 0).unwrap()
    }

    #[test]
    fn what_is_not_as_announced_is_no_out_of_band_message() {
        for (announced, came, lost) in
            [(0, 1, false), (2, 1, false), (1, 2, false), (0, 0, true), (1, 1, true)]
        {
            assert!(
                Came::of(files(came), lost, announced, PayloadLocation::Stack, 0).is_none(),
                "{announced} {came} {lost}"
            );
        }
        assert!(
            Came::of(memory(), false, 0, PayloadLocation::NewOverflowBuffer(1), 0)
                .is_some_and(|came| came.held() == 1)
        );
        assert!(
            Came::of(files(FILES + 1), false, FILES as u16 + 1, PayloadLocation::Stack, 0).is_none(),
            "too many"
        );
        assert!(Came::of(files(0), true, u16::MAX, PayloadLocation::Stack, 0).is_none(), "far too many");
        assert!(matches!(Came::of(files(1), true, 2, PayloadLocation::Stack, 0), Some(Came::NoFile)));
        assert_eq!(out_of_band(FILES).held(), FILES);
    }

    #[test]
    fn files_that_wait_are_bounded() {
        let mut waiting = PendingOutOfBand::default();
        assert!(!waiting.put(SLOTS as u16, out_of_band(0), 8));
        assert!(waiting.put(0, out_of_band(4), 8) && waiting.put(1, out_of_band(4), 8));
        assert!(waiting.put(2, out_of_band(1), 8));
        assert!(matches!(waiting.take(2), Some(Came::NoFile)), "closed, and its call told");
        // In place of others, which are closed.
        assert!(waiting.put(1, out_of_band(3), 8) && waiting.put(2, out_of_band(1), 8));
        assert!(matches!(waiting.take(2), Some(Came::OutOfBand(_))));
        assert!(waiting.take(2).is_none());
    }

    #[test]
    fn an_out_of_band_message_that_nobody_waits_for_is_not_that_of_the_next_message() {
        let mut waiting = PendingOutOfBand::default();
        let held = |came: Option<Came>| came.map(|came| came.held());
        // Its message is seen first, while more may still come over the socket.
        assert!(waiting.discard(1, true).is_none());
        assert!(waiting.put(1, out_of_band(1), 8) && waiting.take(1).is_none());
        assert!(waiting.put(1, out_of_band(2), 8));
        assert_eq!(held(waiting.take(1)), Some(2));
        // It is forgotten before its message is seen.
        assert!(waiting.put(1, out_of_band(3), 8));
        assert_eq!((held(waiting.forget(1)), held(waiting.discard(1, true))), (Some(3), None));
        assert!(waiting.put(1, out_of_band(4), 8));
        assert_eq!(held(waiting.take(1)), Some(4));
        // Nothing more comes over the socket: a liar's message, for which nobody waits.
        assert!(waiting.discard(1, false).is_none() && waiting.put(1, out_of_band(5), 8));
        assert_eq!(held(waiting.discard(1, false)), Some(5));
    }

    #[test]
    fn the_last_overflow_buffer_that_was_offered_waits() {
        let mut waiting = PendingOutOfBand::default();
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
