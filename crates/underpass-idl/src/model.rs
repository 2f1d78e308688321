//! The model of an interface: a trait, after everything invalid was refused.

mod argument;
mod interface;
mod method;
mod outcome;
mod types;

pub(crate) use argument::Argument;
pub(crate) use interface::{Interface, not_a_trait};
pub(crate) use method::Method;
pub(crate) use outcome::Outcome;
pub(crate) use types::{CarriedType, Role, Types};
