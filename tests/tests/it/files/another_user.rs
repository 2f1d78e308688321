//! Peers of another user that hold the kernel locks of files that they have passed, by a FUSE of
//! their own.
//!
//! A test here runs in three kinds of processes. Each of them enters the test's function. The first
//! process makes a directory of names that every user can read. The second process runs the test
//! there. An attacker, of another user and in namespaces of its own, holds one lock.

use crate::files::fuse_page::{FusePage, mounted};
use crate::files::held::hears_of_the_death;
use crate::files::lock::Lock;
use crate::files::scene::Scene;
use crate::files::{SERVER, public};
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use underpass_harness::skip;
use underpass_os::Directory;
use underpass_tests::{PublicRoom, SOMEBODY, Watchdog, kill};

/// The lock that an attacker holds, and of which server.
const ATTACK: &str = "UNDERPASS_TEST_ATTACK";
/// Set in a process whose directory of names is readable for all users.
const PUBLIC: &str = "UNDERPASS_TEST_PUBLIC";
/// Options for namespaces of a user's own.
const UNSHARE: [&str; 3] = ["--user", "--map-root-user", "--mount"];

/// Runs `judge` of the test `name` in a process whose directory of names every user can read.
fn beside_others(name: &'static str, judge: impl FnOnce()) {
    if let Ok(attack) = std::env::var(ATTACK) {
        let _watchdog = Watchdog::new(name);
        return hold(&attack);
    }
    if std::env::var_os(PUBLIC).is_some() {
        let _watchdog = Watchdog::new(name);
        underpass_os::process::die_with_parent().unwrap();
        return judge();
    }
    // Longer than the watchdogs of the other processes, because those print more.
    let _watchdog = Watchdog::within(name, Duration::from_secs(200));
    let program = std::env::current_exe().unwrap();
    let directory = PublicRoom::directory(program.to_str().unwrap());
    static EQUIPPED: OnceLock<Result<(), String>> = OnceLock::new();
    if let Err(why) = EQUIPPED.get_or_init(|| equip(directory)) {
        skip!("{name}: {why}");
    }
    let mut again = Command::new(program);
    again.args(["--exact", name, "--nocapture"]).env("UNDERPASS_DIR", directory).env(PUBLIC, "");
    // A skip in the child is counted together with those of this process.
    let output = again.stderr(Stdio::inherit()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success() && said.contains("1 passed"), "{}", output.status);
}

/// Puts what an attacker needs into the directory. The error says what is not available here.
fn equip(directory: &Path) -> Result<(), String> {
    if underpass_os::process::user() != 0 {
        return Err("only root can become another user".to_owned());
    }
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let (device, server) = (directory.join("fuse"), directory.join("server"));
    ran(Command::new("mknod").arg(&device).args(["c", "10", "229"]))?;
    mode(&device, 0o666);
    fs::copy(SERVER, &server).unwrap();
    mode(&server, 0o755);
    fs::create_dir(directory.join("files")).unwrap();
    ran(Command::new("unshare").args(UNSHARE).arg("true").uid(SOMEBODY).gid(SOMEBODY))
}

fn ran(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let told = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    output.status.success().then_some(()).ok_or_else(told)
}

/// A process of another user. It holds a lock until this value is dropped or its maker ends.
struct Attacker {
    process: Child,
    line: Option<UnixStream>,
}

impl Attacker {
    /// An error where that user may not mount a FUSE.
    fn start(test: &str, lock: Lock, server: &str) -> Result<Self, String> {
        let directory = Directory::from_environment();
        let (line, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new("unshare");
        command.args(UNSHARE).arg(directory.join("program"));
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        command.env(ATTACK, format!("{lock:?} {server}"));
        command.current_dir(directory.path()).uid(SOMEBODY).gid(SOMEBODY).stdin(OwnedFd::from(theirs));
        let process = command.spawn().unwrap();
        drop(command);
        let mut said = String::new();
        BufReader::new(&line).read_line(&mut said).unwrap();
        let attacker = Self { process, line: Some(line) };
        match said.strip_prefix("refused") {
            Some(why) => Err(format!("no FUSE for another user{}", why.trim_end())),
            None => {
                assert_eq!(said, "held\n", "the attacker of {lock:?} has ended");
                Ok(attacker)
            }
        }
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        drop(self.line.take());
        let ended = self.process.wait();
        assert!(std::thread::panicking() || ended.is_ok_and(|status| status.success()));
    }
}

/// The main function of an attacker's process. The test holds the other end of its standard input.
fn hold(attack: &str) {
    underpass_os::process::die_with_parent().unwrap();
    let directory = Directory::from_environment();
    let mut line = fs::File::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
    let (lock, server) = attack.split_once(' ').unwrap();
    let lock = Lock::ALL.into_iter().find(|known| format!("{known:?}") == lock).unwrap();
    let device = match mounted(directory.path()) {
        Ok(device) => device,
        Err(e) => return writeln!(line, "refused: {e}").unwrap(),
    };
    let held = lock.hold(Box::new(FusePage::new(device, directory.path())), server);
    writeln!(line, "held").unwrap();
    io::copy(&mut line, &mut io::sink()).unwrap();
    drop(held);
}

/// An honest client of the attacker's user imports, and calls with files in both directions.
fn their_own_go_on(server: &str) {
    let program = Directory::from_environment().join("server");
    let mut client = Command::new(program);
    client.args([server, "carry", "2"]).uid(SOMEBODY).gid(SOMEBODY);
    assert_eq!(ran(&mut client), Ok(()));
}

#[test]
fn locks_that_another_user_holds_for_ever_hold_up_nobody_else() {
    const NAME: &str = "files::another_user::locks_that_another_user_holds_for_ever_hold_up_nobody_else";
    beside_others(NAME, || {
        let scene = Scene::with(public("others"));
        for lock in Lock::ALL {
            let attacker = match Attacker::start(NAME, lock, scene.server.name()) {
                Ok(attacker) => attacker,
                Err(why) => skip!("{why}"),
            };
            lock.until_waited_for(scene.server.pid());
            their_own_go_on(scene.server.name());
            scene.goes_on(lock, attacker);
        }
    });
}

#[test]
fn a_server_that_is_killed_while_another_user_holds_a_lock_is_heard_to_die() {
    const NAME: &str =
        "files::another_user::a_server_that_is_killed_while_another_user_holds_a_lock_is_heard_to_die";
    beside_others(NAME, || {
        let mut scene = Scene::with(public("others-killed"));
        let attacker = match Attacker::start(NAME, Lock::Pipe, scene.server.name()) {
            Ok(attacker) => attacker,
            Err(why) => skip!("{why}"),
        };
        Lock::Pipe.until_waited_for(scene.server.pid());
        kill(scene.server.pid());
        hears_of_the_death(&scene.honest);
        drop(attacker);
        scene.server.kill();
    });
}
