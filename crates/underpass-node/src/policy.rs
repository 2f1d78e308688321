#![doc = include_str!("policy/README.md")]

mod decision;
mod domain_entry;
mod fair_level;
mod loans;
mod node_policy;
mod obedience;
mod observed;
mod preemption;
mod queries;
mod rules;
mod transfers;
mod virtual_time;

pub use decision::{Decision, DomainId};
pub use node_policy::NodePolicy;
pub use obedience::{Disobedience, Obedience, ProcessorTime};
pub use queries::DomainCounts;
pub use rules::{Rules, Terms};
