//! Files that a peer may have made: waiting for them, finding their kind, closing them without
//! being held up.

pub mod descriptor;
pub mod fifo;
pub mod foreign;
pub mod kind;
pub mod output;
