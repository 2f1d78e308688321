//! Exports that are being served, and their end.

use crate::binding::local_exports;
use crate::binding::object::Bindings;
use crate::binding::record::Endings;
use crate::control::clerk::{Clerk, Offer, clerk};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use underpass_os::{Standing, clock};
use underpass_threads::sleep;

/// How long a shutdown sleeps between two checks of the calls under way.
const LOOK: Duration = Duration::from_micros(500);

/// Exports that have their names but are not served yet. [`Server::bind`](crate::Server::bind)
/// makes it; dropping it gives the names up.
#[derive(Debug)]
#[must_use = "nobody is served until `serve`"]
pub struct BoundServer {
    pub(crate) running: Running,
    /// The implementations behind the names, in the names' order.
    pub(crate) offers: Vec<Arc<Offer>>,
}

impl BoundServer {
    /// The paths of the names.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.running.paths()
    }

    /// Begins to serve: importers get their bindings from now on.
    pub fn serve(self) -> Running {
        let Self { running, offers } = self;
        for ((key, path), offer) in running.names.iter().zip(offers) {
            local_exports::add(path.clone(), offer);
            // The clerk exists, because it has given out the key.
            if let Ok(clerk) = clerk() {
                clerk.admit(*key);
            }
        }
        running
    }
}

/// Exports that are being served, until this is dropped.
#[derive(Debug, Default)]
pub struct Running {
    pub(crate) names: Vec<(u64, PathBuf)>,
    /// The sockets of the names.
    pub(crate) standings: Vec<Standing>,
    /// Counts the ends of all bindings of these exports, closed bindings too.
    pub(crate) endings: Arc<Endings>,
}

impl Running {
    /// The paths of the names.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.names.iter().map(|(_, path)| path.as_path())
    }

    /// The bindings that clients have of these exports, to list and to revoke.
    ///
    /// # Examples
    /// ```no_run
    /// # fn show(running: &underpass::Running) {
    /// for binding in running.bindings().list() {
    ///     println!("{} has {}", binding.peer().pid(), binding.name());
    /// }
    /// # }
    /// ```
    pub fn bindings(&self) -> Bindings {
        Bindings { exports: self.names.iter().map(|(key, _)| *key).collect() }
    }

    /// Removes the names and closes all bindings. Calls under way run on, and their callers get
    /// [`Closed`].
    ///
    /// [`Closed`]: crate::CallError::Closed
    pub fn stop(self) {}

    /// Stops cleanly, and returns how many bindings still had calls under way after `within`.
    ///
    /// It removes the names, refuses new calls ([`Closed`], not started), and waits until the calls
    /// under way have been answered. Then it closes all bindings, and waits for the hooks of the
    /// bindings that have ended ([`on_binding_end`]) and for the drop of their state. After
    /// `within` it waits no more. The callers of the calls that are still under way then get
    /// `Closed`, outcome unknown.
    ///
    /// A binding that was closed before, because its client died or it was revoked, may still have
    /// a call under way. Its hook comes after that call, so this function waits for both, within
    /// the same time. The returned number does not include such a binding, because its callers have
    /// their error already.
    ///
    /// A procedure of these exports must not call this, because it would wait for itself: start a
    /// thread that does.
    ///
    /// # Examples
    /// ```no_run
    /// # fn end(running: underpass::Running) {
    /// let cut_off = running.shutdown(std::time::Duration::from_secs(10));
    /// # }
    /// ```
    ///
    /// [`Closed`]: crate::CallError::Closed
    /// [`on_binding_end`]: crate::Service::on_binding_end
    pub fn shutdown(self, within: Duration) -> usize {
        let deadline = clock::deadline_ns(within);
        self.drain(|| deadline)
    }

    /// The same as [`shutdown`](Self::shutdown), with a `deadline` by the clock that may change.
    pub(crate) fn drain(mut self, mut deadline: impl FnMut() -> u64) -> usize {
        let Some(clerk) = self.withdraw() else { return 0 };
        let exports = self.bindings().exports;
        let rows = clerk.bindings(&exports);
        rows.iter().for_each(|row| row.drain());
        while rows.iter().any(|row| !row.is_idle()) && clock::now_ns() < deadline() {
            sleep(LOOK);
        }
        let busy = rows.iter().filter(|row| !row.is_idle()).count();
        self.close(clerk);
        while !self.endings.are_over() && clock::now_ns() < deadline() {
            sleep(LOOK);
        }
        busy
    }

    /// No client gets a new binding any more.
    fn withdraw(&self) -> Option<&'static Clerk> {
        let clerk = clerk().ok()?;
        for (key, path) in &self.names {
            local_exports::remove(path);
            clerk.withdraw(*key);
        }
        Some(clerk)
    }

    /// Ends all bindings.
    fn close(&mut self, clerk: &Clerk) {
        let exports: Vec<u64> = self.names.drain(..).map(|(key, _)| key).collect();
        clerk.bindings(&exports).iter().for_each(|row| row.close());
        exports.iter().for_each(|key| clerk.let_go(*key));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(clerk) = self.withdraw() {
            self.close(clerk);
        }
    }
}
