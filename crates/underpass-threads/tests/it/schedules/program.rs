//! A random program, and its result.

use std::sync::Arc;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }
}

/// The kind of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Named,
    Stack(usize),
    Migrating,
    Dedicated,
    /// A plain kernel thread.
    Kernel,
}

/// What becomes of a thread that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    JoinedAtOnce,
    JoinedLast,
    /// Joined by the next thread that its parent starts in this way, or by its parent at the end.
    JoinedBySibling,
    /// Its result goes to the stage.
    Detached,
}

/// How a thread waits for its cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    Parked,
    ParkedForLong,
    Asleep,
    Yielding,
}

/// One step of a thread.
#[derive(Debug)]
pub enum Step {
    Add(u64),
    Yield,
    Checkpoint,
    Sleep {
        micros: u64,
    },
    Start {
        child: Arc<Program>,
        fate: Fate,
    },
    Scope {
        children: Vec<Program>,
    },
    /// Another thread unparks it this many times, each time for a reason.
    Handshake {
        rounds: u64,
        timed: bool,
        kind: Kind,
    },
    /// Another thread waits until it is cancelled.
    Cancel {
        waiting: Waiting,
        kind: Kind,
        after: u64,
    },
    Block {
        value: u64,
        micros: u64,
    },
    /// A section without preemption, which yields all the same.
    Unpreempted {
        yields: u64,
    },
    /// A panic of its own, which is caught. Its destructors yield.
    Catch {
        value: u64,
    },
    /// Takes a lock that all threads share, and may yield while it holds it.
    Lock {
        rounds: u64,
    },
    /// Another thread sends it this many messages.
    Receive {
        messages: u64,
        capacity: usize,
        kind: Kind,
    },
    /// Waits that only their deadlines end.
    Late {
        micros: u64,
    },
}

/// What one thread does.
#[derive(Debug)]
pub struct Program {
    pub kind: Kind,
    pub seed: u64,
    pub steps: Vec<Step>,
    /// It panics at the end, with its result.
    pub panics: bool,
}

/// How a result is mixed into another.
pub fn mix(into: u64, value: u64) -> u64 {
    into.rotate_left(7).wrapping_mul(31).wrapping_add(value)
}

/// Most threads of a program.
const THREADS: u64 = 60;

impl Program {
    pub fn of_seed(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mut left = 10 + dice.below(THREADS - 10);
        Self::make(&mut dice, 0, &mut left)
    }

    fn make(dice: &mut Dice, depth: u32, left: &mut u64) -> Self {
        *left = left.saturating_sub(1);
        let steps = (0..2 + dice.below(9)).map(|_| Step::make(dice, depth, left)).collect();
        let kind = if depth == 0 { Kind::Plain } else { Kind::make(dice) };
        Self { kind, seed: dice.next(), steps, panics: depth > 0 && dice.below(12) == 0 }
    }

    /// Its result.
    pub fn result(&self) -> u64 {
        self.steps.iter().fold(self.seed, |sum, step| match step {
            Step::Add(value) | Step::Block { value, .. } | Step::Catch { value } => mix(sum, *value),
            Step::Start { fate: Fate::Detached, .. } => sum,
            // Sums are commutative, so it doesn't matter which thread joins them, and when.
            Step::Start { child, fate: Fate::JoinedAtOnce } => mix(sum, child.result()),
            Step::Start { .. } => sum,
            Step::Scope { children } => {
                mix(sum, children.iter().fold(0, |all, child| all.wrapping_add(child.result())))
            }
            Step::Handshake { rounds, .. } => mix(sum, *rounds),
            Step::Cancel { after, .. } => mix(sum, *after),
            Step::Receive { messages, .. } => mix(sum, messages * (messages + 1) / 2),
            Step::Lock { .. } | Step::Late { .. } => sum,
            Step::Yield | Step::Checkpoint | Step::Sleep { .. } | Step::Unpreempted { .. } => sum,
        }) ^ self.joined_late()
    }

    /// The sum of the results of the threads that are joined last, or by a sibling.
    fn joined_late(&self) -> u64 {
        self.children(|fate| matches!(fate, Fate::JoinedLast | Fate::JoinedBySibling))
            .fold(0, |all, child| all.wrapping_add(child.result()))
    }

