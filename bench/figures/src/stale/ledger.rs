//! The ledger of instructions, as `tools/instructions` keeps it.

use super::history::CommitHistory;
use serde::Deserialize;
use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Where the ledger is, from the top of the repository.
const LEDGER: &str = "tools/instructions.json";

/// The instructions of each operation, commit after commit. The last entry is today's.
#[derive(Debug, Default)]
pub(super) struct InstructionLedger {
    entries: Vec<LedgerEntry>,
}

/// What was counted at a commit. It holds for later commits, until the next entry.
#[derive(Debug, Deserialize)]
struct LedgerEntry {
    commit: String,
    instructions: HashMap<String, f64>,
}

impl InstructionLedger {
    /// Reads the ledger of the repository at `root`. It is empty if there is none.
    pub(super) fn read(root: &Path) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let file = root.join(LEDGER);
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(|error| format!("{}: {error}", file.display()))?,
        };
        Self::parsed(&text).map_err(|error| format!("{}: {error}", file.display()).into())
    }

    pub(super) fn parsed(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Self { entries: serde_json::from_str(text)? })
    }

    /// The count of `operation` at `commit`: that of the last entry whose commit is it or comes
    /// before it.
    pub(super) fn count_at(
        &self,
        commit: &str,
        operation: &str,
        history: &impl CommitHistory,
    ) -> Option<f64> {
        let before = |entry: &&LedgerEntry| history.comes_after(commit, &entry.commit);
        self.entries.iter().rev().find(before)?.instructions.get(operation).copied()
    }

    /// The count of `operation` today.
    pub(super) fn count_today(&self, operation: &str) -> Option<f64> {
        self.entries.last()?.instructions.get(operation).copied()
    }
}
