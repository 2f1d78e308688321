//! Requests on their way: the steps Q1 to Q6 and H1 to H5 of `README.md`. Nothing here waits.

use crate::invoke::layout::{
    ARGUMENTS, COMPLETED, NUMBER, OPERANDS, OPERATION, RECEIVED, REQUESTS, RESERVED, RESULTS, request,
};
use crate::words::Words;
use underpass_seam::atomic::{AtomicU8, AtomicU64, Ordering};

/// Arguments or results.
pub(crate) type Operands = [u64; OPERANDS];

/// How a request has ended, as the home says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvocationEnd {
    Done(Operands),
    NoSuchOperation,
    Panicked,
}

const DONE: u64 = 0;
const NO_SUCH_OPERATION: u64 = 1;
/// Bits of a completion beside the number.
const STATUS: u64 = 0b11;

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const ABANDONED: u8 = 2;

/// The requester's private side of an area.
///
/// | field | written by |
/// |---|---|
/// | `states` | whichever thread takes the request, gives it back or abandons it, by exchange |
/// | `numbers` | the thread that has taken the request |
#[derive(Debug)]
pub(crate) struct Requests {
    states: [AtomicU8; REQUESTS],
    numbers: [AtomicU64; REQUESTS],
}

/// A request that a thread has taken, with its present number.
#[derive(Debug)]
pub(crate) struct TakenRequest {
    pub(crate) index: usize,
    number: u64,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self {
            states: std::array::from_fn(|_| AtomicU8::new(FREE)),
            numbers: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Q1 and Q2. If no request is free, the error is an abandoned one that the home has not
    /// received, if there is any: to be offered again.
    pub(crate) fn post(
        &self,
        words: &impl Words,
        operation: u64,
        arguments: &Operands,
    ) -> Result<TakenRequest, Option<usize>> {
        let index = self.take(words)?;
        let at = request(index);
        // Relaxed: only the thread that has taken the request writes it.
        let number = self.numbers[index].load(Ordering::Relaxed) + 1;
        self.numbers[index].store(number, Ordering::Relaxed);
        // Relaxed: the number orders them.
        words.word(at + OPERATION).store(operation, Ordering::Relaxed);
        for (word, argument) in arguments.iter().enumerate() {
            words.word(at + ARGUMENTS + word).store(*argument, Ordering::Relaxed);
        }
        // SYNC with `NUMBER` load in `receive`: operation and arguments.
        words.word(at + NUMBER).store(number, Ordering::Release);
        Ok(TakenRequest { index, number })
    }

    fn take(&self, words: &impl Words) -> Result<usize, Option<usize>> {
        let exchange = |index: usize, from| {
            // Acquire: SYNC with the stores of `give_back` and `abandon`: the number.
            self.states[index].compare_exchange(from, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if let Some(index) = (0..REQUESTS).find(|&index| exchange(index, FREE)) {
            return Ok(index);
        }
        let mut forgotten = None;
        for index in (0..REQUESTS).filter(|&index| exchange(index, ABANDONED)) {
            let number = self.numbers[index].load(Ordering::Relaxed);
            let abandoned = TakenRequest { index, number };
            if abandoned.completion(words).is_some() {
                return Ok(index);
            }
            if !abandoned.is_received(words) {
                forgotten = Some(index);
            }
            self.abandon(abandoned);
        }
        Err(forgotten)
    }

    /// The request is completed, and its results are copied.
    pub(crate) fn give_back(&self, request: TakenRequest) {
        // SYNC with the exchange in `take`: the number.
        self.states[request.index].store(FREE, Ordering::Release);
    }

    /// Nobody waits for the request any more.
    pub(crate) fn abandon(&self, request: TakenRequest) {
        // SYNC with the exchange in `take`: the number.
        self.states[request.index].store(ABANDONED, Ordering::Release);
    }
}

/// Q3, without the ring.
pub(crate) fn offer(words: &impl Words, index: usize) {
    // SYNC with `RESERVED` load in `receive`: the request.
    words.word(RESERVED).store(index as u64 + 1, Ordering::Release);
}

impl TakenRequest {
    /// Q4: whether the request has to be offered again.
    pub(crate) fn is_overwritten(&self, words: &impl Words) -> bool {
        // Relaxed: to offer it once too often costs time alone.
        words.word(RESERVED).load(Ordering::Relaxed) != self.index as u64 + 1 && !self.is_received(words)
    }

    fn is_received(&self, words: &impl Words) -> bool {
        // Relaxed: as above.
        words.word(request(self.index) + RECEIVED).load(Ordering::Relaxed) == self.number
    }

    /// Q5 and the first half of Q6: how it has ended, if it has.
    #[inline]
    pub(crate) fn completion(&self, words: &impl Words) -> Option<InvocationEnd> {
        let at = request(self.index);
        // SYNC with `COMPLETED` store in `complete`: the results, and that the arguments were read.
        let completed = words.word(at + COMPLETED).load(Ordering::Acquire);
        if completed >> 2 != self.number {
            return None;
        }
        Some(match completed & STATUS {
            // Relaxed: as above.
            DONE => InvocationEnd::Done(std::array::from_fn(|word| {
                words.word(at + RESULTS + word).load(Ordering::Relaxed)
            })),
            NO_SUCH_OPERATION => InvocationEnd::NoSuchOperation,
            _ => InvocationEnd::Panicked,
        })
    }
}

/// The numbers that a home has received last, one for each request of an area.
pub(crate) type LastReceived = [u64; REQUESTS];

/// A request that a home has copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedRequest {
    index: usize,
    number: u64,
    pub(crate) operation: u64,
    pub(crate) arguments: Operands,
}

/// H1 to H3. The requester may be hostile: the request can be anything.
pub(crate) fn receive(words: &impl Words, last: &mut LastReceived) -> Option<ReceivedRequest> {
    // SYNC with the store in `offer`: the request.
    let offered = words.word(RESERVED).load(Ordering::Acquire);
    let index = usize::try_from(offered).ok()?.checked_sub(1).filter(|&index| index < REQUESTS)?;
    let at = request(index);
    // SYNC with `NUMBER` store in `post`: operation and arguments.
    let number = words.word(at + NUMBER).load(Ordering::Acquire);
    if number == last[index] {
        return None;
    }
    last[index] = number;
    // Relaxed: as above.
    let operation = words.word(at + OPERATION).load(Ordering::Relaxed);
    let arguments = std::array::from_fn(|word| words.word(at + ARGUMENTS + word).load(Ordering::Relaxed));
    // Relaxed: it tells the requester not to offer again, and orders nothing.
    words.word(at + RECEIVED).store(number, Ordering::Relaxed);
    Some(ReceivedRequest { index, number, operation, arguments })
}

/// H5.
pub(crate) fn complete(words: &impl Words, received: &ReceivedRequest, completion: InvocationEnd) {
    let at = request(received.index);
    let (status, results) = match completion {
        InvocationEnd::Done(results) => (DONE, Some(results)),
        InvocationEnd::NoSuchOperation => (NO_SUCH_OPERATION, None),
        InvocationEnd::Panicked => (STATUS, None),
    };
    for (word, result) in results.iter().flatten().enumerate() {
        // Relaxed: `COMPLETED` orders them.
        words.word(at + RESULTS + word).store(*result, Ordering::Relaxed);
    }
    // SYNC with `COMPLETED` load in `completion`: the results, and that the arguments were read.
    words.word(at + COMPLETED).store(received.number << 2 | status, Ordering::Release);
}
