//! Exporting interfaces: what a server's `main` does.

use crate::clerk::{Exported, clerk};
use crate::error::{Error, ExportError};
use crate::name;
use crate::registry;
use crate::service::Service;
use std::io;
use std::path::{Path, PathBuf};
use underpass_os::{Directory, Listening, barrier};

/// A domain's exports, being put together.
///
/// # Examples
/// ```no_run
/// // `service` comes from an interface's `serve`.
/// fn run(service: underpass_rpc::Service) -> Result<(), underpass_rpc::Error> {
///     underpass_rpc::Server::new().export("fs.cache", service).run()
/// }
/// ```
#[derive(Debug)]
#[must_use = "nothing is exported until `start` or `run`"]
pub struct Server {
    directory: Directory,
    mode: u32,
    exports: Vec<(String, Service)>,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// No exports yet. Names will stand in `$UNDERPASS_DIR`, else `$XDG_RUNTIME_DIR/underpass`, else `/run/underpass` for root
    /// and `/tmp/underpass-UID` otherwise; this user's processes may connect.
    pub fn new() -> Self {
        Self { directory: Directory::from_environment(), mode: 0o600, exports: Vec::new() }
    }

    /// Puts the names into `directory` instead.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Directory::at(directory);
        self
    }

    /// Who may connect, as the mode of the names' sockets: write permission is what counts. 0o600 at first.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Exports `service` as `name` (1 to 64 bytes, no `/`, no NUL).
    pub fn export(mut self, name: impl Into<String>, service: Service) -> Self {
        self.exports.push((name.into(), service));
        self
    }

    /// Begins to serve, on this domain's activations.
    ///
    /// # Errors
    /// [`ExportError`], and then nothing is exported.
    pub fn start(self) -> Result<Running, Error> {
        let mut running = Running { names: Vec::new() };
        self.exports.iter().try_for_each(|(name, _)| name::check(name)).map_err(ExportError::BadName)?;
        self.directory.ensure().map_err(|e| ExportError::Directory(self.directory.path().into(), e))?;
        barrier::register();
        underpass_threads::start().listen();
        for (name, service) in self.exports {
            let path = self.directory.join(&name);
            let listening =
                Listening::bind(&self.directory, &name, self.mode).map_err(|e| match e.kind() {
                    io::ErrorKind::AddrInUse => ExportError::Taken(path.clone()),
                    _ => ExportError::System("a name can't be exported", e),
                })?;
            let key = clerk()
                .and_then(|clerk| clerk.export(Exported { listening, service: service.clone() }))
                .map_err(|e| ExportError::System("a name can't be watched", e))?;
            registry::add(path.clone(), service);
            running.names.push((key, path));
        }
        Ok(running)
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn run(self) -> Result<(), Error> {
        let _running = self.start()?;
        loop {
            std::thread::park();
        }
    }
}

/// Exports that are being served, until dropped.
#[derive(Debug)]
pub struct Running {
    names: Vec<(u64, PathBuf)>,
}

impl Running {
    /// Where the names stand.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.names.iter().map(|(_, path)| path.as_path())
    }

    /// Removes the names and closes all bindings. Calls under way run on; their callers are told [`Closed`].
    ///
    /// [`Closed`]: crate::CallError::Closed
    pub fn stop(self) {}
}

impl Drop for Running {
    fn drop(&mut self) {
        for (key, path) in self.names.drain(..) {
            registry::remove(&path);
            if let Ok(clerk) = clerk() {
                clerk.withdraw(key);
            }
        }
    }
}
