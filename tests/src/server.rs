//! A directory of names for one test process, and a server process in it.

use crate::watchdog::until;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// The directory of names of this test process. It is removed when the process's last test has
/// finished with it.
///
/// The environment says where names are looked up, and a process has only one environment. So each
/// test uses names of its own.
#[derive(Debug)]
pub struct Room;

static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

impl Room {
    /// The directory. It is taken from `$UNDERPASS_DIR`, which `.cargo/config.toml` sets for tests.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn directory() -> &'static Path {
        DIRECTORY.get_or_init(|| {
            let directory = underpass_os::Directory::from_environment();
            directory.ensure().expect("the tests need a directory for names");
            directory.path().to_owned()
        })
    }

    /// A name that no other test has, in this process or another.
    pub fn name(of: &str) -> String {
        format!("test-{}-{of}", std::process::id())
    }
}

/// Whether a socket of this name accepts connections, in the network namespace of `process`. A
/// socket exists for a moment before it accepts. A client that imports it then finds a dead server.
fn is_listened_to(name: &str, process: u32) -> bool {
    /// `__SO_ACCEPTCON`, as `/proc/net/unix` shows it.
    const ACCEPTS: &str = "00010000";
    let sockets = std::fs::read_to_string(format!("/proc/{process}/net/unix")).unwrap_or_default();
    sockets.lines().any(|line| {
        let path = line.split_whitespace().last().and_then(|path| path.rsplit('/').next());
        // A server that took the name over shows the path at which its socket was made.
        let is_named = path.is_some_and(|path| path == name || path.ends_with(&format!("-{name}")));
        is_named && line.split_whitespace().nth(3) == Some(ACCEPTS)
    })
}

/// A server process. It is killed when dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    name: String,
    /// Killed on purpose. Its name stays, because the test may need it.
    killed: bool,
}

impl ServerProcess {
    /// Starts `binary` (`env!("CARGO_BIN_EXE_underpass-test-server")`), which exports `interface`
    /// as `name`, and waits until it has.
    ///
    /// # Panics
    /// If it does not.
    pub fn start(binary: &str, name: &str, interface: &str) -> Self {
        Self::start_with(binary, name, interface, |_| {})
    }

    /// As [`start`](Self::start), with a change to the command.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_with(binary: &str, name: &str, interface: &str, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(binary);
        command.args([name, interface]);
        change(&mut command);
        Self::run(command, name)
    }

    /// Starts `command`, which finally exports `name`, and waits until it has.
    ///
    /// # Panics
    /// If it does not.
    pub fn run(mut command: Command, name: &str) -> Self {
        let socket = Room::directory().join(name);
        let stamp = || {
            let found = std::fs::symlink_metadata(&socket).ok()?;
            Some((found.ino(), found.ctime(), found.ctime_nsec()))
        };
        let before = stamp();
        let mut child = command.stdin(Stdio::null()).spawn().expect("the test server starts");
        until("the server's name", || {
            if let Ok(Some(status)) = child.try_wait() {
                panic!("the test server ended: {status}");
            }
            let now = stamp();
            (now.is_some() && now != before && is_listened_to(name, child.id())).then_some(())
        });
        Self { child, name: name.to_owned(), killed: false }
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it ends by itself. Returns how it ended.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn ended(&mut self) -> ExitStatus {
        self.child.wait().expect("a child can be waited for")
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long an import may wait for the server.
    pub fn soon() -> Duration {
        Duration::from_secs(60)
    }

    /// Another server has the name by now, so it is not removed with this value.
    pub fn leave_the_name(&mut self) {
        self.killed = true;
    }

    /// `kill -9`.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
        self.killed = true;
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // If it has ended already, that is fine too.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !self.killed {
            let _ = std::fs::remove_file(Room::directory().join(&self.name));
        }
    }
}
