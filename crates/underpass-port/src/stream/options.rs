//! Opening a stream.

use crate::bell::Bell;
use crate::quota::{Charge, Quota};
use crate::stream::bell_byte::BellByteTaker;
use crate::stream::binding::ends_with_binding;
use crate::stream::errors::OpenStreamError;
use crate::stream::machines::charge_for_machines;
use crate::stream::offer::{MOST_MEMORY, StreamOffer};
use crate::stream::reader::Stream;
use crate::stream::sender::StreamSender;
use crate::stream::writer_end::WriterEnd;
use std::sync::{Arc, OnceLock};
use underpass_channel::{BadLaneSizes, LaneSender, LaneSizes, MappedLane, WhenFull};
use underpass_os::{barrier, failpoint};
use underpass_rpc::caller;
use underpass_wire::Schema;

/// Both ends of a stream: its writer's, and the value that becomes its reader's.
pub type StreamEnds<T, E = String> = (StreamSender<T, E>, Stream<T, E>);

/// The credits of a stream that is to be opened. They are fixed when it is.
///
/// # Examples
/// ```
/// use underpass::stream::StreamOptions;
///
/// // At most 100 items, and 64 KiB of them, are ahead of the reader.
/// let (sender, stream) = StreamOptions::new().items(100).bytes(64 << 10).open::<String>()?;
/// sender.send(&"first".to_owned())?;
/// sender.finish();
/// let items: Result<Vec<_>, _> = stream.into_iter().collect();
/// assert_eq!(items?, ["first"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "nothing is opened before `open`"]
pub struct StreamOptions {
    items: usize,
    longest: Option<usize>,
    bytes: usize,
}

/// The bytes of an item of no fixed size, unless the writer says otherwise.
const LONGEST: usize = 4096;

/// The bytes that the streams which handlers open for one user may take, all together.
const MEMORY_OF_USER: u64 = 256 << 20;

impl Default for StreamOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl StreamOptions {
    /// Credits for 1,024 items and 256 KiB.
    pub fn new() -> Self {
        Self { items: 1024, longest: None, bytes: 256 << 10 }
    }

    /// How many items may be ahead of the reader: 1 to 1,048,576. The default is 1,024.
    pub fn items(mut self, items: usize) -> Self {
        self.items = items;
        self
    }

    /// How many bytes of items may be ahead of the reader, together with 17 to 32 bytes for each.
    /// The default is 256 KiB. There is always room for two of the longest.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// The most bytes that an item may take, and the error at the end. The default is 4 KiB, or the
    /// size of the type if that is fixed and larger.
    pub fn longest(mut self, bytes: usize) -> Self {
        self.longest = Some(bytes);
        self
    }

    /// Opens a stream: the writer's end, and the value that becomes the reader's end. It goes to
    /// the other domain as an argument or a result, or is read in this one.
    ///
    /// In a procedure it counts against the caller's user, and ends when the caller's binding does.
    ///
    /// # Errors
    /// [`OpenStreamError`], each variant with its remedy.
    pub fn open<T: Schema>(self) -> Result<StreamEnds<T>, OpenStreamError> {
        self.open_failing::<T, String>()
    }

    /// As [`open`](Self::open), for a writer that may end the stream with an error of type `E`.
    ///
    /// # Errors
    /// [`OpenStreamError`], each variant with its remedy.
    pub fn open_failing<T: Schema, E: Schema>(self) -> Result<StreamEnds<T, E>, OpenStreamError> {
        let longest = self.longest.unwrap_or(LONGEST.max(T::FIXED.unwrap_or(0)));
        // Each record begins with its kind.
        let record = longest.checked_add(1).ok_or(BadLaneSizes)?;
        let sizes = LaneSizes::with_bytes(self.items, record, self.bytes, WhenFull::Refuse)?;
        if sizes.memory() > MOST_MEMORY {
            return Err(OpenStreamError::Sizes(BadLaneSizes));
        }
        let (end, offer) = open_sizes(sizes, charge(sizes.memory() as u64)?)?;
        ends_with_binding(&end);
        failpoint!("stream-writer-opened");
        Ok((StreamSender::new(end), Stream::offered(offer)))
    }
}

/// Opens a stream of these sizes: the writer's end, and what leads to it.
pub(crate) fn open_sizes(
    sizes: LaneSizes,
    charge: Option<Charge>,
) -> Result<(Arc<WriterEnd>, StreamOffer), OpenStreamError> {
    let (memory, file) = MappedLane::create(sizes)?;
    let memory = Arc::new(memory);
    let (room_bell, room) = Bell::new()?;
    let (taker, bell) = BellByteTaker::new()?;
    let light = barrier::register();
    let lane = LaneSender::new(memory.clone(), sizes);
    let end = Arc::new(WriterEnd::new(lane, memory, room_bell, taker, charge));
    Bell::watch(&end)?;
    Ok((end, StreamOffer { sizes, light, memory: file, room, bell }))
}

/// In a procedure: counts `bytes` against the caller's user.
fn charge(bytes: u64) -> Result<Option<Charge>, OpenStreamError> {
    static OF_USERS: OnceLock<Arc<Quota>> = OnceLock::new();
    let Some(peer) = caller() else { return Ok(None) };
    if peer.remote().is_some() {
        return charge_for_machines(bytes).map(Some);
    }
    let quota = OF_USERS.get_or_init(|| Quota::new(MEMORY_OF_USER));
    let own = peer.pid() == std::process::id();
    quota.charge(peer.uid(), bytes, own).map(Some).ok_or(OpenStreamError::MemoryOfUser)
}
