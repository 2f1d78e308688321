//! An interface that logs its executions, and has its handlers examine their caller.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use underpass::{CallError, Running, thread};

/// The interface that the termination tests call. Its calls may go to any server, because none
/// depends on what another server has given a client.
#[underpass::interface(stateless)]
pub trait Worker {
    /// The server's process.
    fn pid(&self) -> Result<u32, CallError>;
    /// Logs call `id`, and does nothing else.
    fn note(&self, id: u64) -> Result<u64, CallError>;
    /// Logs call `id`, and never returns.
    fn stay(&self, id: u64) -> Result<(), CallError>;
    /// Logs call `id`. Returns only if that call was logged before.
    #[idempotent]
    fn stay_once(&self, id: u64) -> Result<(), CallError>;
    /// How long the caller will still wait, in ms, as the handler at the end of the chain of
    /// `names` sees it.
    fn left(&self, names: &[String]) -> Result<Option<u64>, CallError>;
    /// As `left`, but the first server detaches its own call from its caller's.
    fn left_apart(&self, names: &[String]) -> Result<Option<u64>, CallError>;
    /// Logs call `id`. Returns once its caller does not want the call any more.
    fn persist(&self, id: u64) -> Result<(), CallError>;
    /// As `persist`, on another thread that works for the handler.
    fn persist_elsewhere(&self, id: u64) -> Result<(), CallError>;
    /// How many calls of `persist` and `persist_elsewhere` have returned.
    fn ended(&self) -> Result<u64, CallError>;
    /// Calls `stay` of the `Worker` under `name`. Logs `id` and the result of that call.
    fn have_stay(&self, name: &str, id: u64) -> Result<(), CallError>;
    /// Calls `persist` of the `Worker` under `name`.
    fn have_persist(&self, name: &str, id: u64) -> Result<(), CallError>;
    /// Calls `pass` of the `Worker` under the first of `names` with the others. If there are none,
    /// it logs `id` and persists. It logs the result.
    fn pass(&self, names: &[String], id: u64) -> Result<(), CallError>;
    /// As `pass`, but the first server makes its call on another thread that works for the handler.
    fn pass_elsewhere(&self, names: &[String], id: u64) -> Result<(), CallError>;
    /// Calls `wait_for` of the `Worker` under `name`, whether its caller wants that or not. Logs
    /// the result.
    fn finish(&self, name: &str, id: u64) -> Result<(), CallError>;
    /// Logs call `id`. Returns when the next number is logged.
    fn wait_for(&self, id: u64) -> Result<(), CallError>;
    /// Exports another `Worker` as `name`, which uses the same log.
    fn export(&self, name: &str) -> Result<(), CallError>;
    /// Ends that export.
    fn withdraw(&self, name: &str) -> Result<(), CallError>;
    /// Returns when no call is in progress of the interfaces that its domain exported with
    /// `export`.
    fn settle(&self) -> Result<(), CallError>;
    /// The results of the calls that `have_stay` and `pass` have made, `None` for success. Also the
    /// failures of `finish`.
    fn told(&self) -> Result<Vec<Option<CallError>>, CallError>;
    /// How many calls of `finish` succeeded.
    fn finished(&self) -> Result<u64, CallError>;
}

/// A log of executed calls. It outlives its writers.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// The environment variable that tells a server where its log is.
    pub const VARIABLE: &str = "UNDERPASS_TEST_LOG";

    /// Opens the log at `path`, and makes it if it is missing.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let file = OpenOptions::new().create(true).append(true).open(&path).expect("a log can be made");
        Self { path, file }
    }

    /// The path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Logs that call `id` is executed.
    ///
    /// # Panics
    /// If the log cannot be written.
    pub fn note(&self, id: u64) {
        (&self.file).write_all(format!("{id}\n").as_bytes()).expect("a log can be written");
    }

    /// How often each call was executed.
    ///
    /// # Panics
    /// If the log cannot be read.
    pub fn executed(&self) -> BTreeMap<u64, u32> {
        let text = std::fs::read_to_string(&self.path).expect("a log can be read");
        let mut executed = BTreeMap::new();
        for id in text.lines() {
            *executed.entry(id.parse().expect("a log has numbers")).or_default() += 1;
        }
        executed
    }
}

/// The implementation of [`Worker`].
#[derive(Debug)]
pub struct Diligent {
    log: Option<Log>,
    ended: AtomicU64,
    others: Mutex<HashMap<String, WorkerClient>>,
    told: Mutex<Vec<Option<CallError>>>,
    finished: AtomicU64,
    exports: Mutex<HashMap<String, Running>>,
    /// Calls of `note` in progress.
    under_way: Arc<AtomicU64>,
}

impl Diligent {
    /// A worker whose log is given by its environment.
    pub fn new() -> Self {
        Self {
            log: std::env::var_os(Log::VARIABLE).map(Log::at),
            ended: AtomicU64::new(0),
            others: Mutex::default(),
            told: Mutex::default(),
            finished: AtomicU64::new(0),
            exports: Mutex::default(),
            under_way: Arc::default(),
        }
    }

