//! What `git` says about commits.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the rule asks about commits.
pub trait CommitHistory {
    /// Whether there is such a commit.
    fn has(&self, commit: &str) -> bool;

    /// Whether `later` is `earlier` or comes after it.
    fn comes_after(&self, later: &str, earlier: &str) -> bool;

    /// A Rust file of `rooms` that differs today from what it was at `commit`.
    fn changed_since(&self, commit: &str, rooms: &[&str]) -> Option<String>;
}

/// A checkout. What is there today is its working tree, with changes that are not committed yet.
#[derive(Debug)]
pub struct Repository {
    root: PathBuf,
}

impl Repository {
    /// The checkout that `directory` lies in. If it lies in none, it is taken for one that has no
    /// commits.
    pub(super) fn around(directory: &Path) -> Self {
        let here = Self { root: directory.to_owned() };
        let top = here.git(&["rev-parse", "--show-toplevel"]).filter(|output| output.status.success());
        let top = top.and_then(|output| String::from_utf8(output.stdout).ok());
        top.map_or(here, |top| Self { root: top.trim_end().into() })
    }

    /// The top of the checkout.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs `git`. `None` if it can't be started.
    fn git(&self, arguments: &[&str]) -> Option<Output> {
        Command::new("git").arg("-C").arg(&self.root).args(arguments).output().ok()
    }

    fn succeeds(&self, arguments: &[&str]) -> bool {
        self.git(arguments).is_some_and(|output| output.status.success())
    }
}

impl CommitHistory for Repository {
    fn has(&self, commit: &str) -> bool {
        // A name would be another commit tomorrow.
        let is_hash = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash && self.succeeds(&["cat-file", "-e", &format!("{commit}^{{commit}}")])
    }

    fn comes_after(&self, later: &str, earlier: &str) -> bool {
        self.succeeds(&["merge-base", "--is-ancestor", earlier, later])
    }

    fn changed_since(&self, commit: &str, rooms: &[&str]) -> Option<String> {
        let patterns = rooms.iter().map(|room| match room.ends_with(".rs") {
            true => format!(":(top,glob){room}"),
            false => format!(":(top,glob){room}/**/*.rs"),
        });
        let patterns: Vec<_> = patterns.collect();
        let mut arguments = vec!["diff", "--name-only", "--no-renames", commit, "--"];
        arguments.extend(patterns.iter().map(String::as_str));
        match self.git(&arguments).filter(|output| output.status.success()) {
            Some(output) => String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned),
            // What can't be compared counts as changed.
            None => Some("a file that can't be compared".into()),
        }
    }
}
