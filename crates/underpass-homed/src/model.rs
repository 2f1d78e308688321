//! What the models of this crate use: an object of two words, a request area, a section, and a
//! lock with permits.

use crate::invoke::layout::{REQUESTS, WORDS};
use crate::invoke::requests::{
    InvocationEnd, LastReceived, Requests, TakenRequest, complete, offer, receive,
};
use crate::invoke::section::InterruptSection;
use crate::layout::words_of;
use crate::lock::hybrid_word::{FoundData, HOME, HybridLook, HybridWord, LeftData};
use crate::lock::layout::{LOCK, PERMITS, words_of as words_of_locked};
use crate::lock::permit_words::{free_permits_of, give_permit_back, take_permit};
use crate::versions::{copy_once, end, has_ended, publish};
use crate::words::{ModelWords, Words};
use std::mem::MaybeUninit;
use std::sync::Arc;
use underpass_seam::spin_hint;

const BYTES: usize = 16;

/// An object whose two words are equal in every version. A clone is the same object.
#[derive(Clone, Debug)]
pub struct ModelObject(ModelWords);

/// A version that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelCopy {
    /// Its number.
    pub version: u64,
    /// When it was published.
    pub published_ns: u64,
    /// Its value.
    pub words: [u64; 2],
}

impl ModelObject {
    /// An object with its first version, 1.
    pub fn new() -> Self {
        let object = Self(ModelWords::new(words_of(BYTES)));
        object.publish(1);
        object
    }

    /// Publishes `version`, at the time and with words that follow from it.
    pub fn publish(&self, version: u64) {
        let bytes: Vec<u8> = [version * 10; 2].iter().flat_map(|word| word.to_ne_bytes()).collect();
        publish(&self.0, version, version * 100, &bytes);
    }

    /// Copies the newest version once.
    pub fn copy(&self) -> Option<ModelCopy> {
        let mut place = [MaybeUninit::uninit(); BYTES];
        let (stamped, bytes) = copy_once(&self.0, &mut place)?;
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let words = [word(0), word(8)];
        Some(ModelCopy { version: stamped.version, published_ns: stamped.published_ns, words })
    }

    /// Says that no version follows.
    pub fn end(&self) {
        end(&self.0);
    }

    /// Whether none follows.
    pub fn has_ended(&self) -> bool {
        has_ended(&self.0)
    }
}

/// A request area, with the requester's private side. A clone is the same area.
#[derive(Clone, Debug)]
pub struct ModelArea(ModelWords, Arc<Requests>);

impl ModelArea {
    /// An area whose requests are free.
    pub fn new() -> Self {
        Self(ModelWords::new(WORDS), Arc::new(Requests::new()))
    }

    /// Posts an operation, and offers it. `None` if no request is free; if one was forgotten, it is
    /// offered again.
    pub fn post(&self, operation: u64) -> Option<ModelRequest> {
        match self.1.post(&self.0, operation, &[operation + 1; 6]) {
            Ok(request) => {
                offer(&self.0, request.index);
                Some(ModelRequest { request, operation })
            }
            Err(forgotten) => {
                forgotten.into_iter().for_each(|index| offer(&self.0, index));
                None
            }
        }
    }

    /// Whether it is completed. Its results are then whole.
    pub fn is_completed(&self, posted: &ModelRequest) -> bool {
        match posted.request.completion(&self.0) {
            None => false,
            Some(completion) => {
                assert_eq!(completion, InvocationEnd::Done([posted.operation + 2; 6]));
                true
            }
        }
    }

    /// Offers it again, if another offer has overwritten it.
    pub fn offer_again(&self, posted: &ModelRequest) {
        if posted.request.is_overwritten(&self.0) {
            offer(&self.0, posted.request.index);
        }
    }

    /// Its results were copied.
    pub fn give_back(&self, posted: ModelRequest) {
        self.1.give_back(posted.request);
    }

    /// Nobody waits for it any more.
    pub fn abandon(&self, posted: ModelRequest) {
        self.1.abandon(posted.request);
    }
}

