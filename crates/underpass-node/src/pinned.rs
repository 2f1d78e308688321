#![doc = include_str!("pinned/README.md")]

#[cfg(not(underpass_loom))]
mod cpu_choice;
#[cfg(not(underpass_loom))]
mod domain_survey;
#[cfg(not(underpass_loom))]
mod members;
mod pinned_word;
#[cfg(not(underpass_loom))]
mod pinning;
#[cfg(not(underpass_loom))]
mod runner;
#[cfg(not(underpass_loom))]
mod surveyed_domain;
#[cfg(not(underpass_loom))]
mod surveyor;
#[cfg(not(underpass_loom))]
mod tokens;

pub use pinned_word::{PinStep, PinnedWord};
#[cfg(not(underpass_loom))]
pub use runner::RunnerConnection;
#[cfg(not(underpass_loom))]
pub(crate) use surveyed_domain::{PinnedSource, SurveyedDomain};
#[cfg(not(underpass_loom))]
pub(crate) use surveyor::{SurveyorBell, SurveyorHandle};
