//! The only crate that calls Linux.
//!
//! *Decides* how Underpass asks the kernel for each thing that it needs:
//!
//! * memory that two domains share ([`Memory`], [`SealedMemory`]) and stacks ([`StackMemory`]);
//! * sleeping and waking ([`futex`]), and barriers that reach into other processes ([`barrier`]);
//! * names and connections ([`Listening`], [`Socket`]);
//! * processors ([`cpu`], [`quota`]) and kernel threads ([`thread`], [`signal`], [`fault`]);
//! * what a process gives up for good ([`confine`], [`landlock`], [`calls`], [`forbidden`]);
//! * where the outputs of a process go ([`output`]).
//!
//! *Must not know:* channels, threads, calls. It holds no policy: no retries, no spinning, no
//! limits of its own.
//!
//! *Read first:* `memory.rs`.

pub mod barrier;
pub mod calls;
pub mod clock;
pub mod confine;
mod control_message;
pub mod cpu;
mod damage;
pub mod descriptor;
mod directory;
pub mod dump;
pub mod end_signal;
pub mod failpoint;
pub mod fault;
pub mod forbidden;
pub mod foreign;
pub mod fork;
pub mod futex;
pub mod kind;
pub mod landlock;
mod memory;
pub mod output;
mod pass;
mod peek;
pub mod peer;
mod poller;
pub mod process;
pub mod quota;
mod sealed;
pub mod signal;
mod socket;
pub mod spawn;
mod stack;
mod stamp;
mod supported;
pub mod thread;

pub use directory::Directory;
pub use memory::{Blob, Memory};
pub use pass::{pass, take_passed};
pub use peek::{Peek, mapping};
pub use peer::{Connected, Credentials, Other};
pub use poller::{Poller, Ready};
pub use sealed::{SealedMemory, Unsealed};
pub use socket::{Listening, MOST_FILES, Received, Socket, Standing};
pub use stack::{GUARD, StackMemory, give_back_deep, kernel_stack, most_private, promises_memory};
pub use stamp::Stamp;
