//! What is passed over a switch: why a context pauses, and what for it is resumed.

/// Why a context paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It could go on, but lets others run first.
    Yield,
    /// It waits until another thread says that it can go on.
    Block,
    /// It has finished its work, and could do other work.
    Done,
    /// Its body has returned. It can't be resumed any more.
    Ended,
}

/// For what a paused context is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// To go on.
    GoOn,
    /// To report where it is, and to pause again.
    Report,
    /// To end.
    End,
}

/// From and to the value that a register carries over a switch.
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
