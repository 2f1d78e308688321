//! How long to measure.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long one row may take, and in which portions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// What one slice of one subject should take.
    pub slice: Duration,
    /// The fewest rounds; a round is a slice of each subject.
    pub least: usize,
    /// The most rounds.
    pub most: usize,
    /// When to stop, if `least` is reached.
    pub budget: Duration,
    /// Whether tables of many rows should leave some out.
    pub few: bool,
}

impl Effort {
    /// For figures that are to be quoted: some seconds a row.
    pub const FULL: Self = Self {
        slice: Duration::from_millis(3),
        least: 7,
        most: 201,
        budget: Duration::from_secs(4),
        few: false,
    };

    /// For a look: some tenths of a second a row.
    pub const QUICK: Self = Self {
        slice: Duration::from_millis(1),
        least: 3,
        most: 41,
        budget: Duration::from_millis(200),
        few: true,
    };
}
