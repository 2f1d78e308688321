#![doc = include_str!("page/README.md")]

mod accounts;
pub mod layout;
mod link_word;
mod transfers;
mod words;

pub use accounts::{Snapshot, close_row, open_row};
pub use layout::TransferKind;
pub use link_word::LinkWord;
pub use transfers::{PageLink, ask, asked_by, give, ring, take};
pub use words::{PageView, PageWords};
