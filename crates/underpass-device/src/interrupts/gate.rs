//! The state of one interrupt vector: masked, armed, posted or running. The steps are those of
//! `README.md`.

use underpass_seam::atomic::{AtomicU32, Ordering};

/// The state of a vector, in one word: which step comes next, and how many threads want
/// interrupts.
///
/// | bits | meaning | changed by |
/// |---|---|---|
/// | 0, 1 | the step | whoever takes the step |
/// | `ALWAYS` | a handler wants each interrupt | the maker, before others see the gate |
/// | `STORM` | too many came: masked for a while | the upcall that finds the storm; the dispatcher |
/// | `CLOSED` | no upcall begins any more | the owner of the registration |
/// | `AGAIN` | post once more after the upcall that is under way | the dispatcher |
/// | from `ONE` on | how many threads are about to wait, or wait | these threads |
#[derive(Debug)]
pub struct VectorGate {
    word: AtomicU32,
}

const STEP: u32 = 0b11;
/// Nobody watches the event counter. Interrupts add to it.
const MASKED: u32 = 0;
/// The dispatcher watches the event counter, or is just being told to.
const ARMED: u32 = 1;
/// An upcall is on its way.
const POSTED: u32 = 2;
/// The handler runs.
const RUNNING: u32 = 3;

const ALWAYS: u32 = 1 << 2;
const STORM: u32 = 1 << 3;
const CLOSED: u32 = 1 << 4;
const AGAIN: u32 = 1 << 5;
/// One thread that wants interrupts.
const ONE: u32 = 1 << 8;

/// What a change of the gate obliges its maker to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the vector stays silent if this is not done"]
pub enum NextStep {
    /// Nothing.
    Nothing,
    /// To watch the event counter until it reports once.
    Arm,
    /// To bring the upcall to an activation.
    Post,
}

impl VectorGate {
    /// A masked gate. `always`: interrupts are wanted whether threads wait or not.
    pub fn new(always: bool) -> Self {
        Self { word: AtomicU32::new(if always { ALWAYS } else { 0 }) }
    }

    /// Changes the word as `change` says, or leaves it if that is `None`. Then arms the gate if it
    /// is masked and somebody wants interrupts.
    fn change(&self, change: impl Fn(u32) -> Option<u32>) -> Option<NextStep> {
        // Relaxed: the compare-exchange below checks it.
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            let (new, next) = settle(old, change(old)?);
            // SYNC with every other change of this word: what its maker did before. So a thread
            // that wants interrupts is seen by the end of the upcall, or sees it.
            match self.word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(next),
                Err(found) => old = found,
            }
        }
    }

    /// Arms it for the first time, if interrupts are always wanted.
    pub fn open(&self) -> NextStep {
        self.change(Some).unwrap_or(NextStep::Nothing)
    }

    /// *W1:* the caller is about to wait. It looks once more after this, and calls
    /// [`unwant`](Self::unwant) when it has ended its wait.
    pub fn want(&self) -> NextStep {
        self.change(|word| Some(word + ONE)).unwrap_or(NextStep::Nothing)
    }

    /// *W4:* the caller does not wait any more.
    pub fn unwant(&self) {
        // It arms nothing: fewer want interrupts than before, and they were armed then.
        let _ = self.change(|word| Some(word - ONE));
    }

    /// *D3:* the event counter has reported, and its count was taken. Returns whether to bring an
    /// upcall to an activation. If the handler runs now, it runs again.
    pub fn post(&self) -> bool {
        let posted = self.change(|word| match word & (STEP | CLOSED) {
            ARMED => Some(word & !STEP | POSTED),
            RUNNING => Some(word | AGAIN),
            _ => None,
        });
        posted == Some(NextStep::Post)
    }

    /// Has the handler run although no interrupt has come. If it runs now, it runs again.
    pub fn force(&self) -> NextStep {
        self.change(|word| match word & STEP {
            _ if word & CLOSED != 0 => None,
            POSTED => None,
            RUNNING => Some(word | AGAIN),
            _ => Some(word & !STEP | POSTED),
        })
        .unwrap_or(NextStep::Nothing)
    }

    /// *U1:* an activation begins the upcall. Returns `false` if another one has, or the gate is
    /// closed.
    pub fn begin(&self) -> bool {
        self.change(|word| (word & (STEP | CLOSED) == POSTED).then_some(word | RUNNING)).is_some()
    }

    /// *U4:* the upcall has ended.
    pub fn end(&self) -> NextStep {
        let ended = self.change(|word| {
            let again = word & (AGAIN | CLOSED) == AGAIN;
            Some(word & !(STEP | AGAIN) | if again { POSTED } else { MASKED })
        });
        ended.unwrap_or(NextStep::Nothing)
    }

    /// Keeps the vector masked from the end of this upcall on, until [`calm`](Self::calm).
    pub fn storm(&self) {
        let _ = self.change(|word| Some(word | STORM));
    }

    /// Ends the time for which a storm has masked the vector.
    pub fn calm(&self) -> NextStep {
        self.change(|word| Some(word & !STORM)).unwrap_or(NextStep::Nothing)
    }

    /// No upcall begins from now on. Returns whether one runs at this moment.
    pub fn close(&self) -> bool {
        let _ = self.change(|word| Some(word | CLOSED));
        self.is_running()
    }

    /// Whether the handler runs at this moment.
    pub fn is_running(&self) -> bool {
        // SYNC with the change of the word in `end`: what the handler did.
        self.word.load(Ordering::Acquire) & STEP == RUNNING
    }

    /// Whether an upcall has been posted, and no activation has begun it.
    pub fn is_posted(&self) -> bool {
        // Relaxed: a hint.
        self.word.load(Ordering::Relaxed) & STEP == POSTED
    }

    /// Whether a storm masks the vector.
    pub fn is_stormy(&self) -> bool {
        // Relaxed: for people.
        self.word.load(Ordering::Relaxed) & STORM != 0
    }
}

