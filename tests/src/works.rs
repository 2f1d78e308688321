//! A server process that logs the calls that it executes.

use crate::server::{Room, ServerProcess};
use crate::watchdog::until;
use crate::worker::{Log, WorkerClient};

/// A server of [`Worker`](crate::Worker), and its log.
#[derive(Debug)]
pub struct Works {
    /// The current server process, or the last one.
    pub server: ServerProcess,
    /// The calls that it and its predecessors have executed.
    pub log: Log,
}

impl Works {
    /// Starts a server; `binary` as for [`ServerProcess::start`].
    ///
    /// # Panics
    /// If it does not start.
    pub fn new(binary: &str, name: &str) -> Self {
        let name = Room::name(name);
        let log = Log::at(std::env::temp_dir().join(format!("underpass-{name}.log")));
        Self { server: start(binary, &name, &log), log }
    }

    /// A binding to the server.
    ///
    /// # Panics
    /// If it cannot be imported.
    pub fn client(&self) -> WorkerClient {
        WorkerClient::import_within(self.server.name(), ServerProcess::soon()).expect("it is exported")
    }

    /// Starts the next server after the last one was killed.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(&mut self, binary: &str) {
        self.server = start(binary, self.server.name(), &self.log);
    }

    /// Starts a server that takes the name over while the last one runs. Returns the last one.
    ///
    /// # Panics
    /// If it does not start.
    pub fn upgrade(&mut self, binary: &str) -> ServerProcess {
        let next = ServerProcess::start_with(binary, self.server.name(), "replace", |command| {
            command.env(Log::VARIABLE, self.log.path());
        });
        self.server.leave_the_name();
        std::mem::replace(&mut self.server, next)
    }

    /// Waits until call `id` has been executed.
    pub fn until_executed(&self, id: u64) {
        until("the call to be executed", || self.log.executed().contains_key(&id).then_some(()));
    }
}

impl Drop for Works {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.log.path());
    }
}

fn start(binary: &str, name: &str, log: &Log) -> ServerProcess {
    ServerProcess::start_with(binary, name, "worker", |command| {
        command.env(Log::VARIABLE, log.path());
    })
}
