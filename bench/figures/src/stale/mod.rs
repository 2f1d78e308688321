//! Whether a row of a result still says something about today's code.
//!
//! A row is *stale* if one of these holds. The first that can be decided counts.
//!
//! 1. Its commit is unknown, or its sources had changes that no commit has, or the repository lacks
//!    the commit. A shallow clone lacks most commits.
//! 2. `tools/instructions` counts its operation, and the count at its commit and today's differ by
//!    more than 3 %. If they do not, the row is not stale, whatever has changed. The counts are
//!    those of the ledger, `tools/instructions.json`.
//! 3. A source file of a room that it depends on has changed since ([`rooms_of`]).
//!
//! *Read first:* this file, then `rooms.rs`.

mod history;
mod ledger;
mod rooms;

pub use rooms::{counted_operation, rooms_of};

use crate::SourceTree;
use crate::SourceVersion;
use history::{CommitHistory, Repository};
use ledger::InstructionLedger;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// By how much the instructions of an operation may differ, as a part of the count at the row's
/// commit.
const MOST_CHANGE: f64 = 0.03;

/// Why a row is stale.
#[derive(Clone, Debug, PartialEq)]
pub enum StaleReason {
    /// The row does not say which commit it is of.
    UnknownCommit,
    /// The sources were not those of the commit, or nobody knows.
    ChangedTree,
    /// The repository does not have the commit.
    MissingCommit,
    /// The operation takes another number of instructions today.
    Instructions {
        /// At the row's commit.
        then: f64,
        /// Today.
        today: f64,
    },
    /// This source file has changed since, perhaps beside others.
    SourceFile(String),
    /// No room is known for the benchmark.
    UnknownBenchmark,
}

impl fmt::Display for StaleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCommit => f.write_str("its commit is unknown"),
            Self::ChangedTree => f.write_str("its sources were not known to be those of the commit"),
            Self::MissingCommit => f.write_str("this repository does not have its commit"),
            Self::Instructions { then, today } => {
                write!(f, "the operation took {then:.0} instructions then, and takes {today:.0} today")
            }
            Self::SourceFile(path) => write!(f, "{path} has changed since"),
            Self::UnknownBenchmark => f.write_str("no room is known for its benchmark"),
        }
    }
}

/// What identifies the code that a row has measured.
type MeasuredCode = (SourceVersion, String, Option<&'static str>);

/// Judges rows by the history of a repository.
#[derive(Debug)]
pub struct StaleRule<H = Repository> {
    history: H,
    ledger: InstructionLedger,
    /// What was found out already: most rows of a file have the same code.
    known: RefCell<HashMap<MeasuredCode, Option<StaleReason>>>,
}

impl StaleRule {
    /// The rule by the repository that `directory` lies in. If it lies in none, no commit is known.
    ///
    /// # Errors
    /// The repository has a ledger of instructions that can't be read.
    pub fn of(directory: &Path) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let history = Repository::around(directory);
        let ledger = InstructionLedger::read(history.root())?;
        Ok(Self { history, ledger, known: RefCell::default() })
    }
}

impl<H: CommitHistory> StaleRule<H> {
    /// Why a row of `case` is stale. `None`: it is not.
    pub fn reason(&self, version: &SourceVersion, bench: &str, case: &str) -> Option<StaleReason> {
        let operation = counted_operation(bench, case);
        let code = (version.clone(), bench.to_owned(), operation);
        if let Some(known) = self.known.borrow().get(&code) {
            return known.clone();
        }
        let reason = self.found_out(version, bench, operation);
        self.known.borrow_mut().insert(code, reason.clone());
        reason
    }

    fn found_out(
        &self,
        version: &SourceVersion,
        bench: &str,
        operation: Option<&str>,
    ) -> Option<StaleReason> {
        let Some(commit) = &version.commit else { return Some(StaleReason::UnknownCommit) };
        if version.tree != SourceTree::Clean {
            return Some(StaleReason::ChangedTree);
        }
        if !self.history.has(commit) {
            return Some(StaleReason::MissingCommit);
        }
        let counts = operation.and_then(|operation| {
            let then = self.ledger.count_at(commit, operation, &self.history)?;
            Some((then, self.ledger.count_today(operation)?))
        });
        if let Some((then, today)) = counts {
            let differs = (today - then).abs() > MOST_CHANGE * then;
            return differs.then_some(StaleReason::Instructions { then, today });
        }
        match rooms_of(bench).as_slice() {
            [] => Some(StaleReason::UnknownBenchmark),
            rooms => self.history.changed_since(commit, rooms).map(StaleReason::SourceFile),
        }
    }
}

/// The words that follow every figure of a row: its commit, and whether it is stale.
///
/// # Examples
/// ```
/// use underpass_figures::{StaleReason, SourceVersion, mark};
/// let version = SourceVersion::recorded("1a2b3c4d5e6f", "clean");
/// assert_eq!(mark(&version, None), "of 1a2b3c4d");
/// assert_eq!(mark(&version, Some(&StaleReason::MissingCommit)), "of 1a2b3c4d, stale");
/// ```
pub fn mark(version: &SourceVersion, reason: Option<&StaleReason>) -> String {
    version.words() + if reason.is_some() { ", stale" } else { "" }
}

#[cfg(test)]
mod tests;
