//! An interface that gives out ids. An id is valid in one server only.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use underpass::{CallError, thread};

/// The id of an object of a [`Store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub struct DbId(pub u64);

/// The interface that the restart tests call. Each of its objects belongs to one owner.
#[underpass::interface]
pub trait Store {
    /// Opens a new object. Ids are given out in order, from 1.
    fn open(&self, owner: &str) -> Result<DbId, CallError>;
    /// Opens an object under an id that an earlier server has given out.
    fn open_again(&self, id: DbId, owner: &str) -> Result<(), CallError>;
    /// Writes into an object.
    fn write(&self, id: DbId, text: &str) -> Result<(), CallError>;
    /// As `write`, but idempotent: writing a text twice does no harm.
    #[idempotent]
    fn set(&self, id: DbId, text: &str) -> Result<(), CallError>;
    /// Writes into an object. Returns once its caller does not want the call any more.
    #[idempotent]
    fn set_and_stay(&self, id: DbId, text: &str) -> Result<(), CallError>;
    /// The owner of an object, and what was written into it.
    fn read(&self, id: DbId) -> Result<(String, String), CallError>;
    /// The number of calls before this one.
    fn calls(&self) -> Result<u64, CallError>;
}

/// The implementation of [`Store`]. It keeps all in memory.
#[derive(Debug, Default)]
pub struct Memory {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// By id: the owner, and the text.
    objects: std::collections::BTreeMap<u64, (String, String)>,
    calls: u64,
}

impl Memory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.calls += 1;
        kept
    }
}

impl Store for Memory {
    fn open(&self, owner: &str) -> Result<DbId, CallError> {
        let mut kept = self.kept();
        let id = kept.objects.last_key_value().map_or(1, |(last, _)| last + 1);
        kept.objects.insert(id, (owner.to_owned(), String::new()));
        Ok(DbId(id))
    }

    fn open_again(&self, id: DbId, owner: &str) -> Result<(), CallError> {
        match self.kept().objects.insert(id.0, (owner.to_owned(), String::new())) {
            None => Ok(()),
            Some(_) => Err(CallError::Panicked(format!("{id:?} is somebody's"))),
        }
    }

    fn write(&self, id: DbId, text: &str) -> Result<(), CallError> {
        match self.kept().objects.get_mut(&id.0) {
            Some((_, kept)) => {
                *kept = text.to_owned();
                Ok(())
            }
            None => Err(CallError::Panicked(format!("there is no {id:?}"))),
        }
    }

    fn set(&self, id: DbId, text: &str) -> Result<(), CallError> {
        self.write(id, text)
    }

    fn set_and_stay(&self, id: DbId, text: &str) -> Result<(), CallError> {
        self.write(id, text)?;
        while !underpass::is_cancelled() {
            thread::yield_now();
        }
        Ok(())
    }

    fn read(&self, id: DbId) -> Result<(String, String), CallError> {
        self.kept()
            .objects
            .get(&id.0)
            .cloned()
            .ok_or_else(|| CallError::Panicked(format!("there is no {id:?}")))
    }

    fn calls(&self) -> Result<u64, CallError> {
        Ok(self.kept().calls - 1)
    }
}