/// A request that was posted.
#[derive(Debug)]
pub struct ModelRequest {
    request: TakenRequest,
    operation: u64,
}

/// The home of an area.
#[derive(Debug)]
pub struct ModelHome {
    words: ModelWords,
    last: LastReceived,
}

impl ModelHome {
    /// Of `area`.
    pub fn of(area: &ModelArea) -> Self {
        Self { words: area.0.clone(), last: [0; REQUESTS] }
    }

    /// Serves one interrupt. Returns the operation that it has executed, if any.
    pub fn interrupt(&mut self) -> Option<u64> {
        let received = receive(&self.words, &mut self.last)?;
        assert_eq!(received.arguments, [received.operation + 1; 6], "the arguments are whole");
        complete(&self.words, &received, InvocationEnd::Done([received.operation + 2; 6]));
        Some(received.operation)
    }
}

/// A home's section.
#[derive(Debug)]
pub struct ModelSection(InterruptSection);

impl ModelSection {
    /// Without maskings.
    pub fn new() -> Self {
        Self(InterruptSection::new())
    }

    /// An interrupt.
    pub fn arrive(&self, serve_one: impl FnMut() -> bool) {
        self.0.arrive(serve_one);
    }

    /// B1 or B2 of an interrupt that is held: whether its handler may run now.
    pub fn begin(&self) -> bool {
        self.0.begin()
    }

    /// B4: whether to wake those that are held.
    pub fn finish(&self) -> bool {
        self.0.finish()
    }

    /// Whether one is held.
    pub fn holds_back(&self) -> bool {
        self.0.holds_back()
    }

    /// Begins a critical section.
    pub fn mask(&self) {
        self.0.mask();
        while self.0.is_running() {
            spin_hint();
        }
    }

    /// Ends it. Returns whether to re-raise.
    pub fn unmask(&self) -> bool {
        self.0.unmask()
    }
}

/// A hybrid lock, and a semaphore of two permits. A clone is the same one.
#[derive(Clone, Debug)]
pub struct ModelLock(ModelWords);

impl ModelLock {
    /// Nobody has it.
    pub fn new() -> Self {
        Self(ModelWords::new(words_of_locked(PERMITS * 8)))
    }

    fn word(&self) -> HybridWord<'_> {
        HybridWord(self.0.word(LOCK))
    }

    fn got(look: HybridLook) -> Option<bool> {
        match look {
            HybridLook::Got(found) => Some(found == FoundData::Broken),
            HybridLook::Busy => None,
            HybridLook::Poisoned => panic!("no model gives data up"),
        }
    }

    /// R1 of remote `me`. If it has the lock: whether the data are broken.
    pub fn try_remote(&self, me: u32) -> Option<bool> {
        Self::got(self.word().try_remote(me))
    }

    /// L2.
    pub fn try_home(&self) -> Option<bool> {
        Self::got(self.word().try_home(false))
    }

    /// L3.
    pub fn urge(&self) {
        assert!(self.word().urge());
    }

    /// L4, of a thread that has urged, again and again.
    pub fn lock_urgently(&self) -> bool {
        loop {
            if let Some(broken) = Self::got(self.word().try_home(true)) {
                return broken;
            }
            loom::thread::yield_now();
        }
    }

    /// L6.
    pub fn calm(&self) {
        self.word().calm();
    }

    /// U1 of remote `me`.
    pub fn release_remote(&self, me: u32) {
        self.word().release(me, LeftData::Whole);
    }

    /// U1 of the home.
    pub fn release_home(&self) {
        self.word().release(HOME, LeftData::Whole);
    }

    /// D1 and D2: remote `dead` has died.
    pub fn bury(&self, dead: u32) {
        self.word().free_from(dead);
        free_permits_of(&self.0, PERMITS, dead);
    }

    /// Takes a permit for `me`.
    pub fn take_permit(&self, me: u32) -> Option<usize> {
        take_permit(&self.0, PERMITS, me)
    }

    /// Gives it back.
    pub fn give_permit_back(&self, permit: usize, me: u32) {
        give_permit_back(&self.0, permit, me);
    }
}
