//! How values travel, whatever their bytes are.

mod hostile;
mod round_trips;
mod serde;
