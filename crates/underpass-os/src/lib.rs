//! The only crate that calls Linux.
//!
//! *Decides* how Underpass asks the kernel for each thing that it needs:
//!
//! * memory that two domains share ([`Memory`], [`SealedMemory`]) or one publishes ([`published`]),
//!   and stacks ([`StackMemory`]);
//! * sleeping and waking ([`futex`]), and barriers that reach into other processes ([`barrier`]);
//! * names and connections ([`Listening`], [`Socket`]);
//! * processors ([`cpu`], [`quota`]) and kernel threads ([`thread`], [`signal`], [`fault`]);
//! * what a process gives up for good ([`confine`], [`landlock`], [`calls`], [`forbidden`]);
//! * where the outputs of a process go ([`output`]);
//! * what a driver shares with its device ([`DeviceMemory`], [`DeviceStream`], [`EventFd`]),
//!   and devices that the kernel passes to it ([`VfioDevice`], [`UioDevice`]).
//!
//! *Must not know:* channels, threads, calls. It holds no policy: no retries, no spinning, no
//! limits of its own.
//!
//! *Read first:* `memory/shared.rs`.

mod devices;
mod files;
mod memory;
mod processes;
mod sandbox;
mod sockets;
mod supported;
mod threads;

pub use devices::alarm::Alarm;
pub use devices::device_memory::{DeviceMemory, RegisterWord};
pub use devices::device_stream::{DeviceStream, StreamEvent};
pub use devices::event_fd::EventFd;
pub use devices::uio::{UioDevice, UioRegion};
pub use devices::vfio::{VfioDevice, VfioInfo, VfioInterrupts, VfioRegion};
pub use files::fifo::{Fifo, FifoWatch};
pub use files::{descriptor, foreign, kind, output};
pub use memory::peek::{Peek, mapping};
pub use memory::published;
pub use memory::sealed::{SealedMemory, Unsealed};
pub use memory::shared::{Memory, PayloadFile};
pub use memory::stack::{GUARD, StackMemory, give_back_deep, kernel_stack, most_private, promises_memory};
pub use memory::windows::{MemoryWindows, WritableWindow};
pub use processes::children::ChildEnd;
pub use processes::process_table::ProcessEntry;
pub use processes::signal_file::{SignalFile, SignalRead};
pub use processes::{
    children, dump, end_signal, failpoint, fork, niceness, process, process_table, processor_time, random,
    signal_file, spawn, usage,
};
pub use sandbox::{calls, confine, forbidden, landlock};
pub use sockets::activation::passed_elsewhere;
pub use sockets::directory::Directory;
pub use sockets::pass::{pass, take_passed};
pub use sockets::peer;
pub use sockets::peer::{Connected, Credentials, Other};
pub use sockets::poller::{Poller, Ready};
pub use sockets::socket::{Listening, MOST_FILES, Received, Socket, Standing};
pub use threads::{barrier, clock, cpu, fault, futex, quota, signal, thread};
