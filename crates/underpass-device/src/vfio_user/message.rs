//! The messages of vfio-user, version 0.1: a header of 16 bytes, then a body. All numbers are
//! little-endian.

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum DeviceCommand {
    /// Agree on a version.
    Version = 1,
    /// The device may access memory of the driver.
    DmaMap = 2,
    /// It may not any more.
    DmaUnmap = 3,
    /// How many regions and kinds of interrupts there are.
    DeviceInfo = 4,
    /// One region.
    RegionInfo = 5,
    /// One kind of interrupts.
    IrqInfo = 7,
    /// Which event counter each vector signals.
    SetIrqs = 8,
    /// Read registers.
    RegionRead = 9,
    /// Write registers.
    RegionWrite = 10,
    /// Put the device into the state in which it was first opened.
    Reset = 13,
}

impl DeviceCommand {
    const ALL: [Self; 10] = [
        Self::Version,
        Self::DmaMap,
        Self::DmaUnmap,
        Self::DeviceInfo,
        Self::RegionInfo,
        Self::IrqInfo,
        Self::SetIrqs,
        Self::RegionRead,
        Self::RegionWrite,
        Self::Reset,
    ];

    /// The command of this number.
    pub fn of(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|command| *command as u16 == number)
    }
}

/// Bytes of a header.
pub const HEADER: usize = 16;
/// The longest message that either side takes.
pub const LONGEST: usize = 64 * 1024;

const REPLY: u32 = 1;
const KIND: u32 = 0xf;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;

/// What stands before each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// The reply has the same.
    pub id: u16,
    /// See [`DeviceCommand`].
    pub command: u16,
    /// Bytes of the message, with its header.
    pub size: u32,
    /// Whether it is a reply.
    pub is_reply: bool,
    /// Whether its sender wants no reply.
    pub no_reply: bool,
    /// The number of an error, if it is a reply that brings one.
    pub error: Option<i32>,
}

impl MessageHeader {
    /// A request with `len` bytes of body.
    pub fn request(id: u16, command: DeviceCommand, len: usize) -> Self {
        let size = (HEADER + len) as u32;
        Self { id, command: command as u16, size, is_reply: false, no_reply: false, error: None }
    }

    /// The reply to this request, with `len` bytes of body.
    #[must_use]
    pub fn reply(self, len: usize, error: Option<i32>) -> Self {
        Self { size: (HEADER + len) as u32, is_reply: true, no_reply: false, error, ..self }
    }

    /// Its bytes.
    pub fn encode(self) -> [u8; HEADER] {
        let mut flags = if self.is_reply { REPLY } else { 0 };
        flags |= if self.no_reply { NO_REPLY } else { 0 };
        flags |= if self.error.is_some() { ERROR } else { 0 };
        let mut bytes = [0; HEADER];
        bytes[0..2].copy_from_slice(&self.id.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.command.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..12].copy_from_slice(&flags.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.error.unwrap_or(0).to_le_bytes());
        bytes
    }

    /// Reads a header. `None` if its size can't be, or it is neither a request nor a reply.
    pub fn decode(bytes: &[u8; HEADER]) -> Option<Self> {
        let fields = MessageFields(bytes);
        let (size, flags, error) = (fields.u32(4)?, fields.u32(8)?, fields.u32(12)?);
        let fits = (HEADER..=LONGEST).contains(&(size as usize));
        let is_reply = match flags & KIND {
            0 => false,
            REPLY => true,
            _ => return None,
        };
        fits.then_some(Self {
            id: fields.u16(0)?,
            command: fields.u16(2)?,
            size,
            is_reply,
            no_reply: flags & NO_REPLY != 0,
            error: (flags & ERROR != 0).then_some(error as i32),
        })
    }
}

/// Numbers in the body of a message that came. `None` where the body is too short.
#[derive(Clone, Copy, Debug)]
pub struct MessageFields<'a>(pub &'a [u8]);

impl<'a> MessageFields<'a> {
    fn bytes<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    /// The number of 16 bits at `at`.
    pub fn u16(self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    /// The number of 32 bits at `at`.
    pub fn u32(self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    /// The number of 64 bits at `at`.
    pub fn u64(self, at: usize) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// What follows from `at` on.
    pub fn rest(self, at: usize) -> Option<&'a [u8]> {
        self.0.get(at..)
    }
}

/// The body of a message that is sent: numbers, one after another.
#[derive(Clone, Debug, Default)]
pub struct MessageBody(pub Vec<u8>);

impl MessageBody {
    /// Appends a number of 16 bits.
    #[must_use]
    pub fn u16(self, number: u16) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// Appends a number of 32 bits.
    #[must_use]
    pub fn u32(self, number: u32) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// Appends a number of 64 bits.
    #[must_use]
    pub fn u64(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// Appends bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// The version of the protocol.
pub const VERSION: (u16, u16) = (0, 1);

/// The limits that each side states. They are the protocol's defaults, and neither side relies on
/// more.
pub const CAPABILITIES: &[u8] = b"{\"capabilities\":{\"max_msg_fds\":1,\"max_data_xfer_size\":1048576}}\0";

/// Bits of [`DeviceCommand::DeviceInfo`]'s flags.
pub mod device_flag {
    /// It can be reset.
    pub const RESET: u32 = 1;
    /// It is a PCI device.
    pub const PCI: u32 = 2;
}

/// Bits of [`DeviceCommand::RegionInfo`]'s flags.
pub mod region_flag {
    /// It can be read.
    pub const READ: u32 = 1;
    /// It can be written.
    pub const WRITE: u32 = 2;
    /// It can be mapped.
    pub const MAP: u32 = 4;
    /// More about it follows.
    pub const CAPABILITIES: u32 = 8;
}

/// The capability of a region that says which parts of it can be mapped.
pub const SPARSE_MAP: u16 = 1;

/// Bits of [`DeviceCommand::SetIrqs`]'s flags.
pub mod irq_flag {
    /// No data follow.
    pub const NO_DATA: u32 = 1;
    /// Event counters come along.
    pub const EVENTS: u32 = 4;
    /// The vectors signal them from now on.
    pub const TRIGGER: u32 = 32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let request = MessageHeader::request(7, DeviceCommand::RegionWrite, 24);
        assert_eq!(MessageHeader::decode(&request.encode()), Some(request));
        assert_eq!(DeviceCommand::of(request.command), Some(DeviceCommand::RegionWrite));
        for error in [None, Some(22)] {
            let reply = request.reply(4, error);
            assert_eq!(MessageHeader::decode(&reply.encode()), Some(reply));
        }
        let posted = MessageHeader { no_reply: true, ..request };
        assert_eq!(MessageHeader::decode(&posted.encode()), Some(posted));
    }

    #[test]
    fn a_header_that_can_t_be_is_refused() {
        let good = MessageHeader::request(7, DeviceCommand::Reset, 0).encode();
        for (at, byte) in [(4, 15), (7, 1), (8, 2)] {
            let mut bad = good;
            bad[at] = byte;
            assert_eq!(MessageHeader::decode(&bad), None, "byte {at}");
        }
        assert_eq!(DeviceCommand::of(0), None);
    }

    #[test]
    fn numbers_beyond_the_end_are_not_there() {
        let body = MessageBody::default().u16(1).u32(2).u64(3);
        let fields = MessageFields(&body.0);
        assert_eq!((fields.u16(0), fields.u32(2), fields.u64(6)), (Some(1), Some(2), Some(3)));
        assert_eq!((fields.u64(7), fields.u32(usize::MAX), fields.rest(15)), (None, None, None));
        assert_eq!(fields.rest(14), Some(&[][..]));
    }
}
