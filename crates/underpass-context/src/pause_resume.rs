//! The words that pass over a switch.

/// Why a context paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It could go on, and lets others go first.
    Yield,
    /// It waits for somebody to say that it can go on.
    Block,
    /// What it did is done; it could do something else.
    Done,
    /// Its body has returned: it can't be resumed any more.
    Ended,
}

/// What a paused context is resumed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// To go on.
    GoOn,
    /// To say where it is, and to pause again.
    Report,
    /// To end.
    End,
}

/// As a register carries them.
#[cfg_attr(any(not(target_arch = "x86_64"), underpass_portable), allow(dead_code))]
impl Pause {
    pub(crate) fn of(word: usize) -> Self {
        [Self::Yield, Self::Block, Self::Done, Self::Ended][word & 3]
    }
}

#[cfg_attr(any(not(target_arch = "x86_64"), underpass_portable), allow(dead_code))]
impl Resume {
    #[inline(always)]
    pub(crate) fn of(word: usize) -> Self {
        match word {
            0 => Self::GoOn,
            1 => Self::Report,
            _ => Self::End,
        }
    }
}
