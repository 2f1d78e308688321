//! The six operations of Table 1.

use crate::BenchError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a cache line.
pub(super) const LINE: usize = 8;
/// Elements that the queue holds.
const ELEMENTS: usize = 10;
/// Words of the queue: its ends, its elements, and a free one.
pub(super) const QUEUE: usize = (ELEMENTS + 2) * LINE;
/// Words of a part, and parts of the largest structure.
pub(super) const PART: usize = 6 * LINE;
pub(super) const PARTS: usize = 38;

/// An operation of Table 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelOperation {
    EnqueueDequeue,
    FindIn5,
    FindIn10,
    CreateSegment,
    MapSegment,
    CreateProcess,
}

pub(super) const OPERATIONS: [KernelOperation; 6] = [
    KernelOperation::EnqueueDequeue,
    KernelOperation::FindIn5,
    KernelOperation::FindIn10,
    KernelOperation::CreateSegment,
    KernelOperation::MapSegment,
    KernelOperation::CreateProcess,
];

/// Where the data lie, and how they are locked.
pub(super) trait KernelData {
    /// Works on the queue, under its lock if there is one.
    fn queue(&self, work: impl FnOnce(&[AtomicU64]) -> u64) -> Result<u64, BenchError>;

    /// The same on a part.
    fn part(&self, part: usize, work: impl FnOnce(&[AtomicU64]) -> u64) -> Result<u64, BenchError>;
}

impl KernelOperation {
    /// The one of that number.
    pub(super) fn of(number: u64) -> Option<Self> {
        OPERATIONS.get(usize::try_from(number).ok()?).copied()
    }

    pub(super) fn number(self) -> u64 {
        self as u64
    }

    /// Its locks.
    pub(super) fn locks(self) -> usize {
        match self {
            Self::EnqueueDequeue | Self::FindIn5 | Self::FindIn10 => 1,
            Self::CreateSegment => PARTS,
            Self::MapSegment | Self::CreateProcess => 9,
        }
    }

    /// Whether the paper invokes it at interrupt level.
    pub(super) fn is_short(self) -> bool {
        self.locks() == 1
    }

    /// Lines of each part.
    fn lines(self) -> usize {
        match self {
            Self::CreateSegment => 2,
            Self::MapSegment => 4,
            _ => 6,
        }
    }

    /// Executes it. The result depends on all that it has read.
    pub(super) fn run(self, data: &impl KernelData) -> Result<u64, BenchError> {
        match self {
            Self::EnqueueDequeue => data.queue(|words| {
                enqueue(words);
                dequeue(words)
            }),
            Self::FindIn5 => data.queue(|words| find(words, 5)),
            Self::FindIn10 => data.queue(|words| find(words, 10)),
            _ => (0..self.locks()).try_fold(0, |sum, part| {
                data.part(part, |words| write_lines(words, self.lines())).map(|read| sum ^ read)
            }),
        }
    }

    /// Writes all lines that it uses, so that they are in the cache of this processor.
    pub(super) fn touch(self, queue: &[AtomicU64], parts: &[&[AtomicU64]]) {
        let write = |words: &[AtomicU64], lines: usize| {
            for line in 0..lines {
                // The words behind those that mean something.
                store(words, line * LINE + LINE - 1, load(words, line * LINE + LINE - 1) + 1);
            }
        };
        match self.is_short() {
            true => write(queue, QUEUE / LINE),
            false => parts.iter().take(self.locks()).for_each(|part| write(part, self.lines())),
        }
    }
}

fn load(words: &[AtomicU64], at: usize) -> u64 {
    // Relaxed: the locks, or the calls, order it.
    words[at].load(Ordering::Relaxed)
}

fn store(words: &[AtomicU64], at: usize, value: u64) {
    words[at].store(value, Ordering::Relaxed);
}

/// Words of an element: the next one, the one before, and a value. Line 0 holds the first and the
/// last.
const NEXT: usize = 0;
const BEFORE: usize = 1;
const VALUE: usize = 2;

/// Makes a queue with all elements but the free one.
pub(super) fn fill(words: &[AtomicU64]) {
    for element in 1..=ELEMENTS {
        let at = element * LINE;
        store(words, at + NEXT, if element < ELEMENTS { element as u64 + 1 } else { 0 });
        store(words, at + BEFORE, element as u64 - 1);
        store(words, at + VALUE, element as u64);
    }
    store(words, NEXT, 1);
    store(words, BEFORE, ELEMENTS as u64);
}

/// Puts the free element behind the last.
fn enqueue(words: &[AtomicU64]) {
    let free = ELEMENTS as u64 + 1;
    let last = load(words, BEFORE);
    let at = free as usize * LINE;
    store(words, at + NEXT, 0);
    store(words, at + BEFORE, last);
    store(words, at + VALUE, free);
    store(words, last as usize * LINE + NEXT, free);
    store(words, BEFORE, free);
}

/// Takes the last element out.
fn dequeue(words: &[AtomicU64]) -> u64 {
    let last = load(words, BEFORE);
    let before = load(words, last as usize * LINE + BEFORE);
    store(words, before as usize * LINE + NEXT, 0);
    store(words, BEFORE, before);
    load(words, last as usize * LINE + VALUE)
}

/// Follows the list up to the element with that value.
fn find(words: &[AtomicU64], value: u64) -> u64 {
    let mut element = load(words, NEXT);
    while element != 0 && load(words, element as usize * LINE + VALUE) != value {
        element = load(words, element as usize * LINE + NEXT);
    }
    element
}

/// Reads and writes two words of each line.
fn write_lines(words: &[AtomicU64], lines: usize) -> u64 {
    (0..lines).fold(0, |sum, line| {
        let number = load(words, line * LINE) + 1;
        store(words, line * LINE, number);
        store(words, line * LINE + 1, number ^ line as u64);
        sum ^ number
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::psyche::kernel::PrivateData;

    #[test]
    fn operations_do_what_they_are_called() {
        let data = PrivateData::new();
        for operation in OPERATIONS {
            assert_eq!(KernelOperation::of(operation.number()), Some(operation));
            operation.run(&data).unwrap();
        }
        assert_eq!(KernelOperation::of(6), None);
        let queue = |work: fn(&[AtomicU64]) -> u64| data.queue(work).unwrap();
        assert_eq!(queue(|words| find(words, 5)), 5);
        assert_eq!(queue(|words| find(words, 10)), 10);
        assert_eq!(queue(|words| find(words, 11)), 0, "it was taken out");
        queue(|words| {
            enqueue(words);
            assert_eq!(find(words, 11), 11);
            dequeue(words)
        });
        assert_eq!(queue(|words| load(words, BEFORE)), 10);
        let parts: Vec<u64> =
            (0..PARTS).map(|part| data.part(part, |words| load(words, 0)).unwrap()).collect();
        let expected: Vec<u64> = (0..PARTS).map(|part| if part < 9 { 3 } else { 1 }).collect();
        assert_eq!(parts, expected);
    }
}
