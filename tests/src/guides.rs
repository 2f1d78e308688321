//! The code in the guides is compiled, and run.

#[doc = include_str!("../../doc/guides/async.md")]
mod asynchronous {}
#[doc = include_str!("../../doc/guides/deadlines-and-cancellation.md")]
mod deadlines_and_cancellation {}
#[doc = include_str!("../../doc/guides/deployment.md")]
mod deployment {}
#[doc = include_str!("../../doc/guides/devices.md")]
mod devices {}
#[doc = include_str!("../../doc/guides/errors-and-retries.md")]
mod errors_and_retries {}
#[doc = include_str!("../../doc/guides/interfaces-as-values.md")]
mod interfaces_as_values {}
#[doc = include_str!("../../doc/guides/objects.md")]
mod objects {}
#[doc = include_str!("../../doc/guides/ports.md")]
mod ports {}
#[doc = include_str!("../../doc/guides/sandboxing.md")]
mod sandboxing {}
#[doc = include_str!("../../doc/guides/shared-memory.md")]
mod shared_memory {}
#[doc = include_str!("../../doc/guides/state-of-each-client.md")]
mod state_of_each_client {}
#[doc = include_str!("../../doc/guides/streams.md")]
mod streams {}
#[doc = include_str!("../../doc/guides/versions.md")]
mod versions {}
