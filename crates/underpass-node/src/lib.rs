//! The activation server: how the processors of a machine are divided among domains (OThreads,
//! section 3.3).
//!
//! *Decides:* which domain gets a processor, which one gives a processor up, and what happens to a
//! domain that does not obey.
//!
//! *Must not know:* threads, calls, shared memory and clocks. The user of the policy tells it what
//! domains want and what time it is.
//!
//! *Read first:* [the rules and their proof](policy), then `policy/node_policy.rs`.
#![forbid(unsafe_code)]

pub mod policy;

pub use policy::{
    Decision, Disobedience, DomainCounts, DomainId, NodePolicy, Obedience, ProcessorTime, Rules, Terms,
};
