//! Names that are found, missing, taken, stale, forbidden or invalid.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use underpass::{Error, ExportError, ImportError, Server};
use underpass_harness::skip;
use underpass_os::{Directory, Socket, clock};
use underpass_tests::{
    OtherClient, Probe, ProbeClient, Room, ServerProcess, Subject, Watchdog, cont, kill, stop,
};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn export(name: &str) -> Result<underpass::Running, Error> {
    Server::new().export(name, Probe::serve(Subject::default())).start()
}

#[test]
fn a_missing_name_is_told_at_once() {
    let _watchdog = Watchdog::new("a_missing_name_is_told_at_once");
    let failed = ProbeClient::import(&Room::name("missing")).unwrap_err();
    assert!(matches!(failed, ImportError::NotExported(_)), "{failed}");
    assert!(failed.to_string().contains("import_within"), "{failed}");
}

/// The error of a program of another process for a name that nobody exports.
fn missing(name: &str, set: &[(&str, &Path)]) -> String {
    let mut client = Command::new(SERVER);
    client.args([name, "linger"]).env_remove("UNDERPASS_DIR").env_remove("XDG_RUNTIME_DIR");
    client.envs(set.iter().copied());
    let output = client.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_missing_name_is_told_with_where_it_was_looked_up() {
    let _watchdog = Watchdog::new("a_missing_name_is_told_with_where_it_was_looked_up");
    let name = Room::name("nowhere");
    let session = std::env::temp_dir().join(format!("underpass-session-{}", std::process::id()));
    let directory = session.join("underpass");
    fs::create_dir_all(&directory).unwrap();

    let named = missing(&name, &[("UNDERPASS_DIR", &directory), ("XDG_RUNTIME_DIR", &session)]);
    let path = directory.join(&name);
    assert!(named.starts_with(&format!("Error: no server exports {}: ", path.display())), "{named}");
    assert!(named.contains(&format!("only in {}", directory.display())), "{named}");
    assert!(named.contains("$UNDERPASS_DIR names it") && named.contains("import_within"), "{named}");
    assert!(named.contains("a server of another user, or with another $UNDERPASS_DIR"), "{named}");

    let of_session = missing(&name, &[("XDG_RUNTIME_DIR", &session)]);
    assert!(of_session.contains(&format!("no server exports {}: ", path.display())), "{of_session}");
    assert!(of_session.contains("it is in $XDG_RUNTIME_DIR, as $UNDERPASS_DIR is not set"), "{of_session}");

    let (user, of_user) = match underpass_os::process::user() {
        0 => ("/run/underpass".to_owned(), missing(&name, &[])),
        user => (format!("/tmp/underpass-{user}"), missing(&name, &[])),
    };
    assert!(of_user.contains(&format!("only in {user}")), "{of_user}");
    assert!(of_user.contains("neither $UNDERPASS_DIR nor $XDG_RUNTIME_DIR is set"), "{of_user}");

    // The server exports it in the session, and the other side has another variable set.
    let running = Server::new().directory(&directory).export(&name, Probe::serve(Subject::default())).start();
    let elsewhere = Room::directory();
    let found = missing(&name, &[("UNDERPASS_DIR", elsewhere), ("XDG_RUNTIME_DIR", &session)]);
    let remedy = format!(
        "{} exists: if that is the server, set UNDERPASS_DIR={}",
        path.display(),
        directory.display()
    );
    assert!(found.contains(&remedy), "{found}");
    drop(running);
    fs::remove_dir_all(session).unwrap();
}

#[test]
fn a_name_of_another_user_is_found_by_root() {
    let _watchdog = Watchdog::new("a_name_of_another_user_is_found_by_root");
    if underpass_os::process::user() != 0 {
        skip!("only root sees what other users export");
    }
    let name = Room::name("somebody's");
    let directory = PathBuf::from(format!("/tmp/underpass-{}", 4_100_000_000 + std::process::id()));
    fs::create_dir(&directory).unwrap();
    let _socket = UnixListener::bind(directory.join(&name)).unwrap();
    chown(&directory, Some(61_000), Some(61_000)).unwrap();
    let told = missing(&name, &[("UNDERPASS_DIR", Room::directory())]);
    fs::remove_dir_all(&directory).unwrap();
    let path = directory.join(&name);
    assert!(told.contains(&format!("user 61000 exports {}: run as that user", path.display())), "{told}");
}

/// The server has certainly ended. It may be started again, so `import_within` waits for that.
#[test]
fn a_dead_server_is_told_at_once_or_waited_for() {
    let _watchdog = Watchdog::new("a_dead_server_is_told_at_once_or_waited_for");
    let mut server = ServerProcess::start(SERVER, &Room::name("dead"), "probe");
    let first = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap().pid().unwrap();
    server.kill();
    let failed = ProbeClient::import(server.name()).unwrap_err();
    assert!(matches!(failed, ImportError::Dead(_)), "{failed}");
    assert!(failed.to_string().contains("wait for the next one with import_within"), "{failed}");
    let failed = ProbeClient::import_within(server.name(), Duration::from_millis(30)).unwrap_err();
    assert!(matches!(failed, ImportError::Dead(_)), "{failed}");

    let name = server.name().to_owned();
    let waiting = std::thread::spawn(move || ProbeClient::import_within(&name, ServerProcess::soon()));
    let next = ServerProcess::start(SERVER, server.name(), "probe");
    let bound = waiting.join().unwrap().unwrap().pid();
    assert_eq!(bound, Ok(next.pid()));
    assert_ne!(bound, Ok(first));
}

#[test]
fn an_import_waits_for_a_server_but_not_for_ever() {
    let _watchdog = Watchdog::new("an_import_waits_for_a_server_but_not_for_ever");
    let name = Room::name("late");
    let failed = ProbeClient::import_within(&name, Duration::from_millis(30)).unwrap_err();
    assert!(matches!(failed, ImportError::NotExported(_)), "{failed}");
    let waiting = name.clone();
    let importer = std::thread::spawn(move || ProbeClient::import_within(&waiting, ServerProcess::soon()));
    let server = ServerProcess::start(SERVER, &name, "probe");
    assert_eq!(importer.join().unwrap().unwrap().pid(), Ok(server.pid()));
}

#[test]
fn another_interface_is_told_with_what_differs() {
    let _watchdog = Watchdog::new("another_interface_is_told_with_what_differs");
    let server = ServerProcess::start(SERVER, &Room::name("mismatch"), "probe");
    let failed = OtherClient::import_within(server.name(), ServerProcess::soon()).unwrap_err();
    let ImportError::Mismatch { ours, theirs, ref differences, .. } = failed else { panic!("{failed}") };
    assert_eq!((ours, theirs), (OtherClient::descriptor().hash, ProbeClient::descriptor().hash));
    assert!(differences.contains("different"), "{differences}");
    assert!(failed.to_string().contains(&format!("{theirs:016x}")), "{failed}");
}

#[test]
fn a_stale_name_is_replaced_and_a_living_one_refused() {
    let _watchdog = Watchdog::new("a_stale_name_is_replaced_and_a_living_one_refused");
    let mut server = ServerProcess::start(SERVER, &Room::name("stale"), "probe");
    let refused = export(server.name()).unwrap_err();
    assert!(matches!(refused, Error::Export(ExportError::Taken(_))), "{refused}");
    server.kill();
    let failed = ProbeClient::import(server.name()).unwrap_err();
    assert!(matches!(failed, ImportError::Dead(_)), "{failed}");
    let running = export(server.name()).unwrap();
    assert!(ProbeClient::import(server.name()).is_ok());
    running.stop();
    assert!(matches!(ProbeClient::import(server.name()).unwrap_err(), ImportError::NotExported(_)));
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let _watchdog = Watchdog::new("a_file_that_is_no_socket_is_left_alone");
    let (name, path) = (Room::name("file"), Room::directory().join(Room::name("file")));
    fs::write(&path, "somebody's").unwrap();
    let refused = export(&name).unwrap_err();
    assert!(refused.to_string().contains("no socket"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
    fs::remove_file(path).unwrap();
}

#[test]
fn names_that_can_t_be_are_refused_on_both_sides() {
    let long = "x".repeat(65);
    for name in ["", "a/b", "../x", "a\0b", ".", "..", &long] {
        assert!(matches!(ProbeClient::import(name).unwrap_err(), ImportError::BadName(_)), "{name:?}");
        assert!(matches!(export(name).unwrap_err(), Error::Export(ExportError::BadName(_))), "{name:?}");
    }
}

#[test]
fn a_directory_that_others_can_write_is_refused() {
    let directory = std::env::temp_dir().join(format!("underpass-open-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
    let refused = Server::new().directory(&directory).export("a", Probe::serve(Subject::default())).start();
    let told = refused.unwrap_err().to_string();
    fs::remove_dir(&directory).unwrap();
    assert!(told.contains("others can write") && told.contains("chmod go-w"), "{told}");
}

#[test]
fn a_name_that_can_t_be_put_there_is_told_with_its_path_and_what_to_do() {
    let _watchdog = Watchdog::new("a_name_that_can_t_be_put_there");
    let directory = std::env::temp_dir().join(format!("underpass-read-only-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    // Root may write everywhere, and the checkout may not be readable to others.
    let (program, root) = (directory.join("server"), underpass_os::process::user() == 0);
    fs::copy(SERVER, &program).unwrap();
    fs::write(directory.join("file"), "").unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o555)).unwrap();
    let export = |directory: &Path, name: &str| {
        let mut server = Command::new(&program);
        server.args([name, "probe"]).env("UNDERPASS_DIR", directory);
        if root {
            server.uid(65534).gid(65534);
        }
        // Another test may have started a process while the program was written here.
        let output = loop {
            match server.output() {
                Err(e) if e.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                done => break done.unwrap(),
            }
        };
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let refused = [export(&directory, "a"), export(&directory.join("below"), "a")];
    let stands = export(&directory, "file");
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    for (told, path) in refused.iter().zip([directory.join("a"), directory.join("below")]) {
        assert!(told.contains(path.to_str().unwrap()) && told.contains("Permission denied"), "{told}");
        assert!(told.contains("name one of your own with $UNDERPASS_DIR or Server::directory"), "{told}");
    }
    assert!(stands.contains(directory.join("file").to_str().unwrap()), "{stands}");
    assert!(stands.contains("no socket") && stands.contains("take another name"), "{stands}");
}

#[test]
fn another_user_is_refused_unless_the_mode_lets_it() {
    let _watchdog = Watchdog::new("another_user_is_refused_unless_the_mode_lets_it");
    if underpass_os::process::user() != 0 {
        skip!("only root can become another user");
    }
    // A directory that another user can read. The checkout may not be one.
    let directory = std::env::temp_dir().join(format!("underpass-users-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    let client = directory.join("client");
    fs::copy(SERVER, &client).unwrap();
    fs::set_permissions(&client, Permissions::from_mode(0o755)).unwrap();
    let running = |mode| {
        Server::new()
            .directory(&directory)
            .mode(mode)
            .export("a", Probe::serve(Subject::default()))
            .start()
            .unwrap()
    };
    let import = || {
        let output = Command::new(&client)
            .args(["a", "import"])
            .env("UNDERPASS_DIR", &directory)
            .uid(65534)
            .gid(65534)
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let closed = running(0o600);
    let (let_in, told) = import();
    drop(closed);
    let open = running(0o666);
    let opened = import();
    drop(open);
    fs::remove_dir_all(&directory).unwrap();
    assert!(!let_in && told.contains("export it with Server::mode(0o666)"), "{told}");
    assert!(opened.0, "{}", opened.1);
}

#[test]
fn a_domain_without_files_is_told_what_to_raise() {
    let _watchdog = Watchdog::new("a_domain_without_files_is_told_what_to_raise");
    let server = ServerProcess::start(SERVER, &Room::name("files"), "probe");
    let mut refused = 0;
    // From too few files for anything to enough of them. At each number, another step is the first
    // that has no file.
    for files in 4..12 {
        let script = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        let output =
            Command::new("sh").args(["-c", &script, SERVER, server.name(), "import"]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            refused += 1;
            assert!(told.contains("os error 24") && !told.contains("panicked"), "with {files} files: {told}");
        }
    }
    assert!(refused > 0, "so few files can't be enough");
    assert!(ProbeClient::import(server.name()).unwrap().null().is_ok(), "the server goes on");
}

/// Whether `pid` has an inotify descriptor. Closing one makes the kernel wait for a grace period.
fn has_inotify(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|at| at.ends_with("anon_inode:inotify"))
}

#[test]
fn a_killed_server_accepts_nobody_once_its_clients_have_heard() {
    /// The connections that the kernel queues at a socket.
    const BACKLOG: usize = 1024;
    let _watchdog = Watchdog::new("a_killed_server_accepts_nobody");
    let directory = Directory::from_environment();
    let mut accepted = Vec::new();
    for _ in 0..10 {
        let mut server = ServerProcess::start(SERVER, &Room::name("killed"), "probe");
        // By then it is in `run`.
        assert_eq!(ProbeClient::import(server.name()).unwrap().null(), Ok(()));
        assert!(!has_inotify(server.pid()));
        let known = Socket::connect(&directory, server.name()).unwrap();
        kill(server.pid());
        assert!(known.wait(clock::deadline_ns(Duration::from_secs(60))).unwrap(), "the end is heard");
        accepted.push((0..).take_while(|_| Socket::connect(&directory, server.name()).is_ok()).count());
        server.kill();
    }
    // The fewest: while one process ends, others may run in its place.
    let least = *accepted.iter().min().unwrap();
    assert!(least < BACKLOG / 10, "connections that a dead process accepted: {accepted:?}");
}

#[test]
fn a_process_that_waits_for_a_server_has_nothing_that_delays_its_end() {
    let _watchdog = Watchdog::new("a_process_that_waits_for_a_server");
    let name = Room::name("awaited");
    let waiting = name.clone();
    let importer = std::thread::spawn(move || ProbeClient::import_within(&waiting, ServerProcess::soon()));
    for _ in 0..1000 {
        assert!(!has_inotify(std::process::id()) && !importer.is_finished());
    }
    let _running = export(&name).unwrap();
    // It finds this process, or a name that leads to it.
    importer.join().unwrap().unwrap();
}

#[test]
fn an_import_waits_while_more_clients_than_the_kernel_queues_wait_to_be_accepted() {
    let _watchdog = Watchdog::new("an_import_waits_while_more_clients_wait");
    let server = ServerProcess::start(SERVER, &Room::name("queue"), "probe");
    let directory = Directory::from_environment();
    stop(server.pid());
    let queue: Vec<_> = (0..).map_while(|_| Socket::connect(&directory, server.name()).ok()).collect();
    let begun = Instant::now();
    let little = Duration::from_millis(50);
    let failed = ProbeClient::import_within(server.name(), little).unwrap_err();
    // It may take longer, but not less.
    assert!(matches!(failed, ImportError::NoAnswer(..)) && begun.elapsed() >= little, "{failed}");
    let name = server.name().to_owned();
    let importer = std::thread::spawn(move || ProbeClient::import_within(&name, ServerProcess::soon()));
    cont(server.pid());
    let client = importer.join().unwrap().unwrap();
    assert_eq!(client.pid(), Ok(server.pid()));
    drop(queue);
}
