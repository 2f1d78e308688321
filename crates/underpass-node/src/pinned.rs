#![doc = include_str!("pinned/README.md")]

mod cpu_choice;
mod domain_survey;
mod members;
mod pinned_target;
mod pinned_width;
mod pinning;
mod runner;
mod surveyed_domain;
mod surveyor;
mod tokens;

pub use runner::RunnerConnection;
pub(crate) use surveyed_domain::{PinnedSource, SurveyedDomain};
pub(crate) use surveyor::{SurveyorBell, SurveyorHandle};
