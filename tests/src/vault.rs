//! Interfaces that return and take others: transactions, cursors and callbacks.
#![allow(clippy::missing_errors_doc, reason = "interfaces of the tests: what goes wrong is what they test")]

use crate::office::{Office, OfficeClient, OfficeCounts, office};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use underpass::{CallError, Wire, caller, sync, thread};

/// What is written together, or not at all.
#[underpass::interface]
pub trait Transaction {
    /// Writes an entry, once the transaction is committed.
    fn put(&self, key: u32, value: u64) -> Result<(), CallError>;
    /// Writes all entries.
    fn commit(&self) -> Result<(), CallError>;
    /// The process that calls, as the implementation knows it.
    fn who_calls(&self) -> Result<u32, CallError>;
    /// Returns after `ms`.
    fn linger(&self, ms: u64) -> Result<(), CallError>;
    /// Returns when the vault lets go, whether its caller waits or not.
    fn hold(&self) -> Result<(), CallError>;
}

/// Walks over entries.
#[underpass::interface]
pub trait Cursor {
    /// The next entry.
    fn next(&self) -> Result<Option<(u32, u64)>, CallError>;
    /// A cursor that begins here.
    fn fork(&self) -> Result<CursorClient, CallError>;
}

/// Is told something.
#[underpass::interface]
pub trait Sink {
    /// Returns what becomes of `n`.
    fn tell(&self, n: u64) -> Result<u64, CallError>;
    /// The process that calls, as the implementation knows it.
    fn who_tells(&self) -> Result<u32, CallError>;
    /// Returns as many bytes as came.
    fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError>;
}

/// Calls the other side back, which calls back in turn.
#[underpass::interface]
pub trait PingPong {
    /// Calls `other` with one less, unless `left` is zero. Returns how many calls there were.
    fn play(&self, other: PingPongClient, left: u32) -> Result<u32, CallError>;
}

/// A file, and the sinks that are told of it.
#[derive(Debug, Wire)]
pub struct Watched {
    /// The file.
    pub file: Option<File>,
    /// The sinks that are told of it.
    pub sinks: Vec<SinkClient>,
    /// Bytes, so that the value may not fit into a cell.
    pub text: String,
}

/// Entries, and what works on them.
#[underpass::interface]
pub trait Vault {
    /// A transaction that belongs to the caller.
    fn begin(&self) -> Result<TransactionClient, CallError>;
    /// So many transactions.
    fn begin_many(&self, count: u32) -> Result<Vec<TransactionClient>, CallError>;
    /// A transaction, after `ms`.
    fn begin_slowly(&self, ms: u64) -> Result<TransactionClient, CallError>;
    /// How many transactions there are, and how many there were.
    fn transactions(&self) -> Result<(u64, u64), CallError>;
    /// A committed entry.
    fn get(&self, key: u32) -> Result<Option<u64>, CallError>;
    /// A cursor over all entries.
    fn scan(&self) -> Result<CursorClient, CallError>;
    /// Keeps a sink. Returns how many there are.
    fn watch(&self, sink: SinkClient) -> Result<u32, CallError>;
    /// Keeps the sinks, after it has told each of them how many bytes the file and the text have.
    fn watch_all(&self, watched: Watched) -> Result<u64, CallError>;
    /// Drops the sinks. Returns how many there were.
    fn unwatch(&self) -> Result<u32, CallError>;
    /// Tells all sinks, and returns the sum of their answers.
    fn publish(&self, n: u64) -> Result<u64, CallError>;
    /// Tells this sink while the call is under way.
    fn call_back(&self, sink: &SinkClient, n: u64) -> Result<u64, CallError>;
    /// Returns the sink that came last, and drops it here.
    fn give_back(&self) -> Result<Option<SinkClient>, CallError>;
    /// Asks a transaction of this server who calls it.
    fn who_calls(&self, transaction: TransactionClient) -> Result<u32, CallError>;
    /// The other side of a game.
    fn player(&self) -> Result<PingPongClient, CallError>;
    /// Panics after it has got a sink.
    fn panic_with(&self, sink: SinkClient) -> Result<(), CallError>;
    /// `len` bytes, and a transaction.
    fn begin_beside(&self, len: u32) -> Result<(Vec<u8>, TransactionClient), CallError>;
    /// An office of the server's.
    fn office(&self) -> Result<OfficeClient, CallError>;
    /// How many offices of the server's there are, and how many calls stay there.
    fn offices(&self) -> Result<(u32, u32), CallError>;
    /// Has `office` add.
    fn add_at(&self, office: &OfficeClient, a: u64, b: u64) -> Result<u64, CallError>;
    /// Returns the office.
    fn return_office(&self, office: OfficeClient) -> Result<OfficeClient, CallError>;
    /// How many calls of `Transaction::hold` there are, and how many have found their transaction
    /// alive at their end.
    fn holds(&self) -> Result<(u32, u32), CallError>;
    /// Lets the calls of `Transaction::hold` end.
    fn let_go(&self) -> Result<(), CallError>;
}

