#![doc = include_str!("page/README.md")]

mod accounts;
pub mod layout;
mod link_word;
mod ready_queue;
mod registration_gate;
mod transfers;
mod words;

pub use accounts::{Snapshot, close_row, open_row};
pub use layout::TransferKind;
pub use link_word::LinkWord;
pub use ready_queue::{ReadyChange, publish_ready};
pub use registration_gate::{GatePass, RegistrationGate};
pub use transfers::{PageLink, ask, ask_for, asked_by, beneficiary_of, give, ring, take};
pub use words::{PageView, PageWords};
