//! Where a row of a result comes from.

use crate::Machine;
use crate::date::utc;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// Whether the sources that an executable was built from were those of its commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceTree {
    /// They were.
    Clean,
    /// Some had been changed since.
    Changed,
    /// Nobody knows.
    #[default]
    Unknown,
}

/// The code that an executable was built from.
///
/// # Examples
/// ```
/// use underpass_figures::{SourceTree, SourceVersion};
/// let version = SourceVersion::recorded("1a2b3c4d5e6f", "clean");
/// assert_eq!(version.commit.as_deref(), Some("1a2b3c4d5e6f"));
/// assert_eq!(version.words(), "of 1a2b3c4d");
/// assert_eq!(SourceVersion::recorded("1a2b3c4d5e6f", "changed").words(), "of 1a2b3c4d with changes");
/// assert_eq!(SourceVersion::default().words(), "of an unknown commit");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceVersion {
    /// The full hash of the commit. `None` if it is unknown.
    #[serde(default)]
    pub commit: Option<String>,
    /// Whether the sources were those of the commit.
    #[serde(default)]
    pub tree: SourceTree,
}

impl SourceVersion {
    /// What a build script has recorded: the hash, which is empty if it is unknown, and the state
    /// of the sources.
    pub fn recorded(commit: &str, tree: &str) -> Self {
        let tree = match tree {
            "clean" => SourceTree::Clean,
            "changed" => SourceTree::Changed,
            _ => SourceTree::Unknown,
        };
        Self { commit: (!commit.is_empty()).then(|| commit.to_owned()), tree }
    }

    /// Names the commit for people, by as much of its hash as identifies it.
    pub fn words(&self) -> String {
        let Some(commit) = &self.commit else { return "of an unknown commit".into() };
        let short: String = commit.chars().take(8).collect();
        match self.tree {
            SourceTree::Changed => format!("of {short} with changes"),
            SourceTree::Clean | SourceTree::Unknown => format!("of {short}"),
        }
    }
}

/// Which code a row was measured with, when, and on which machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowOrigin {
    /// The code.
    #[serde(flatten)]
    pub version: SourceVersion,
    /// When the run began, in UTC, as `2026-11-28T23:40:05Z`. `None` if it is unknown.
    pub date: Option<String>,
    /// The machine.
    #[serde(flatten)]
    pub machine: Machine,
}

impl RowOrigin {
    /// That of rows which an executable of `version` measures from now on, on this machine.
    pub fn of_this_run(version: SourceVersion) -> Self {
        Self { version, date: Some(utc(SystemTime::now())), machine: Machine::this() }
    }
}
