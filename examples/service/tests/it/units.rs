//! The unit files, used as a service manager uses them: the socket is made, the command of
//! `ExecStart=` started with the environment of the unit, and its notifications heard.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use underpass_harness::skip;
use underpass_os::{Directory, Listening};

const PROGRAM: &str = env!("CARGO_BIN_EXE_underpass-example");
const UNITS: [&str; 2] = ["underpass-example.service", "underpass-example.socket"];

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The settings of a unit, by section and key. The units here set nothing twice.
struct Unit(BTreeMap<(String, String), String>);

impl Unit {
    fn read(file: &str) -> Self {
        let text = fs::read_to_string(folder().join(file)).unwrap();
        let (mut section, mut settings) = (String::new(), BTreeMap::new());
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                name.clone_into(&mut section);
                continue;
            }
            let (key, value) = line.split_once('=').unwrap();
            let before = settings.insert((section.clone(), key.to_owned()), value.to_owned());
            assert_eq!(before, None, "{key} is set twice");
        }
        Self(settings)
    }

    fn get(&self, section: &str, key: &str) -> &str {
        let key = (section.to_owned(), key.to_owned());
        self.0.get(&key).unwrap_or_else(|| panic!("no {key:?}"))
    }
}

/// A manager that runs the two units, in a folder instead of `/run` and `/var/lib`.
struct Manager {
    names: PathBuf,
    state: PathBuf,
    service: Unit,
    listening: Listening,
    notify: UnixDatagram,
    notified: PathBuf,
}

impl Manager {
    fn new(home: &Path) -> Self {
        let [service, socket] = UNITS.map(Unit::read);
        let path = Path::new(socket.get("Socket", "ListenSequentialPacket"));
        let environment = service.get("Service", "Environment");
        let directory = environment.strip_prefix("UNDERPASS_DIR=").unwrap();
        assert_eq!(path.parent(), Some(Path::new(directory)), "the service looks where the socket stands");
        let (names, state) = (home.join("names"), home.join("state"));
        fs::create_dir(&state).unwrap();
        let directory = Directory::at(&names);
        directory.ensure().unwrap();
        let mode = u32::from_str_radix(socket.get("Socket", "SocketMode"), 8).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let listening = Listening::bind(&directory, name, mode).unwrap();
        let notified = home.join("notify");
        let notify = UnixDatagram::bind(&notified).unwrap();
        // A service that tells nothing is a failure, and no hang.
        notify.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
        Self { names, state, service, listening, notify, notified }
    }

    fn start(&self) -> Service {
        assert_eq!(self.service.get("Service", "Type"), "notify");
        let command = self.service.get("Service", "ExecStart");
        let (program, arguments) = command.split_once(' ').unwrap();
        assert_eq!(program, "/usr/local/bin/underpass-example");
        let watchdog: u64 = self.service.get("Service", "WatchdogSec").parse().unwrap();
        // The shell sets `LISTEN_PID`, and then it is the service.
        let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ exec \"$@\"";
        let child = Command::new("sh")
            .args(["-c", script, "sh", PROGRAM])
            .args(arguments.split(' '))
            .stdin(Stdio::from(self.listening.as_fd().try_clone_to_owned().unwrap()))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LISTEN_FDS", "1")
            .env("UNDERPASS_DIR", &self.names)
            .env("STATE_DIRECTORY", &self.state)
            .env("NOTIFY_SOCKET", &self.notified)
            .env("WATCHDOG_USEC", (watchdog * 1_000_000).to_string())
            .spawn()
            .unwrap();
        Service(child)
    }

    /// Waits for this notification, and skips others.
    fn wait_for(&self, what: &str) {
        let mut bytes = [0; 4096];
        loop {
            let len = self.notify.recv(&mut bytes).expect("a notification comes");
            if &bytes[..len] == what.as_bytes() {
                return;
            }
        }
    }

    /// What a client prints, if it succeeds.
    fn client(&self, arguments: &[&str]) -> Result<String, String> {
        let output =
            Command::new(PROGRAM).args(arguments).env("UNDERPASS_DIR", &self.names).output().unwrap();
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).unwrap()),
            false => Err(String::from_utf8(output.stderr).unwrap()),
        }
    }
}

/// The service, killed when it is dropped.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        // If it has ended already, that is fine too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_units_run_the_service() {
    let home = tempfile::tempdir().unwrap();
    let manager = Manager::new(home.path());
    let service = manager.start();
    manager.wait_for("READY=1");
    manager.wait_for("WATCHDOG=1");
    assert_eq!(manager.client(&["set", "plum", "blue"]), Ok(String::new()));
    assert_eq!(manager.client(&["health"]), Ok(String::new()));
    drop(service);

    // A client that comes in between waits for the next service, which has the word.
    std::thread::scope(|scope| {
        let client = scope.spawn(|| manager.client(&["get", "plum"]));
        let mut service = manager.start();
        assert_eq!(client.join().unwrap(), Ok("blue\n".to_owned()));
        assert!(Command::new("kill").arg(service.0.id().to_string()).status().unwrap().success());
        manager.wait_for("STOPPING=1");
        assert!(service.0.wait().unwrap().success());
    });
}

#[test]
fn a_service_that_keeps_nothing_says_so() {
    let home = tempfile::tempdir().unwrap();
    let manager = Manager::new(home.path());
    let _service = manager.start();
    // Root may write into every folder, so there is none.
    fs::remove_dir(&manager.state).unwrap();
    let told = manager.client(&["set", "plum", "blue"]).unwrap_err();
    assert!(told.contains("not kept beyond the end"), "{told}");
    assert_eq!(manager.client(&["get", "plum"]), Ok("blue\n".to_owned()));
    let told = manager.client(&["health"]).unwrap_err();
    assert!(told.contains("can't be written"), "{told}");
    fs::create_dir(&manager.state).unwrap();
    assert_eq!(manager.client(&["set", "plum", "red"]), Ok(String::new()));
    assert_eq!(manager.client(&["health"]), Ok(String::new()));
}

#[test]
fn systemd_understands_the_units() {
    let home = tempfile::tempdir().unwrap();
    let units = UNITS.map(|file| {
        // It wants a program that is there.
        let text = fs::read_to_string(folder().join(file)).unwrap();
        let text = text.replace("/usr/local/bin/underpass-example", PROGRAM);
        let unit = home.path().join(file);
        fs::write(&unit, text).unwrap();
        unit
    });
    let verified = match Command::new("systemd-analyze").arg("verify").args(&units).output() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => skip!("there is no systemd-analyze"),
        verified => verified.unwrap(),
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success(), "{said}");
    // An unknown setting is no error to it, but it says so.
    assert!(!said.contains("underpass-example"), "{said}");
}