/// Arms the masked gate `new` if somebody wants interrupts, and nothing forbids them. Says what the
/// change from `old` obliges to.
fn settle(old: u32, new: u32) -> (u32, NextStep) {
    let wanted = new & ALWAYS != 0 || new >= ONE;
    let free = new & (STORM | CLOSED) == 0;
    match new & STEP {
        MASKED if wanted && free => (new | ARMED, NextStep::Arm),
        POSTED if old & STEP != POSTED => (new, NextStep::Post),
        _ => (new, NextStep::Nothing),
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn interrupts_that_nobody_wants_stay_masked() {
        let gate = VectorGate::new(false);
        assert_eq!(gate.open(), NextStep::Nothing);
        assert!(!gate.post() && !gate.begin());
        assert_eq!(gate.want(), NextStep::Arm);
        assert_eq!(gate.want(), NextStep::Nothing, "it is armed already");
        assert!(gate.post() && !gate.post() && gate.is_posted());
        assert!(gate.begin() && !gate.begin() && gate.is_running());
        assert_eq!(gate.end(), NextStep::Arm, "two threads wait");
        gate.unwant();
        gate.unwant();
        assert!(gate.post() && gate.begin());
        assert_eq!(gate.end(), NextStep::Nothing, "nobody waits");
    }

    #[test]
    fn a_handler_that_always_wants_them_is_armed_after_each() {
        let gate = VectorGate::new(true);
        assert_eq!(gate.open(), NextStep::Arm);
        for _ in 0..3 {
            assert!(gate.post() && gate.begin());
            assert_eq!(gate.end(), NextStep::Arm);
        }
    }

    #[test]
    fn a_storm_masks_until_it_is_calm() {
        let gate = VectorGate::new(true);
        assert_eq!(gate.open(), NextStep::Arm);
        assert!(gate.post() && gate.begin());
        gate.storm();
        assert_eq!(gate.end(), NextStep::Nothing);
        assert!(gate.is_stormy() && !gate.post());
        assert_eq!(gate.want(), NextStep::Nothing);
        assert_eq!(gate.calm(), NextStep::Arm);
        assert!(!gate.is_stormy() && gate.post());
    }

    #[test]
    fn a_forced_upcall_is_not_lost_in_the_one_that_runs() {
        let gate = VectorGate::new(false);
        assert_eq!(gate.force(), NextStep::Post);
        assert_eq!(gate.force(), NextStep::Nothing, "it is posted already");
        assert!(gate.begin());
        assert_eq!(gate.force(), NextStep::Nothing);
        assert_eq!(gate.end(), NextStep::Post);
        assert!(gate.begin());
        assert_eq!(gate.end(), NextStep::Nothing);
    }

    #[test]
    fn a_report_that_comes_while_the_handler_runs_is_not_lost() {
        let gate = VectorGate::new(true);
        assert_eq!(gate.open(), NextStep::Arm);
        assert!(gate.post() && gate.begin() && !gate.post());
        assert_eq!(gate.end(), NextStep::Post);
        assert!(gate.begin());
        assert_eq!(gate.end(), NextStep::Arm);
    }

    #[test]
    fn nothing_begins_once_it_is_closed() {
        let gate = VectorGate::new(true);
        assert_eq!(gate.open(), NextStep::Arm);
        assert!(gate.post());
        assert!(!gate.close(), "nothing runs");
        assert!(!gate.begin() && !gate.post());
        assert_eq!(gate.force(), NextStep::Nothing);
        let gate = VectorGate::new(true);
        assert_eq!(gate.open(), NextStep::Arm);
        assert!(gate.post() && gate.begin() && gate.close());
        assert_eq!(gate.end(), NextStep::Nothing);
        assert!(!gate.is_running());
    }
}
