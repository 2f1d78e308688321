//! Programs that were built from different versions of an interface, and call one another.

#[path = "../../src/builds/broken_archive.rs"]
#[allow(dead_code, reason = "the tests only import it")]
mod broken_archive;
#[path = "../../src/builds/first_archive.rs"]
#[allow(dead_code, reason = "the tests only import it")]
mod first_archive;
#[path = "../../src/builds/second_archive.rs"]
#[allow(dead_code, reason = "the tests only import and export it")]
mod second_archive;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use underpass::{Error, ExportError, ImportError, Server};
use underpass_channel::layout::{REGION, VERSION};
use underpass_os::{Directory, Socket, clock};
use underpass_tests::{Room, ServerProcess, Watchdog};
use underpass_wire::{from_bytes, to_bytes};

/// Knows version 1.
const FIRST: &str = env!("CARGO_BIN_EXE_underpass-test-first");
/// Knows versions 1 and 2.
const SECOND: &str = env!("CARGO_BIN_EXE_underpass-test-second");
/// Knows version 1 and another version 2.
const OTHER: &str = env!("CARGO_BIN_EXE_underpass-test-other");
/// Knows an interface of the same name that does not fit.
const BROKEN: &str = env!("CARGO_BIN_EXE_underpass-test-broken");

/// What a server of version 1 and of version 2 gets from a client of either version.
const PUT: [[&str; 2]; 2] = [
    [r#""Entry { name: \"plum\", size: 12 }""#, r#""Entry { name: \"plum\", size: 12 }""#],
    [
        r#""Entry { name: \"plum\", size: 12, owner: None, mode: 420 }""#,
        r#""Entry { name: \"plum\", size: 12, owner: Some(\"me\"), mode: 384 }""#,
    ],
];
/// What a client of version 1 and of version 2 gets from a server of either version.
const LIST: [[&str; 2]; 2] = [
    [r#"Entry { name: "e4999", size: 4999 }"#, r#"Entry { name: "e4999", size: 4999 }"#],
    [
        r#"Entry { name: "e4999", size: 4999, owner: None, mode: 420 }"#,
        r#"Entry { name: "e4999", size: 4999, owner: Some("oooooooooooooooooooo"), mode: 7 }"#,
    ],
];
const UNSUPPORTED: &str = "NotStarted: the server's version of the interface has no such method";

/// A program that imports a name. It is killed when dropped.
struct Client {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Client {
    /// Starts `binary`, which imports the server's name by `how`.
    fn start(binary: &str, server: &ServerProcess, how: &str) -> (Self, String) {
        let mut command = Command::new(binary);
        command.args([server.name(), how]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut client = Self { process, answers };
        let imported = client.answer();
        (client, imported)
    }

    /// As [`start`](Self::start). The import must succeed.
    fn imported(binary: &str, server: &ServerProcess, how: &str) -> Self {
        let (client, imported) = Self::start(binary, server, how);
        assert_eq!(imported, "imported");
        client
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The result of the call that `order` asks for.
    fn ask(&mut self, order: &str) -> String {
        self.tell(order);
        self.answer()
    }

    fn tell(&mut self, order: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{order}").unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn serve(binary: &str, name: &str) -> ServerProcess {
    ServerProcess::start(binary, &Room::name(name), "serve")
}

/// Checks that a client of the version at `client` and a server of the version at `server`
/// understand each other in all calls of version 1.
fn understand(asking: &mut Client, client: usize, server: usize) {
    assert_eq!(asking.ask("put"), PUT[server][client]);
    // The list takes more than an A-stack.
    assert_eq!(asking.ask("list 5000"), format!("(5000, Some({}))", LIST[client][server]));
    assert_eq!(asking.ask("list 0"), "(0, None)");
    let sent = match (server, client) {
        (0, _) => r#""letter and last""#,
        (_, 0) => r#""letter with [] and last""#,
        _ => r#""letter with [\"one\", \"two\"] and last""#,
    };
    assert_eq!(asking.ask("send"), sent);
}

#[test]
fn an_old_client_and_a_new_server_understand_each_other() {
    let _watchdog = Watchdog::new("an_old_client_and_a_new_server_understand_each_other");
    let server = serve(SECOND, "new-server");
    understand(&mut Client::imported(FIRST, &server, "call"), 0, 1);
}

#[test]
fn a_new_client_and_an_old_server_understand_each_other() {
    let _watchdog = Watchdog::new("a_new_client_and_an_old_server_understand_each_other");
    let server = serve(FIRST, "old-server");
    let mut client = Client::imported(SECOND, &server, "call");
    understand(&mut client, 1, 0);
    for added in ["remove", "remove-large", "clear"] {
        let told = client.ask(added);
        assert!(told.starts_with(UNSUPPORTED), "{added}: {told}");
        assert!(told.contains("upgrade the server"), "{told}");
    }
    understand(&mut client, 1, 0);
}

#[test]
fn builds_of_one_version_use_all_of_it() {
    let _watchdog = Watchdog::new("builds_of_one_version_use_all_of_it");
    let (first, second) = (serve(FIRST, "both-old"), serve(SECOND, "both-new"));
    understand(&mut Client::imported(FIRST, &first, "call"), 0, 0);
    let mut client = Client::imported(SECOND, &second, "call");
    understand(&mut client, 1, 1);
    assert_eq!(client.ask("remove"), r#"["plum"]"#);
    assert_eq!(client.ask("remove-large"), "60000");
    assert_eq!(client.ask("clear"), "7");
}

#[test]
fn sides_that_have_both_added_something_do_not_fit() {
    let _watchdog = Watchdog::new("sides_that_have_both_added_something_do_not_fit");
    let server = serve(SECOND, "apart");
    let (_client, told) = Client::start(OTHER, &server, "call");
    assert!(told.contains("exports another interface than the one imported"), "{told}");
    for differs in ["procedure rename: not there", "procedure remove: only there", "color: u8", "mode: u32"] {
        assert!(told.contains(differs), "{differs} in {told}");
    }
    // Each of them has the last version of a program that has added nothing.
    let server = serve(OTHER, "apart-other");
    assert!(Client::start(SECOND, &server, "call").1.contains("another interface"));
    let mut old = Client::imported(FIRST, &server, "call");
    assert_eq!(old.ask("put"), r#""Entry { name: \"plum\", size: 12, color: 0 }""#);
}

#[test]
fn a_change_that_adds_nothing_is_told_with_what_differs() {
    let _watchdog = Watchdog::new("a_change_that_adds_nothing_is_told_with_what_differs");
    let server = serve(SECOND, "changed");
    let failed = broken_archive::ArchiveClient::import(server.name()).unwrap_err();
    let ImportError::Mismatch { ours, theirs, ref differences, .. } = failed else { panic!("{failed}") };
    let descriptor = broken_archive::ArchiveClient::descriptor();
    assert_eq!((ours, theirs), (descriptor.hash, second_archive::ArchiveClient::descriptor().hash));
    assert!(differences.contains("procedure put: here `0 put(name: String, size: u64)"), "{differences}");
    assert!(failed.to_string().contains("since = N"), "{failed}");
}

#[test]
fn a_resilient_client_outlives_upgrades_and_downgrades() {
    let _watchdog = Watchdog::new("a_resilient_client_outlives_upgrades_and_downgrades");
    let mut server = serve(FIRST, "upgrade");
    let name = server.name().to_owned();
    let [mut old, mut new] = [FIRST, SECOND].map(|binary| Client::imported(binary, &server, "resilient"));
    understand(&mut new, 1, 0);
    assert!(new.ask("remove").starts_with(UNSUPPORTED));
    for (version, binary) in [(1, SECOND), (0, FIRST), (1, SECOND)] {
        // Both call during the upgrade.
        let pid = server.pid().to_string();
        old.tell(&format!("until {pid}"));
        new.tell(&format!("until {pid}"));
        server.leave_the_name();
        let next = ServerProcess::start(binary, &name, "replace");
        assert_eq!([old.answer(), new.answer()], [next.pid().to_string(), next.pid().to_string()]);
        server.ended();
        server = next;
        understand(&mut old, 0, version);
        understand(&mut new, 1, version);
        match version {
            0 => assert!(new.ask("clear").starts_with(UNSUPPORTED)),
            _ => {
                assert_eq!((new.ask("clear"), new.ask("remove-large")), ("7".to_owned(), "60000".to_owned()))
            }
        }
    }
    // One that is killed is followed by another version, too.
    server.kill();
    let _last = ServerProcess::start(FIRST, &name, "serve");
    understand(&mut new, 1, 0);
    understand(&mut old, 0, 0);
}

#[test]
fn a_name_has_services_for_versions_that_do_not_fit() {
    let _watchdog = Watchdog::new("a_name_has_services_for_versions_that_do_not_fit");
    let server = ServerProcess::start(SECOND, &Room::name("several"), "serve-both");
    let mut broken = Client::imported(BROKEN, &server, "call");
    assert_eq!(broken.ask("put"), r#""plum of 12 bytes""#);
    understand(&mut Client::imported(FIRST, &server, "call"), 0, 1);
    let mut second = Client::imported(SECOND, &server, "call");
    understand(&mut second, 1, 1);
    assert_eq!(second.ask("clear"), "7");
    assert_eq!(second.ask("pid"), broken.ask("pid"), "one process serves all");
    assert!(Client::start(OTHER, &server, "call").1.contains("another interface"));
}

#[test]
fn a_ticket_is_for_the_service_of_the_binding_that_is_passed_on() {
    let _watchdog = Watchdog::new("a_ticket_is_for_the_service_of_the_binding_that_is_passed_on");
    let server = ServerProcess::start(SECOND, &Room::name("several-ticket"), "serve-both");
    let client = second_archive::ArchiveClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    let pass = || {
        let (ours, theirs) = UnixStream::pair().unwrap();
        client.share_with(&ours).unwrap();
        theirs
    };
    // An older version of the same service.
    let other = first_archive::ArchiveClient::import_from(pass(), ServerProcess::soon()).unwrap();
    assert_eq!(first_archive::Archive::pid(&other), Ok(server.pid()));
    // Bindings of the other service may not be passed on.
    let failed = broken_archive::ArchiveClient::import_from(pass(), ServerProcess::soon()).unwrap_err();
    assert!(matches!(failed, ImportError::Mismatch { .. }), "{failed}");
    assert!(broken_archive::ArchiveClient::import(server.name()).is_ok());
}

#[test]
fn services_that_share_a_version_need_names_of_their_own() {
    let _watchdog = Watchdog::new("services_that_share_a_version_need_names_of_their_own");
    let name = Room::name("twice");
    let first = || first_archive::Archive::serve(first_archive::Cabinet);
    let second = || second_archive::Archive::serve(second_archive::Cabinet);
    for services in [[first(), second()], [first(), first()]] {
        let exports = services.into_iter().fold(Server::new(), |server, one| server.export(&name, one));
        let failed = exports.start().unwrap_err();
        assert!(matches!(failed, Error::Export(ExportError::SameVersion(_))), "{failed}");
        assert!(
            failed.to_string().contains(&name) && failed.to_string().contains("another name"),
            "{failed}"
        );
    }
    let broken = broken_archive::Archive::serve(broken_archive::Cabinet);
    let running = Server::new().export(&name, second()).export(&name, broken).start().unwrap();
    assert_eq!(running.paths().count(), 1);
    // Each version that is in this very process is called directly.
    let second = second_archive::ArchiveClient::import(&name).unwrap();
    assert_eq!(second_archive::Archive::clear(&second), Ok(7));
    assert_eq!(second.counters().calls, 0);
    let broken = broken_archive::ArchiveClient::import(&name).unwrap();
    assert_eq!(broken_archive::Archive::put(&broken, "x", 1), Ok("x of 1 bytes".to_owned()));
    // An older one is called over a channel, as another program would.
    let first = first_archive::ArchiveClient::import(&name).unwrap();
    assert_eq!(first_archive::Archive::pid(&first), Ok(std::process::id()));
    assert_eq!(first.counters().calls, 1);
}

#[test]
fn a_hello_gets_the_version_that_both_sides_have() {
    let _watchdog = Watchdog::new("a_hello_gets_the_version_that_both_sides_have");
    let server = serve(SECOND, "hello");
    let [old, new] = [0, 1].map(|at| second_archive::ArchiveClient::descriptor().versions[at].hash);
    let head = (0x5552_5043u32, VERSION, REGION as u64);
    // The kind of the answer, and the hash in a welcome.
    let answer = |hashes: &[u64]| {
        let socket = Socket::connect(&Directory::from_environment(), server.name()).unwrap();
        let clock = (clock::ahead_ns(), clock::now_ns());
        let hello = to_bytes(&(head, hashes, (false, None::<u32>, false), clock, Vec::<u128>::new()));
        socket.send(&hello, &[]).unwrap();
        socket.wait(u64::MAX / 2).unwrap();
        let mut bytes = [0; 4096];
        let received = socket.receive(&mut bytes).unwrap();
        let welcome = bytes[..received.len].get(20..28);
        (bytes[16], (bytes[16] == 0).then(|| from_bytes::<u64>(welcome.unwrap()).unwrap()))
    };
    for (hashes, told) in [
        (&[old][..], (0, Some(old))),
        (&[new, old], (0, Some(new))),
        (&[7, new, old], (0, Some(new))),
        // No honest client says these. Nothing is promised but an answer.
        (&[old, new], (0, Some(old))),
        (&[new; 64], (0, Some(new))),
        (&[7, old], (2, None)),
        (&[7], (2, None)),
        (&[], (3, None)),
        (&[new; 65], (3, None)),
    ] {
        assert_eq!(answer(hashes), told, "{hashes:x?}");
    }
    understand(&mut Client::imported(FIRST, &server, "call"), 0, 1);
}
