//! The type of a port's messages, for senders that do not have it.

use crate::__private::ResultOf;
use crate::open::hash_of;
use crate::sync::RefusalMark;
use underpass_macros::Wire;
use underpass_rpc::inspect::InterfaceView;
use underpass_wire::{Descriptor, Schema, Sizes};

/// What a port tells of its messages.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate, extensible)]
pub(crate) struct DescribedMessages {
    /// The hash of their type, which a sender names.
    pub(crate) hash: u64,
    /// An interface. The argument of its method `send` is a message.
    pub(crate) interface: InterfaceView,
}

impl DescribedMessages {
    /// Messages of type `T`.
    pub(crate) fn of<T: Schema>() -> Self {
        let mut port = Descriptor::builder("Port", "An asynchronous port.");
        let sizes = Sizes::of::<ResultOf<(), RefusalMark>>(&[T::FIXED], None);
        port.procedure("send", "Sends a message, which is not answered.", sizes)
            .argument::<T>("message")
            .result::<ResultOf<(), RefusalMark>>();
        Self { hash: hash_of::<T>(), interface: (&port.finish()).into() }
    }
}
