//! Whether a claim of a paper holds on this machine, as computed from the figures.

use crate::Figures;

/// A claim, and whether it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimVerdict {
    /// What the paper says.
    pub claim: &'static str,
    /// Whether the figures agree.
    pub holds: bool,
    /// The figures that decide it.
    pub because: String,
}

impl Figures {
    /// Adds a verdict about the curve whose last point this is.
    #[must_use]
    pub(crate) fn with_verdict(self, verdict: Option<ClaimVerdict>) -> Self {
        let Some(ClaimVerdict { claim, holds, because }) = verdict else { return self };
        let today = if holds { "yes" } else { "no" };
        self.with("paper_claims", claim).with("holds_today", today).with("because", because)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_yes_or_no_with_its_reason() {
        let verdict = |holds| Some(ClaimVerdict { claim: "it is fast", holds, because: "3 to 1".into() });
        let told = |holds| Figures::one(1.0, "std", 3.0).with_verdict(verdict(holds)).more;
        assert_eq!((&told(true)["holds_today"], &told(true)["because"]), (&"yes".into(), &"3 to 1".into()));
        assert_eq!(told(false)["holds_today"], "no");
        assert!(Figures::one(1.0, "std", 3.0).with_verdict(None).more.is_empty());
    }
}