    fn write(&self, id: u64) {
        self.log.iter().for_each(|log| log.note(id));
    }

    fn other(&self, name: &str) -> Result<WorkerClient, CallError> {
        let known = self.others.lock().unwrap().get(name).cloned();
        known.map_or_else(
            || {
                let other = WorkerClient::import(name).map_err(|e| CallError::Panicked(e.to_string()))?;
                Ok(self.others.lock().unwrap().entry(name.to_owned()).or_insert(other).clone())
            },
            Ok,
        )
    }
}

impl Default for Diligent {
    fn default() -> Self {
        Self::new()
    }
}

fn until_cancelled() {
    while !underpass::is_cancelled() {
        thread::yield_now();
    }
}

impl Worker for Diligent {
    fn pid(&self) -> Result<u32, CallError> {
        Ok(std::process::id())
    }

    fn note(&self, id: u64) -> Result<u64, CallError> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        self.write(id);
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        Ok(id)
    }

    fn stay(&self, id: u64) -> Result<(), CallError> {
        self.write(id);
        loop {
            thread::sleep(Duration::from_secs(3600));
        }
    }

    fn stay_once(&self, id: u64) -> Result<(), CallError> {
        let known = self.log.as_ref().is_some_and(|log| log.executed().contains_key(&id));
        if known { self.note(id).map(drop) } else { self.stay(id) }
    }

    fn left(&self, names: &[String]) -> Result<Option<u64>, CallError> {
        match names.split_first() {
            Some((name, others)) => self.other(name)?.left(others),
            None => Ok(underpass::deadline().map(|at| (at - Instant::now()).as_millis() as u64)),
        }
    }

    fn left_apart(&self, names: &[String]) -> Result<Option<u64>, CallError> {
        underpass::detached(|| self.left(names))
    }

    fn persist(&self, id: u64) -> Result<(), CallError> {
        self.write(id);
        until_cancelled();
        self.ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn persist_elsewhere(&self, id: u64) -> Result<(), CallError> {
        let wanted = underpass::cancellation();
        let helper = thread::spawn(move || wanted.scope(until_cancelled));
        self.write(id);
        helper.join().map_err(|_| CallError::Panicked("the helper".to_owned()))?;
        self.ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn ended(&self) -> Result<u64, CallError> {
        Ok(self.ended.load(Ordering::SeqCst))
    }

    fn have_stay(&self, name: &str, id: u64) -> Result<(), CallError> {
        let result = self.other(name)?.stay(id);
        self.told.lock().unwrap().push(result.clone().err());
        result
    }

    fn have_persist(&self, name: &str, id: u64) -> Result<(), CallError> {
        self.other(name)?.persist(id)
    }

    fn pass(&self, names: &[String], id: u64) -> Result<(), CallError> {
        let Some((name, others)) = names.split_first() else { return self.persist(id) };
        let result = self.other(name)?.pass(others, id);
        self.told.lock().unwrap().push(result.clone().err());
        result
    }

    fn pass_elsewhere(&self, names: &[String], id: u64) -> Result<(), CallError> {
        let wanted = underpass::cancellation();
        let (name, others) = names.split_first().expect("there are some");
        let other = self.other(name)?;
        let result = thread::scope(|s| {
            let helper = s.spawn(|| wanted.scope(|| other.pass(others, id)));
            helper.join().map_err(|_| CallError::Panicked("the helper".to_owned()))?
        });
        self.told.lock().unwrap().push(result.clone().err());
        result
    }

    fn finish(&self, name: &str, id: u64) -> Result<(), CallError> {
        let other = self.other(name)?;
        let result = underpass::detached(|| other.wait_for(id));
        self.finished.fetch_add(u64::from(result.is_ok()), Ordering::SeqCst);
        self.told.lock().unwrap().extend(result.clone().err().map(Some));
        result
    }

    fn wait_for(&self, id: u64) -> Result<(), CallError> {
        self.write(id);
        while !self.log.as_ref().is_some_and(|log| log.executed().contains_key(&(id + 1))) {
            thread::yield_now();
        }
        Ok(())
    }

    fn export(&self, name: &str) -> Result<(), CallError> {
        let other = Self { under_way: self.under_way.clone(), ..Self::new() };
        let running = underpass::Server::new().export(name, Worker::serve(other)).start();
        let running = running.map_err(|e| CallError::Panicked(e.to_string()))?;
        self.exports.lock().unwrap().insert(name.to_owned(), running);
        Ok(())
    }

    fn withdraw(&self, name: &str) -> Result<(), CallError> {
        self.exports.lock().unwrap().remove(name);
        Ok(())
    }

    fn settle(&self) -> Result<(), CallError> {
        while self.under_way.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
        Ok(())
    }

    fn told(&self) -> Result<Vec<Option<CallError>>, CallError> {
        Ok(self.told.lock().unwrap().clone())
    }

    fn finished(&self) -> Result<u64, CallError> {
        Ok(self.finished.load(Ordering::SeqCst))
    }
}
