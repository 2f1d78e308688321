//! Why a sandbox could not be started.

use crate::{Ended, Measure};
use std::fmt;
use std::io;
use std::time::Duration;

/// Why a sandboxed domain does not serve.
#[non_exhaustive]
pub enum StartError {
    /// The kernel refused something. *Remedy:* as the error says.
    System(&'static str, io::Error),
    /// A measure does not hold here that was [`require`](crate::Sandbox::require)d, or that every
    /// sandbox needs. *Remedy:* use another kernel or another configuration of it, or do without
    /// the measure.
    NotEnforced(Measure, String),
    /// The process could not begin, and gave the reason.
    Failed(String),
    /// The process ended before it served. *Remedy:* see its standard error output.
    Ended(Ended),
    /// The process did not serve in time, and was ended. *Remedy:* call [`inside`](crate::inside)
    /// first thing in its `main`, and [`Inside::serve`](crate::Inside::serve) then. Or allow more
    /// time by [`Sandbox::patience`](crate::Sandbox::patience).
    Late(Duration),
    /// The process was not started by a [`Sandbox`](crate::Sandbox) of this version of Underpass.
    /// *Remedy:* build both programs with the same.
    NoSandbox(&'static str),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(what, e) => write!(f, "{what}: {e}"),
            Self::NotEnforced(measure, why) => write!(
                f,
                "the sandbox has no {measure}: {why}; use another kernel or configuration, or don't require it"
            ),
            Self::Failed(why) => write!(f, "the sandboxed process can't serve: {why}"),
            Self::Ended(ended) => write!(f, "{ended}, before it served"),
            Self::Late(time) => write!(
                f,
                "the sandboxed process has not begun to serve within {time:?}; does its main call sandbox::inside() and serve()?"
            ),
            Self::NoSandbox(why) => {
                write!(f, "this process was not started by a sandbox of this version: {why}")
            }
        }
    }
}

impl std::error::Error for StartError {}

impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