/// The implementation of [`Vault`].
#[derive(Clone, Debug, Default)]
pub struct Safe(Arc<Inside>);

#[derive(Debug, Default)]
struct Inside {
    entries: Mutex<BTreeMap<u32, u64>>,
    sinks: Mutex<Vec<SinkClient>>,
    live: AtomicU64,
    begun: AtomicU64,
    offices: OfficeCounts,
    holding: AtomicU32,
    held_well: AtomicU32,
    lets_go: (sync::Mutex<bool>, sync::Condvar),
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Safe {
    /// How many transactions there are.
    pub fn live(&self) -> u64 {
        self.0.live.load(Ordering::SeqCst)
    }

    /// How many there were.
    pub fn begun(&self) -> u64 {
        self.0.begun.load(Ordering::SeqCst)
    }

    fn open(&self) -> TransactionClient {
        self.0.live.fetch_add(1, Ordering::SeqCst);
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        let (of, written) = (self.0.clone(), Mutex::default());
        TransactionClient::new(Open { of, written, lives: AtomicBool::new(true) })
    }
}

struct Open {
    of: Arc<Inside>,
    written: Mutex<BTreeMap<u32, u64>>,
    lives: AtomicBool,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.lives.store(false, Ordering::SeqCst);
        self.of.live.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The process that calls.
fn caller_pid() -> u32 {
    caller().map_or(0, |caller| caller.pid())
}

impl Transaction for Open {
    fn put(&self, key: u32, value: u64) -> Result<(), CallError> {
        lock(&self.written).insert(key, value);
        Ok(())
    }

    fn commit(&self) -> Result<(), CallError> {
        lock(&self.of.entries).append(&mut lock(&self.written));
        Ok(())
    }

    fn who_calls(&self) -> Result<u32, CallError> {
        Ok(caller_pid())
    }

    fn linger(&self, ms: u64) -> Result<(), CallError> {
        thread::sleep(Duration::from_millis(ms));
        Ok(())
    }

    fn hold(&self) -> Result<(), CallError> {
        self.of.holding.fetch_add(1, Ordering::SeqCst);
        let (lets_go, changed) = &self.of.lets_go;
        let shut = lets_go.lock().unwrap_or_else(PoisonError::into_inner);
        // It waits on although its caller has given up.
        drop(changed.wait_while(shut, |lets_go| !*lets_go));
        let lives = self.lives.load(Ordering::SeqCst);
        self.of.held_well.fetch_add(lives.into(), Ordering::SeqCst);
        self.of.holding.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

struct Walk {
    of: Arc<Inside>,
    at: Mutex<u32>,
}

impl Cursor for Walk {
    fn next(&self) -> Result<Option<(u32, u64)>, CallError> {
        let mut at = lock(&self.at);
        let next = lock(&self.of.entries).range(*at..).next().map(|(key, value)| (*key, *value));
        if let Some((key, _)) = next {
            *at = key + 1;
        }
        Ok(next)
    }

    fn fork(&self) -> Result<CursorClient, CallError> {
        let at = *lock(&self.at);
        Ok(CursorClient::new(Self { of: self.of.clone(), at: Mutex::new(at) }))
    }
}

/// A sink that adds `by` to what it is told.
#[derive(Debug, Default)]
pub struct Adds {
    /// What is added.
    pub by: u64,
    /// How often it was told.
    pub told: Arc<AtomicU64>,
}

impl Sink for Adds {
    fn tell(&self, n: u64) -> Result<u64, CallError> {
        self.told.fetch_add(1, Ordering::SeqCst);
        Ok(n + self.by)
    }

    fn who_tells(&self) -> Result<u32, CallError> {
        Ok(caller_pid())
    }

    fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
        Ok(bytes.to_vec())
    }
}

/// A player.
#[derive(Debug)]
pub struct Player;

impl PingPong for Player {
    fn play(&self, other: PingPongClient, left: u32) -> Result<u32, CallError> {
        Ok(match left.checked_sub(1) {
            Some(left) => 1 + other.play(PingPongClient::new(Self), left)?,
            None => 1,
        })
    }
}

impl Vault for Safe {
    fn begin(&self) -> Result<TransactionClient, CallError> {
        Ok(self.open())
    }

