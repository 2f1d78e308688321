//! A stream as a value: the files that lead to it, and its sizes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use underpass_channel::{LaneSizes, MappedLane, WhenFull};
use underpass_os::{Socket, kind};
use underpass_rpc::PassedSocket;
use underpass_threads::blocking;
use underpass_wire::{Decode, DecodeError, Encode, Sink, Source, to_bytes};

/// A reader maps no stream that takes more.
pub(crate) const MOST_MEMORY: usize = 64 << 20;

/// Items, the longest record, bytes of the ring, and whether barriers reach the writer.
type Told = (u64, u64, u64, bool);

/// The error of a value that is no stream.
const NONE: DecodeError = DecodeError::BadValue { of: "Stream" };

/// What a reader needs to take a stream.
#[derive(Debug)]
pub(crate) struct StreamOffer {
    pub(crate) sizes: LaneSizes,
    /// Whether barriers reach the writer.
    pub(crate) light: bool,
    pub(crate) memory: OwnedFd,
    /// The socket by which the reader rings when there is room.
    pub(crate) room: OwnedFd,
    /// The socket in which it leaves the bell byte.
    pub(crate) bell: OwnedFd,
}

/// An offer, as its reader uses it.
pub(crate) struct TakenOffer {
    pub(crate) sizes: LaneSizes,
    pub(crate) light: bool,
    pub(crate) memory: MappedLane,
    pub(crate) room: PassedSocket,
    pub(crate) bell: PassedSocket,
}

impl StreamOffer {
    /// Bytes of the value.
    pub(crate) const SIZE: usize = match <Told as Encode>::FIXED {
        Some(size) => size,
        None => panic!("numbers have a fixed size"),
    };

    /// Puts the value: its bytes, and the files beside them.
    pub(crate) fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        self.told().encode(to);
        to.put_stream([&self.memory, &self.room, &self.bell].map(AsFd::as_fd));
    }

    /// The bytes of the value.
    pub(crate) fn description(&self) -> Vec<u8> {
        to_bytes(&self.told())
    }

    fn told(&self) -> Told {
        let (items, longest, bytes) = (self.sizes.items(), self.sizes.longest(), self.sizes.bytes());
        (items as u64, longest as u64, bytes as u64, self.light)
    }

    /// What a peer has written of a stream: its sizes, and whether barriers reach the writer.
    ///
    /// # Errors
    /// There is no such stream.
    pub(crate) fn described<S: Source + ?Sized>(from: &mut S) -> Result<(LaneSizes, bool), DecodeError> {
        let (items, longest, bytes, light) = Told::decode(from)?;
        let size = |told: u64| usize::try_from(told).map_err(|_| NONE);
        let sizes = LaneSizes::with_bytes(size(items)?, size(longest)?, size(bytes)?, WhenFull::Refuse);
        let sizes = sizes.map_err(|_| NONE)?;
        // An honest writer has rounded the bytes up already.
        if sizes.bytes() as u64 != bytes || sizes.memory() > MOST_MEMORY {
            return Err(NONE);
        }
        Ok((sizes, light))
    }

    /// Takes a value that a peer wrote.
    ///
    /// # Errors
    /// It is no stream.
    pub(crate) fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let (sizes, light) = Self::described(from)?;
        let mut files = Vec::with_capacity(3);
        while files.len() < 3 {
            match from.take_file() {
                Ok(file) => files.push(file),
                Err(e) => {
                    blocking(|| drop(files));
                    return Err(e);
                }
            }
        }
        let are_ends = kind::is_memory(&files[0]) && files[1..].iter().all(Socket::is_one);
        let Ok([memory, room, bell]) = <[OwnedFd; 3]>::try_from(files).map_err(|files| {
            debug_assert!(false, "{} files", files.len());
        }) else {
            return Err(NONE);
        };
        if !are_ends {
            // To close a file of an unknown kind may take long.
            blocking(|| drop((memory, room, bell)));
            return Err(NONE);
        }
        Ok(Self { sizes, light, memory, room, bell })
    }

    /// Maps the memory, and adopts the sockets.
    ///
    /// # Errors
    /// The memory is none of these sizes, or there is no room for it.
    pub(crate) fn take(self) -> io::Result<TakenOffer> {
        // First, so that the file threads close them whatever comes.
        let (room, bell) = (PassedSocket::adopt(self.room)?, PassedSocket::adopt(self.bell)?);
        let memory = MappedLane::adopt(self.memory.as_fd(), self.sizes)?;
        Ok(TakenOffer { sizes: self.sizes, light: self.light, memory, room, bell })
    }
}
