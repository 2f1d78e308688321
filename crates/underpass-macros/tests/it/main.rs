//! The macros with stand-ins for the runtime.

mod extensible;
mod interfaces;
#[allow(dead_code, reason = "what the macros write may name it")]
mod mock;
mod serde;
mod stacks;
mod std_types;
mod types;
