//! Peers that pass their own end of a binding's socket to somebody who keeps it. Their deaths must
//! be noticed all the same.

use crate::files::SERVER;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use underpass::{CallError, Outcome, thread};
use underpass_harness::skip;
use underpass_os::Connected;
use underpass_tests::{Files, Room, ServerProcess, Shelf, ShelfClient, Watchdog, regions_of, until};

const HIDING: &str = env!("CARGO_BIN_EXE_underpass-test-hiding");

/// Ways of passing the end after which this side holds it.
const KEPT: [&str; 3] = ["own", "queue", "deep"];

/// A server that keeps the files that it gets, and an honest client of it.
struct Scene {
    server: ServerProcess,
    honest: ShelfClient,
    files: Files,
}

impl Scene {
    fn new(of: &str) -> Self {
        let server = ServerProcess::start(SERVER, &Room::name(of), "shelf");
        let honest = ShelfClient::import_within(server.name(), ServerProcess::soon()).unwrap();
        honest.null().unwrap();
        let files = Files::of(server.pid());
        Self { server, honest, files }
    }

    /// A client that has passed its end.
    fn hides(&self, how: &str) -> Child {
        let mut command = Command::new(HIDING);
        let mut client =
            command.args(["client", self.server.name(), how]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(client.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "passed\n", "{how}");
        client
    }
}

fn kill(mut process: Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

fn pidfds(pid: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let is = |path: std::path::PathBuf| path.to_string_lossy().contains("pidfd");
    files.filter(|file| std::fs::read_link(file.path()).is_ok_and(is)).count()
}

/// Whether this kernel reports which process is at the other end of a socket (Linux 6.5).
fn is_told() -> bool {
    let (one, _other) = underpass_os::Socket::pair().unwrap();
    one.peer_process().is_ok()
}

#[test]
fn a_client_that_passes_its_own_end_does_not_hide_its_death() {
    let _watchdog = Watchdog::new("a_client_that_passes_its_own_end_does_not_hide_its_death");
    if !is_told() {
        skip!("this kernel does not tell which process is at the other end of a socket");
    }
    let scene = Scene::new("hidden-clients");
    for how in KEPT {
        let client = scene.hides(how);
        assert_eq!((regions_of(scene.server.pid()), pidfds(scene.server.pid())), (2, 1), "{how}");
        kill(client);
        // The end is still on the shelf.
        until("the server to hear of it", || (regions_of(scene.server.pid()) == 1).then_some(()));
        assert_eq!(scene.honest.clear(0), Ok(1), "{how}");
        assert_eq!(scene.honest.clear(1), Ok(0));
        scene.files.until_no_others();
    }
}

#[test]
fn a_client_whose_message_never_comes_does_not_hide_its_death() {
    let _watchdog = Watchdog::new("a_client_whose_message_never_comes_does_not_hide_its_death");
    if !is_told() {
        skip!("this kernel does not tell which process is at the other end of a socket");
    }
    let scene = Scene::new("hidden-unsent");
    for _ in 0..10 {
        let client = scene.hides("unsent");
        let server = scene.server.pid();
        until("the server to have it", || (pidfds(server) == 1 && regions_of(server) == 2).then_some(()));
        kill(client);
        scene.files.until_no_others();
        assert_eq!(regions_of(scene.server.pid()), 1);
    }
}

#[test]
fn a_server_that_gives_its_own_end_does_not_hide_its_death() {
    let _watchdog = Watchdog::new("a_server_that_gives_its_own_end_does_not_hide_its_death");
    if !is_told() {
        skip!("this kernel does not tell which process is at the other end of a socket");
    }
    for how in KEPT {
        let name = Room::name(&format!("hidden-server-{how}"));
        let mut command = Command::new(HIDING);
        command.args(["server", &name, how]);
        let mut server = ServerProcess::run(command, &name);
        let client = ShelfClient::import_within(&name, ServerProcess::soon()).unwrap();
        let given = client.give().unwrap();
        assert!(!given.is_empty());
        // A call that begins, and a call before it that is answered.
        let called = client.clone();
        let caller = thread::spawn(move || called.stay());
        until("the call to begin", || (client.counters().calls >= 2 && client.null().is_ok()).then_some(()));
        server.kill();
        assert_eq!(caller.join().unwrap(), Err(CallError::PeerDied(Outcome::Unknown)), "{how}");
        assert_eq!(client.null(), Err(CallError::PeerDied(Outcome::NotStarted)));
        drop(given);
    }
}

#[test]
fn a_socket_of_a_living_peer_is_a_file_like_others() {
    let _watchdog = Watchdog::new("a_socket_of_a_living_peer_is_a_file_like_others");
    let scene = Scene::new("sockets");
    let server = scene.server.pid();
    let watched = usize::from(is_told());
    let client = ShelfClient::import_apart(scene.server.name(), ServerProcess::soon()).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    client.put(vec![reader.into(), std::fs::File::open("/").unwrap().into()]).unwrap();
    assert_eq!((pidfds(server), client.clear(2)), (0, Ok(0)), "a pipe and a directory hide nothing");
    drop(writer);
    for _ in 0..100 {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"unread").unwrap();
        client.put(vec![theirs.into()]).unwrap();
        assert_eq!(pidfds(server), watched, "once for a binding");
        assert_eq!(client.clear(1), Ok(0));
        assert!(ours.read(&mut [0; 8]).is_err(), "it was closed there, with bytes that nobody had read");
    }
    assert_eq!(client.null(), Ok(()));
    drop(client);
    scene.files.until_no_others();
    assert_eq!((pidfds(server), scene.honest.null()), (0, Ok(())));
}

#[test]
fn a_socket_is_refused_where_its_senders_death_could_not_be_heard() {
    let _watchdog = Watchdog::new("a_socket_is_refused_where_its_senders_death_could_not_be_heard");
    if !is_told() {
        skip!("this kernel does not tell which process is at the other end of a socket");
    }
    let name = Room::name("hidden-poor");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\"", SERVER, &name, "shelf"]);
    let server = ServerProcess::run(command, &name);
    let shelf = ShelfClient::import_within(&name, ServerProcess::soon()).unwrap();
    let pipe = || vec![OwnedFd::from(std::io::pipe().unwrap().0)];
    let socket = || vec![OwnedFd::from(UnixStream::pair().unwrap().0)];
    let no_room = |result| assert!(matches!(result, Err(CallError::NoResources(..))), "{result:?}");
    // Until there is room for one more descriptor. A file takes two for a moment, because it comes
    // in an envelope. A socket's sender is watched before the socket is taken out.
    let mut put = 0;
    while shelf.put(pipe()).is_ok() {
        put += 1;
    }
    for _ in 0..10 {
        no_room(shelf.put(socket()));
    }
    assert_eq!((pidfds(server.pid()), shelf.clear(1)), (0, Ok(put - 1)));
    until("the binding to go on, and a pipe to go in", || shelf.put(pipe()).ok());
    assert_eq!(shelf.clear(2), Ok(put - 2));
    assert_eq!((shelf.put(socket()), pidfds(server.pid())), (Ok(()), 1));
}