    fn begin_many(&self, count: u32) -> Result<Vec<TransactionClient>, CallError> {
        Ok((0..count).map(|_| self.open()).collect())
    }

    fn begin_slowly(&self, ms: u64) -> Result<TransactionClient, CallError> {
        thread::sleep(Duration::from_millis(ms));
        Ok(self.open())
    }

    fn transactions(&self) -> Result<(u64, u64), CallError> {
        Ok((self.live(), self.0.begun.load(Ordering::SeqCst)))
    }

    fn get(&self, key: u32) -> Result<Option<u64>, CallError> {
        Ok(lock(&self.0.entries).get(&key).copied())
    }

    fn scan(&self) -> Result<CursorClient, CallError> {
        Ok(CursorClient::new(Walk { of: self.0.clone(), at: Mutex::default() }))
    }

    fn watch(&self, sink: SinkClient) -> Result<u32, CallError> {
        let mut sinks = lock(&self.0.sinks);
        sinks.push(sink);
        Ok(sinks.len() as u32)
    }

    fn watch_all(&self, watched: Watched) -> Result<u64, CallError> {
        let bytes = watched.file.map_or(Ok(0), |file| file.metadata().map(|of| of.len()));
        let bytes = bytes.unwrap_or(u64::MAX) + watched.text.len() as u64;
        let sum = watched.sinks.iter().map(|sink| sink.tell(bytes)).sum();
        lock(&self.0.sinks).extend(watched.sinks);
        sum
    }

    fn unwatch(&self) -> Result<u32, CallError> {
        let sinks = std::mem::take(&mut *lock(&self.0.sinks));
        Ok(sinks.len() as u32)
    }

    fn publish(&self, n: u64) -> Result<u64, CallError> {
        let sinks = lock(&self.0.sinks).clone();
        sinks.iter().map(|sink| sink.tell(n)).sum()
    }

    fn call_back(&self, sink: &SinkClient, n: u64) -> Result<u64, CallError> {
        sink.tell(n)
    }

    fn give_back(&self) -> Result<Option<SinkClient>, CallError> {
        Ok(lock(&self.0.sinks).pop())
    }

    fn who_calls(&self, transaction: TransactionClient) -> Result<u32, CallError> {
        transaction.who_calls()
    }

    fn player(&self) -> Result<PingPongClient, CallError> {
        Ok(PingPongClient::new(Player))
    }

    fn panic_with(&self, sink: SinkClient) -> Result<(), CallError> {
        let n = sink.tell(1)?;
        panic!("on purpose, after {n}");
    }

    fn begin_beside(&self, len: u32) -> Result<(Vec<u8>, TransactionClient), CallError> {
        Ok((vec![7; len as usize], self.open()))
    }

    fn office(&self) -> Result<OfficeClient, CallError> {
        Ok(office(&self.0.offices))
    }

    fn offices(&self) -> Result<(u32, u32), CallError> {
        let OfficeCounts { live, staying } = &self.0.offices;
        Ok((live.load(Ordering::SeqCst), staying.load(Ordering::SeqCst)))
    }

    fn add_at(&self, office: &OfficeClient, a: u64, b: u64) -> Result<u64, CallError> {
        office.add(a, b)
    }

    fn return_office(&self, office: OfficeClient) -> Result<OfficeClient, CallError> {
        Ok(office)
    }

    fn holds(&self) -> Result<(u32, u32), CallError> {
        Ok((self.0.holding.load(Ordering::SeqCst), self.0.held_well.load(Ordering::SeqCst)))
    }

    fn let_go(&self) -> Result<(), CallError> {
        *self.0.lets_go.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.lets_go.1.notify_all();
        Ok(())
    }
}

/// Passes interfaces in both directions and drops them, while `goes_on` says so.
pub fn churn(vault: &VaultClient, goes_on: impl Fn() -> bool) -> Result<(), CallError> {
    while goes_on() {
        let begun = vault.begin_many(3)?;
        vault.watch(SinkClient::new(Adds::default()))?;
        vault.publish(1)?;
        if let Some(home) = vault.give_back()? {
            home.tell(1)?;
        }
        vault.who_calls(begun[0].clone())?;
        begun[1].put(1, 1)?;
        vault.player()?.play(PingPongClient::new(Player), 3)?;
    }
    Ok(())
}
