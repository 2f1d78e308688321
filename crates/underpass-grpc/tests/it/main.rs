//! Remote calls as their traces show them.

mod remote_trace;
