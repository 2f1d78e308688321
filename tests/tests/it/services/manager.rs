//! A service manager that a test plays: it keeps listening sockets, passes them, and hears
//! notifications.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use underpass_os::{Directory, Listening};
use underpass_tests::{Room, signal};

const SERVICE: &str = env!("CARGO_BIN_EXE_underpass-test-service");

/// The directory of names of this test.
pub fn names() -> Directory {
    Room::directory();
    Directory::from_environment()
}

/// The socket of a name, as a manager makes it. It stays with the test.
pub fn socket(name: &str, mode: u32) -> Listening {
    Listening::bind(&names(), name, mode).unwrap()
}

/// A copy of a file, to be passed.
pub fn copy(of: impl AsFd) -> OwnedFd {
    of.as_fd().try_clone_to_owned().unwrap()
}

/// The command of a service, to which no socket is passed.
pub fn alone(name: &str, what: &str) -> Command {
    let mut command = Command::new(SERVICE);
    command.args([name, what]).stdin(Stdio::null());
    command
}

/// The command of a service to which these files are passed: none, one or two. The shell sets
/// `LISTEN_PID`, and then it is the service.
pub fn with_files(name: &str, what: &str, files: Vec<OwnedFd>) -> Command {
    let script = match files.len() {
        0 => "exec 3<&-",
        1 => "exec 3<&0 4<&- </dev/null",
        _ => "exec 3<&0 4<&1 </dev/null >&2",
    };
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{script}; LISTEN_PID=$$ exec \"$@\""), "sh", SERVICE, name, what]);
    command.env("LISTEN_FDS", files.len().max(1).to_string());
    let mut files = files.into_iter().map(Stdio::from);
    command.stdin(files.next().unwrap_or_else(Stdio::null));
    if let Some(second) = files.next() {
        command.stdout(second);
    }
    command
}

/// What a service says at its end: its status and its errors.
pub fn fails(mut command: Command) -> String {
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    assert!(!output.status.success(), "it serves");
    String::from_utf8(output.stderr).unwrap()
}

/// A service, killed when it is dropped.
pub struct ServiceProcess(Child);

impl ServiceProcess {
    pub fn of(child: Child) -> Self {
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// SIGTERM, and its end.
    pub fn terminate(mut self) -> ExitStatus {
        signal("-TERM", self.pid());
        self.0.wait().unwrap()
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        // If it has ended already, that is fine too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The socket at which a manager hears notifications.
pub struct Notifications {
    socket: UnixDatagram,
    named: OsString,
    path: Option<PathBuf>,
}

impl Notifications {
    /// At a path.
    pub fn at_path(of: &str) -> Self {
        let path = Room::directory().join(format!(".{}", Room::name(of)));
        let socket = UnixDatagram::bind(&path).unwrap();
        Self::of(socket, path.clone().into(), Some(path))
    }

    /// At an abstract name.
    pub fn abstractly(of: &str) -> Self {
        let name = format!("underpass-{}", Room::name(of));
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        Self::of(UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}").into(), None)
    }

    fn of(socket: UnixDatagram, named: OsString, path: Option<PathBuf>) -> Self {
        // A service that tells nothing is a failure, and no hang.
        socket.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
        Self { socket, named, path }
    }

    /// Lets a service tell this manager.
    pub fn of_service(&self, mut command: Command) -> Command {
        command.env("NOTIFY_SOCKET", &self.named);
        command
    }

    /// The next notification.
    pub fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let len = loop {
            match self.socket.recv(&mut bytes) {
                // The runtime sends signals to its kernel threads.
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                came => break came.expect("a notification comes"),
            }
        };
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    }

    /// Waits for this notification, and skips others.
    pub fn wait_for(&self, what: &str) {
        while self.next() != what {}
    }

    /// Starts a service, and waits until it is ready.
    pub fn start(&self, command: Command) -> ServiceProcess {
        let service = ServiceProcess::of(self.of_service(command).spawn().unwrap());
        self.wait_for("READY=1");
        service
    }
}

impl Drop for Notifications {
    fn drop(&mut self) {
        self.path.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}
