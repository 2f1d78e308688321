//! The model of an interface: a trait, after everything invalid was refused.

mod interface;
mod method;
mod method_result;
mod parameter;
mod types;

pub(crate) use interface::{Interface, not_a_trait};
pub(crate) use method::Method;
pub(crate) use method_result::MethodResult;
pub(crate) use parameter::Parameter;
pub(crate) use types::{CarriedType, MarkedTypes, Role};
