//! What an interface is: a trait, once everything that can't be one is refused.

mod argument;
mod interface;
mod method;
mod outcome;

pub(crate) use argument::Argument;
pub(crate) use interface::{Interface, not_a_trait};
pub(crate) use method::Method;
pub(crate) use outcome::Outcome;
