//! How long to measure.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long one row may take, and how that time is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// The time of one slice of one subject.
    pub slice: Duration,
    /// The fewest rounds. A round is a slice of each subject.
    pub least: usize,
    /// The most rounds.
    pub most: usize,
    /// When to stop, once `least` is reached.
    pub budget: Duration,
    /// Whether tables with many rows leave some out.
    pub few: bool,
}

impl Effort {
    /// For figures that are to be quoted: a few seconds per row.
    pub const FULL: Self = Self {
        slice: Duration::from_millis(3),
        least: 7,
        most: 201,
        budget: Duration::from_secs(4),
        few: false,
    };

    /// For a quick look: a few tenths of a second per row.
    pub const QUICK: Self = Self {
        slice: Duration::from_millis(1),
        least: 3,
        most: 41,
        budget: Duration::from_millis(200),
        few: true,
    };
}
