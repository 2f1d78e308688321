//! A device as its driver gets it from a holder.

use crate::DeviceError;
use crate::backing::Backing;
use crate::holder::hold_message::{HANDED_OVER, HeldWay, HoldMessage, LENGTH};
use crate::iova::IovaSpace;
use crate::vfio_pci::VfioPci;
use crate::vfio_user::client::VfioUser;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use underpass_os::clock::deadline_ns;
use underpass_os::{DeviceMemory, DeviceStream, Memory, StreamEvent};
use underpass_threads::blocking;

/// A device that a [`DeviceHolder`](crate::DeviceHolder) has lent to this driver. The holder gets
/// it back when the driver drops it, and everything that was taken from it, or ends.
///
/// A holder that starts its driver passes the socket as the driver's standard input.
#[derive(Debug)]
pub struct HeldDevice {
    message: HoldMessage,
    files: Vec<OwnedFd>,
    part: HeldPart,
}

/// What the holder keeps, and the socket to it.
#[derive(Debug)]
pub(crate) struct HeldPart {
    memory: DeviceMemory,
    iova: u64,
    handed_over: bool,
    /// Open until everything else of the device is closed.
    holder: DeviceStream,
}

const BROKEN: DeviceError = DeviceError::Malformed("what came from its holder is no device");

impl HeldDevice {
    /// Takes the device from the holder at the other end of `socket`. If another driver has it,
    /// this waits for that driver's end.
    ///
    /// # Errors
    /// [`Late`](DeviceError::Late) after `deadline`. [`Gone`](DeviceError::Gone): the holder has
    /// ended, or has lost the device. [`Malformed`](DeviceError::Malformed): that is no holder.
    ///
    /// # Examples
    /// See [`DeviceHolder`](crate::DeviceHolder).
    pub fn take(socket: impl Into<OwnedFd>, deadline: Instant) -> Result<Self, DeviceError> {
        let holder = DeviceStream::adopt(socket.into())?;
        let deadline = deadline_ns(deadline.saturating_duration_since(Instant::now()));
        let (mut bytes, mut files) = ([0; LENGTH], Vec::new());
        let mut received = 0;
        while received < LENGTH {
            match holder.receive(&mut bytes[received..], &mut files) {
                Ok(0) => return Err(DeviceError::Gone),
                Ok(more) => received += more,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !blocking(|| holder.wait(StreamEvent::Readable, deadline))? {
                        return Err(DeviceError::Late("come from its holder"));
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
        Self::of(&bytes, files, holder)
    }

    /// Takes the device from the holder that has started this process: the socket is its standard
    /// input.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn from_stdin(deadline: Instant) -> Result<Self, DeviceError> {
        Self::take(io::stdin().as_fd().try_clone_to_owned()?, deadline)
    }

    fn of(bytes: &[u8; LENGTH], mut files: Vec<OwnedFd>, holder: DeviceStream) -> Result<Self, DeviceError> {
        let message = HoldMessage::decode(bytes).ok_or(BROKEN)?;
        if files.len() != 1 + message.way.files() {
            return Err(BROKEN);
        }
        let len = usize::try_from(message.len).map_err(|_| BROKEN)?;
        let memory = DeviceMemory::new(Memory::adopt(files.remove(0).as_fd(), len)?);
        let handed_over = message.handed_over;
        Ok(Self { message, files, part: HeldPart { memory, iova: message.iova, handed_over, holder } })
    }

    pub(crate) fn open(self, patience: Duration) -> Result<(Box<dyn Backing>, HeldPart), DeviceError> {
        let mut files = self.files.into_iter();
        let mut file = || files.next().ok_or(BROKEN);
        let backing: Box<dyn Backing> = match self.message.way {
            HeldWay::VfioUser => Box::new(VfioUser::adopt(DeviceStream::adopt(file()?)?, patience)?),
            HeldWay::VfioPci => Box::new(VfioPci::adopt(file()?, file()?, file()?)?),
        };
        Ok((backing, self.part))
    }
}

impl HeldPart {
    pub(crate) fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    pub(crate) fn iova(&self) -> u64 {
        self.iova
    }

    /// The addresses of the memory, all free.
    pub(crate) fn addresses(&self) -> IovaSpace {
        IovaSpace::of(self.iova, self.memory.len() as u64)
    }

    /// Where `len` bytes lie in the memory, by the device's address of the first one.
    pub(crate) fn range(&self, iova: u64, len: usize) -> Range<usize> {
        let begin = (iova - self.iova) as usize;
        begin..begin + len
    }

    /// Fills bytes with zeros.
    pub(crate) fn clear(&self, range: Range<usize>) {
        const ZEROS: [u8; 4096] = [0; 4096];
        for at in range.step_by(ZEROS.len()) {
            // Ranges are whole pages of the memory.
            self.memory.copy_in(at, &ZEROS);
        }
    }

    pub(crate) fn was_handed_over(&self) -> bool {
        self.handed_over
    }

    pub(crate) fn hand_over(&self) -> Result<(), DeviceError> {
        // There is room: nothing else is sent this way.
        self.holder.send(&[HANDED_OVER], &[])?;
        Ok(())
    }
}
