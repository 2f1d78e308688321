//! What an experiment of a paper is, and of which rows of the benchmarks it is made.

use super::judges::Judge;

/// A table or figure of a paper.
#[derive(Debug)]
pub(super) struct PaperExperiment {
    /// What `--only` takes: `urpc.fig3`, and `urpc` takes all that begin so.
    pub(super) id: &'static str,
    /// Where it stands.
    pub(super) stands: &'static str,
    /// What is measured.
    pub(super) title: &'static str,
    /// What the paper says about it.
    pub(super) says: &'static str,
    /// What the ratios are ratios to.
    pub(super) to: &'static str,
    pub(super) sources: &'static [PaperSource],
    pub(super) lines: &'static [PaperLine],
    pub(super) base: PaperBase,
    /// What the paper gives for systems that nobody can run today.
    pub(super) only_paper: &'static [(&'static str, f64)],
    /// The paper's claims. Each of them is judged.
    pub(super) claims: &'static [PaperClaim],
}

/// A sentence of the paper, and its judge.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaperClaim {
    pub(super) says: &'static str,
    pub(super) judge: Judge,
}

/// Cases of a benchmark.
#[derive(Debug)]
pub(super) struct PaperSource {
    pub(super) bench: &'static str,
    /// All if it is empty.
    pub(super) cases: &'static [&'static str],
    /// Whether their rows are points. Else they are only what others are divided by.
    pub(super) shown: bool,
    /// Where its code is.
    pub(super) code: &'static str,
}

/// A figure that each row has, and the paper's.
#[derive(Debug)]
pub(super) struct PaperLine {
    pub(super) name: &'static str,
    pub(super) ours: &'static str,
    /// The name of the paper's figure in the row. It may have none.
    pub(super) paper: Option<&'static str>,
}

/// What figures are divided by.
#[derive(Debug)]
pub(super) enum PaperBase {
    /// Nothing: they are ratios.
    Ratios,
    /// The same row's figures of these names, ours and the paper's.
    InRow(&'static str, &'static str),
    /// The figures of these names in the row of this case, with so many threads where it has any.
    Row { case: &'static str, threads: Option<u64>, ours: &'static str, paper: &'static str },
    /// The times of the rows of these cases together.
    Sum(&'static [&'static str]),
    /// The first line's figure in the first row. The text gives no figure of the paper's.
    First,
}

pub(super) const fn line(name: &'static str, ours: &'static str, paper: &'static str) -> PaperLine {
    PaperLine { name, ours, paper: Some(paper) }
}

pub(super) const fn curve(name: &'static str, ours: &'static str) -> PaperLine {
    PaperLine { name, ours, paper: None }
}

pub(super) const fn claim(says: &'static str, judge: Judge) -> PaperClaim {
    PaperClaim { says, judge }
}

pub(super) const fn source(
    bench: &'static str,
    cases: &'static [&'static str],
    code: &'static str,
) -> PaperSource {
    PaperSource { bench, cases, shown: true, code }
}
