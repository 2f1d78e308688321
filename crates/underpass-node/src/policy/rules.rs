//! The numbers of the policy, and those of a domain.

const MS: u64 = 1_000_000;

/// The numbers of the policy. All times are in ns. The documentation of each names the default.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A domain keeps a processor for so long before it goes to another domain in turn. 10 ms.
    pub slice: u64,
    /// The most service that a domain can have saved up while it wanted less than its share. 20 ms.
    pub credit: u64,
    /// The most service that a domain can owe for each processor of its share. At least one slice,
    /// and 40 ms by default.
    pub debt: u64,
    /// A domain that runs wants more only if a thread has been ready for so long. 0.1 ms.
    pub patience: u64,
    /// A victim has so long to give way. 5 ms.
    pub grace: u64,
    /// After so many faults in a row a domain gets the least. 3.
    pub strikes: u32,
    /// For so long a domain that got the least must obey before it has its weight again. The time
    /// doubles with each relapse, up to 64 times. 1 s at first.
    pub term: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            slice: 10 * MS,
            credit: 20 * MS,
            debt: 40 * MS,
            patience: MS / 10,
            grace: 5 * MS,
            strikes: 3,
            term: 1000 * MS,
        }
    }
}

/// What a domain may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Its share, in relation to that of others: 1 to 1,000.
    pub weight: u16,
    /// So many processors it gets at once when it wants them. All minimums together are at most
    /// the processors but one; what is more is not given.
    pub minimum: u32,
    /// The most processors that it can use.
    pub maximum: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self { weight: 1, minimum: 0, maximum: u32::MAX }
    }
}

/// The largest weight.
pub(super) const MOST_WEIGHT: u16 = 1000;

/// The parts of a weight of 1. A domain that gets the least has one of them.
pub(super) const PARTS: u64 = 64;
