//! Entry points for the fuzz targets in `fuzz/`, which are built with `--cfg fuzzing`. They are no
//! part of the library.
//!
//! Each type here is one memory and both of its sides. The fuzzer also writes words of the memory,
//! as a side that follows no rule does.

use crate::invoke::layout::{REQUESTS, WORDS};
use crate::invoke::requests::{
    InvocationEnd, LastReceived, Operands, Requests, TakenRequest, complete, offer, receive,
};
use crate::layout::words_of;
use crate::lock::hybrid_word::{FoundData, HOME, HybridLook, HybridWord, LeftData};
use crate::lock::layout::{LOCK, PERMITS, words_of as words_of_locked};
use crate::lock::permit_words::{free_permits, free_permits_of, give_permit_back, take_permit};
use crate::versions::{copy_once, end, has_ended, publish};
use crate::words::{ModelWords, Words};
use underpass_seam::atomic::Ordering;
use underpass_shared::{bytes_of, value_from};

fn lie(words: &ModelWords, which: u16, value: u64) {
    // Relaxed: the honest side must cope with any order.
    words.word(usize::from(which) % words.len()).store(value, Ordering::Relaxed);
}

/// What the versions of a [`FuzzObject`] are.
pub type FuzzValue = [bool; 16];

/// An object: its home, and a reader.
#[derive(Debug)]
pub struct FuzzObject(ModelWords);

impl FuzzObject {
    /// Without a version.
    pub fn new() -> Self {
        Self(ModelWords::new(words_of(size_of::<FuzzValue>())))
    }

    /// Publishes a version.
    pub fn publish(&self, version: u64, published_ns: u64, value: FuzzValue) {
        publish(&self.0, version, published_ns, bytes_of(&value));
    }

    /// Copies the newest version once: its number, its time, and its value if the bytes are one.
    pub fn copy(&self) -> Option<(u64, u64, Option<FuzzValue>)> {
        let mut copied = None;
        let value = value_from::<FuzzValue, ()>(|place| {
            let (of, bytes) = copy_once(&self.0, place).ok_or(())?;
            copied = Some(of);
            Ok(bytes)
        });
        copied.map(|of| (of.version, of.published_ns, value.unwrap_or_default()))
    }

    /// Says that no version follows.
    pub fn end(&self) {
        end(&self.0);
    }

    /// Whether none follows.
    pub fn has_ended(&self) -> bool {
        has_ended(&self.0)
    }

    /// Writes a word.
    pub fn lie(&self, which: u16, value: u64) {
        lie(&self.0, which, value);
    }
}

/// A request area: its requester, and its home.
#[derive(Debug)]
pub struct FuzzRequests {
    words: ModelWords,
    requests: Requests,
    last: LastReceived,
}

/// A request that was posted.
#[derive(Debug)]
pub struct FuzzRequest(TakenRequest);

impl FuzzRequests {
    /// An area whose requests are free.
    pub fn new() -> Self {
        Self { words: ModelWords::new(WORDS), requests: Requests::new(), last: [0; REQUESTS] }
    }

    /// Posts an operation. If none is free, a forgotten one is offered again.
    pub fn post(&self, operation: u64, arguments: Operands) -> Option<FuzzRequest> {
        match self.requests.post(&self.words, operation, &arguments) {
            Ok(request) => {
                offer(&self.words, request.index);
                Some(FuzzRequest(request))
            }
            Err(forgotten) => {
                forgotten.into_iter().for_each(|index| offer(&self.words, index));
                None
            }
        }
    }

    /// Offers it again, if another offer has overwritten it.
    pub fn offer_again(&self, request: &FuzzRequest) {
        if request.0.is_overwritten(&self.words) {
            offer(&self.words, request.0.index);
        }
    }

    /// How it has ended, if it has. `Ok(None)`: without results.
    pub fn completion(&self, request: &FuzzRequest) -> Option<Option<Operands>> {
        request.0.completion(&self.words).map(|end| match end {
            InvocationEnd::Done(results) => Some(results),
            InvocationEnd::NoSuchOperation | InvocationEnd::Panicked => None,
        })
    }

    /// Its results were copied.
    pub fn give_back(&self, request: FuzzRequest) {
        self.requests.give_back(request.0);
    }

    /// Nobody waits for it any more.
    pub fn abandon(&self, request: FuzzRequest) {
        self.requests.abandon(request.0);
    }

    /// Serves one interrupt: `handle` gets the operation and the arguments, and returns results
    /// unless it panics. Returns whether there was a request.
    pub fn interrupt(&mut self, handle: impl FnOnce(u64, Operands) -> Option<Operands>) -> bool {
        let Some(received) = receive(&self.words, &mut self.last) else { return false };
        let results = handle(received.operation, received.arguments);
        complete(&self.words, &received, results.map_or(InvocationEnd::Panicked, InvocationEnd::Done));
        true
    }

    /// Writes a word.
    pub fn lie(&self, which: u16, value: u64) {
        lie(&self.words, which, value);
    }
}

/// A hybrid lock, and a semaphore of as many permits as one can have.
#[derive(Debug)]
pub struct FuzzLock(ModelWords);

/// What came of a look at a [`FuzzLock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuzzLook {
    /// The lock is taken. The data are broken, or not.
    Got {
        /// Whether the last owner died.
        broken: bool,
    },
    /// Another one has it, or the home urgently needs it.
    Busy,
    /// The data were given up.
    Poisoned,
}

impl From<HybridLook> for FuzzLook {
    fn from(look: HybridLook) -> Self {
        match look {
            HybridLook::Got(found) => Self::Got { broken: found == FoundData::Broken },
            HybridLook::Busy => Self::Busy,
            HybridLook::Poisoned => Self::Poisoned,
        }
    }
}

impl FuzzLock {
    /// The home's number.
    pub const HOME: u32 = HOME;
    /// How many permits there are.
    pub const PERMITS: usize = PERMITS;

    /// Nobody has it.
    pub fn new() -> Self {
        Self(ModelWords::new(words_of_locked(PERMITS * 8)))
    }

    fn word(&self) -> HybridWord<'_> {
        HybridWord(self.0.word(LOCK))
    }

    /// One look of a remote, or of the home if `me` is its number.
    pub fn look(&self, me: u32, urgent: bool) -> FuzzLook {
        match me {
            HOME => self.word().try_home(urgent).into(),
            _ => self.word().try_remote(me).into(),
        }
    }

    /// The home urgently needs it. Returns whether that is counted.
    pub fn urge(&self) -> bool {
        self.word().urge()
    }

    /// It does not any more.
    pub fn calm(&self) {
        self.word().calm();
    }

    /// Releases the lock.
    pub fn release(&self, me: u32, broken: bool, poisoned: bool) {
        let left = match (broken, poisoned) {
            (_, true) => LeftData::Poisoned,
            (true, _) => LeftData::Broken,
            _ => LeftData::Whole,
        };
        self.word().release(me, left);
    }

    /// A remote has died.
    pub fn bury(&self, dead: u32) {
        self.word().free_from(dead);
        free_permits_of(&self.0, PERMITS, dead);
    }

    /// Takes a permit.
    pub fn take_permit(&self, me: u32) -> Option<usize> {
        take_permit(&self.0, PERMITS, me)
    }

    /// Gives it back.
    pub fn give_permit_back(&self, permit: usize, me: u32) {
        give_permit_back(&self.0, permit, me);
    }

    /// How many are free.
    pub fn free_permits(&self) -> usize {
        free_permits(&self.0, PERMITS)
    }

    /// Writes a word.
    pub fn lie(&self, which: u16, value: u64) {
        lie(&self.0, which, value);
    }
}