    fn children(&self, which: impl Fn(Fate) -> bool) -> impl Iterator<Item = &Program> {
        self.steps.iter().filter_map(move |step| match step {
            Step::Start { child, fate } if which(*fate) => Some(&**child),
            _ => None,
        })
    }

    /// How many threads are detached, and the sum of their results.
    pub fn detached(&self) -> (u64, u64) {
        let mut all = (0, 0u64);
        let mut add = |(count, sum): (u64, u64)| all = (all.0 + count, all.1.wrapping_add(sum));
        for step in &self.steps {
            match step {
                Step::Start { child, fate } => {
                    if *fate == Fate::Detached {
                        add((1, child.result()));
                    }
                    add(child.detached());
                }
                Step::Scope { children } => children.iter().for_each(|child| add(child.detached())),
                _ => {}
            }
        }
        all
    }

    /// How often the lock that all share is taken.
    pub fn locks(&self) -> u64 {
        let of = |step: &Step| match step {
            Step::Start { child, .. } => child.locks(),
            Step::Scope { children } => children.iter().map(Program::locks).sum(),
            Step::Lock { rounds } => *rounds,
            _ => 0,
        };
        self.steps.iter().map(of).sum()
    }

    pub fn threads(&self) -> u64 {
        let of = |step: &Step| match step {
            Step::Start { child, .. } => child.threads(),
            Step::Scope { children } => children.iter().map(Program::threads).sum(),
            Step::Handshake { .. } | Step::Cancel { .. } | Step::Receive { .. } => 1,
            _ => 0,
        };
        1 + self.steps.iter().map(of).sum::<u64>()
    }
}

impl Kind {
    fn make(dice: &mut Dice) -> Self {
        match dice.below(12) {
            0 => Self::Kernel,
            1 => Self::Named,
            2 => Self::Stack((32 * 1024) << dice.below(6)),
            3..6 => Self::Migrating,
            6 => Self::Dedicated,
            _ => Self::Plain,
        }
    }
}

impl Step {
    fn make(dice: &mut Dice, depth: u32, left: &mut u64) -> Self {
        let starts = *left > 0 && depth < 5;
        match dice.below(if starts { 24 } else { 12 }) {
            0..2 => Self::Add(dice.next()),
            2 => Self::Yield,
            3 => Self::Checkpoint,
            4 => Self::Sleep { micros: dice.below(100) },
            5..7 => Self::Block { value: dice.next(), micros: dice.below(80) },
            7 => Self::Unpreempted { yields: dice.below(4) },
            8 => Self::Catch { value: dice.next() },
            9..11 => Self::Lock { rounds: 1 + dice.below(6) },
            11 => Self::Late { micros: dice.below(40) },
            12..17 => {
                let fate = match dice.below(6) {
                    0..2 => Fate::JoinedAtOnce,
                    2..4 => Fate::JoinedLast,
                    4 => Fate::JoinedBySibling,
                    _ => Fate::Detached,
                };
                let mut child = Program::make(dice, depth + 1, left);
                child.panics &= fate != Fate::Detached;
                Self::Start { child: Arc::new(child), fate }
            }
            17..19 => {
                let mut children: Vec<_> =
                    (0..1 + dice.below(4)).map(|_| Program::make(dice, depth + 1, left)).collect();
                // A scope starts user-level threads, and panics with those that do.
                children.iter_mut().for_each(|child| child.panics = false);
                children.iter_mut().filter(|c| c.kind == Kind::Kernel).for_each(|c| c.kind = Kind::Plain);
                Self::Scope { children }
            }
            19..21 => {
                *left = left.saturating_sub(1);
                Self::Handshake {
                    rounds: 1 + dice.below(20),
                    timed: dice.below(3) == 0,
                    kind: Kind::make(dice),
                }
            }
            21 => {
                *left = left.saturating_sub(1);
                let (messages, capacity) = (1 + dice.below(12), dice.below(4) as usize);
                Self::Receive { messages, capacity, kind: Kind::make(dice) }
            }
            _ => {
                *left = left.saturating_sub(1);
                let waiting = match dice.below(4) {
                    0 => Waiting::Parked,
                    1 => Waiting::ParkedForLong,
                    2 => Waiting::Asleep,
                    _ => Waiting::Yielding,
                };
                Self::Cancel { waiting, kind: Kind::make(dice), after: dice.below(6) }
            }
        }
    }
}
