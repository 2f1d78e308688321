//! The home's side of a locked object: its memory, its remotes and their ends.

use crate::lock::hybrid_word::{HOME, HybridWord};
use crate::lock::join::{JoinObjectError, JoinedObject, ObjectJoin};
use crate::lock::layout::{LAYOUT, LOCK, SHAPE, VERSION};
use crate::lock::permit_words::free_permits_of;
use crate::words::{AreaWords, Words};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use underpass_rpc::{CallError, Service, caller};
use underpass_sync::{Mutex, MutexGuard, PoisonError};

/// A locked object at home.
///
/// | field | written by |
/// |---|---|
/// | `words` | all sides: see `README.md` |
/// | `remotes` | joins and ends, under its lock |
pub(crate) struct LockedHome {
    pub(crate) words: AreaWords,
    pub(crate) permits: usize,
    shape: u64,
    file: OwnedFd,
    remotes: Mutex<Remotes>,
}

/// The remotes that have joined.
struct Remotes {
    /// The binding of each remote by its number. `None` within the home's own process.
    bindings: HashMap<u32, Option<u64>>,
    /// The number that was given last.
    newest: u32,
}

impl LockedHome {
    /// Fresh memory, all of it 0, and the service by which others join.
    pub(crate) fn serve(words: usize, shape: u64, permits: usize) -> io::Result<(Service, Arc<Self>)> {
        let (words, file) = AreaWords::create("underpass-locked", words)?;
        // Relaxed: nobody else has the memory yet.
        words.word(LAYOUT).store(VERSION, Ordering::Relaxed);
        words.word(SHAPE).store(shape, Ordering::Relaxed);
        let remotes = Mutex::new(Remotes { bindings: HashMap::new(), newest: HOME });
        let home = Arc::new(Self { words, permits, shape, file, remotes });
        let ends = home.clone();
        let service = ObjectJoin::serve(Joiner(home.clone()))
            .on_binding_end(move |binding| ends.end(|_, of| of == Some(binding.id())));
        Ok((service, home))
    }

    pub(crate) fn lock(&self) -> HybridWord<'_> {
        HybridWord(self.words.word(LOCK))
    }

    fn remotes(&self) -> MutexGuard<'_, Remotes> {
        self.remotes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, binding: Option<u64>) -> Option<u32> {
        let mut remotes = self.remotes();
        let mut all = remotes.bindings.iter();
        if let Some((number, _)) = all.find(|(_, of)| binding.is_some() && **of == binding) {
            return Some(*number);
        }
        remotes.newest = remotes.newest.checked_add(1)?;
        let number = remotes.newest;
        remotes.bindings.insert(number, binding);
        Some(number)
    }

    /// D1 and D2, for the remotes whose number and binding are `over`.
    fn end(&self, over: impl Fn(u32, Option<u64>) -> bool) {
        let mut ended = Vec::new();
        self.remotes().bindings.retain(|&number, binding| {
            let over = over(number, *binding);
            ended.extend(over.then_some(number));
            !over
        });
        for number in ended {
            self.lock().free_from(number);
            free_permits_of(&self.words, self.permits, number);
        }
    }
}

/// Lets others join.
struct Joiner(Arc<LockedHome>);

impl ObjectJoin for Joiner {
    fn join(&self, shape: u64) -> Result<JoinedObject, JoinObjectError> {
        if shape != self.0.shape {
            return Err(JoinObjectError::OtherType);
        }
        let memory = self.0.file.try_clone().map_err(|_| JoinObjectError::NoResources)?;
        let number = self.0.join(caller().map(|peer| peer.binding_id()));
        let number = number.ok_or(JoinObjectError::NoResources)?;
        Ok(JoinedObject { number, permits: self.0.permits as u32, memory })
    }

    fn leave(&self, number: u32) -> Result<(), CallError> {
        let binding = caller().map(|peer| peer.binding_id());
        self.0.end(|of, bound| of == number && bound == binding);
        Ok(())
    }
}
