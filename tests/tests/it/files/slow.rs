//! Files whose closing takes as long as their sender wants. Only the sender's own domain waits for
//! that.
//!
//! Such a file is a TCP socket with a linger time that holds more than its peer reads. Closing it
//! waits until the peer has read everything, or is gone.

use crate::files::liars::{announcement_of_files, bind, lied_to};
use crate::files::scene::Scene;
use crate::files::{SERVER, closed_everywhere, import, server, watched};
use crate::hostile::end::{End, gone};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use underpass::{CallError, ImportError};
use underpass_channel::layout::{FILES, FILES_WAITING};
use underpass_os::{Directory, MOST_FILES, Socket};
use underpass_tests::{Porter, PorterClient, Room, ServerProcess, Watchdog, cont, stop, until};

unsafe extern "C" {
    fn setsockopt(socket: c_int, level: c_int, option: c_int, value: *const c_void, len: u32) -> c_int;
}

/// A socket whose last close takes as long as the other end exists, since nothing reads from that
/// end.
pub fn lingering() -> (TcpStream, TcpStream) {
    /// `SOL_SOCKET`, `SO_LINGER`, and a time longer than any test.
    const LINGER: (c_int, c_int, [c_int; 2]) = (1, 13, [1, 3600]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    let (level, option, value) = LINGER;
    // SAFETY: two words, of which the size is told.
    let set = unsafe {
        setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), size_of_val(&value) as u32)
    };
    assert_eq!(set, 0);
    socket.set_nonblocking(true).unwrap();
    let full = loop {
        if let Err(e) = socket.write(&[7; 1 << 16]) {
            break e;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    (socket, peer)
}

/// The `/proc/PID/task/TID/stat` of the closing threads of `pid`.
fn stats_of_closers(pid: u32) -> impl Iterator<Item = String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    stats.filter(|stat| stat.contains("(underpass-close"))
}

/// The number of kernel threads of `pid` that close files.
pub fn closers(pid: u32) -> usize {
    stats_of_closers(pid).count()
}

/// The number of closing threads of `pid` that wait for a kernel lock. Such a sleep cannot be
/// interrupted.
pub fn closers_that_hang(pid: u32) -> usize {
    stats_of_closers(pid).filter(|stat| stat.contains(") D ")).count()
}

/// The number of files that are open in the kernel threads of `pid` which receive passed files.
pub fn kept_by_file_threads(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let threads = tasks.filter(|task| {
        std::fs::read_to_string(task.path().join("comm"))
            .is_ok_and(|name| name.starts_with("underpass-files"))
    });
    threads.filter_map(|task| Some(std::fs::read_dir(task.path().join("fd")).ok()?.count())).sum()
}

pub fn one_closes(pid: u32) {
    until("somebody to close it", || (closers(pid) == 1).then_some(()));
}

/// Other clients of the same user import, call and pass files meanwhile. The receiver closes each
/// of these files.
pub fn others_go_on(server: &ServerProcess, honest: &PorterClient) {
    let other = import(server);
    for porter in [honest, &other] {
        let (file, reader) = watched();
        assert_eq!(porter.count(vec![file]), Ok(1));
        closed_everywhere(reader);
        assert_eq!(porter.large(vec![7; 100_000], watched().0).unwrap().1.len(), 100_000);
    }
}

pub fn until_nobody_closes(pid: u32) {
    until("nobody to close", || (closers(pid) == 0).then_some(()));
}

/// The server is stopped until `say` has finished.
fn at_once(server: &ServerProcess, say: impl FnOnce()) {
    stop(server.pid());
    say();
    cont(server.pid());
}

impl Scene {
    /// Checks that a client that leaves a file in this way delays nobody.
    fn holds_nobody_up(&self, leave: impl FnOnce(TcpStream)) {
        let (socket, peer) = lingering();
        leave(socket);
        one_closes(self.server.pid());
        others_go_on(&self.server, &self.honest);
        assert_eq!(closers(self.server.pid()), 1, "it is not closed yet");
        drop(peer);
        until("it to be closed", || (closers(self.server.pid()) == 0).then_some(()));
        self.files.until_no_others();
        others_go_on(&self.server, &self.honest);
        until("nobody to close", || (closers(self.server.pid()) == 0).then_some(()));
    }

    /// Says all of this while the server is stopped, so that the server finds all of it at once.
    fn says_at_once(&self, say: impl FnOnce()) {
        at_once(&self.server, say);
    }

    /// Passes `socket` with `bytes`, and has closed its own copy when the server gets it.
    fn passes(&self, to: &Socket, bytes: &[u8], socket: TcpStream) {
        self.says_at_once(|| {
            to.send(bytes, &[socket.as_fd()]).unwrap();
            drop(socket);
        });
    }
}

#[test]
fn a_file_that_no_call_takes_delays_nobody() {
    let _watchdog = Watchdog::new("a_file_that_no_call_takes_delays_nobody");
    let scene = Scene::new("slow");
    // It ends with its binding. It is replaced by another file. It comes with a message that takes
    // none. It is one file too few.
    scene.holds_nobody_up(|socket| {
        scene.passes(&bind(&scene.server).socket, &announcement_of_files(0, 1, 0), socket)
    });
    scene.holds_nobody_up(|socket| {
        let end = bind(&scene.server);
        scene.passes(&end.socket, &announcement_of_files(0, 1, 0), socket);
        end.say(&announcement_of_files(0, 0, 0), &[]);
        one_closes(scene.server.pid());
        assert!(!gone(&end.socket));
    });
    scene.holds_nobody_up(|socket| scene.passes(&bind(&scene.server).socket, &[0; 16], socket));
    scene.holds_nobody_up(|socket| {
        scene.passes(&bind(&scene.server).socket, &announcement_of_files(0, 2, 0), socket)
    });
    // As the bytes of a message, and in the place of an overflow buffer.
    let (bytes, mut overflow_buffer) =
        (crate::hostile::end::announcement(0, 8), crate::hostile::end::announcement(0, 8));
    (overflow_buffer[1], overflow_buffer[6]) = (3, 1);
    scene.holds_nobody_up(|socket| scene.passes(&bind(&scene.server).socket, &bytes, socket));
    scene.holds_nobody_up(|socket| scene.passes(&bind(&scene.server).socket, &overflow_buffer, socket));
    // More files than any honest message has.
    let null = File::open("/dev/null").unwrap();
    scene.holds_nobody_up(|socket| {
        let end = bind(&scene.server);
        scene.says_at_once(|| {
            let files: Vec<_> =
                std::iter::repeat_n(null.as_fd(), MOST_FILES - 1).chain([socket.as_fd()]).collect();
            end.say(&[0; 16], &files);
            drop(socket);
        });
    });
}

#[test]
fn a_file_that_nobody_has_looked_at_delays_nobody() {
    let _watchdog = Watchdog::new("a_file_that_nobody_has_looked_at_delays_nobody");
    let scene = Scene::new("unseen");
    let violates = [1; 7];
    for before in [&violates[..], &[]] {
        scene.holds_nobody_up(|socket| {
            let end = bind(&scene.server);
            scene.says_at_once(|| {
                // An empty message looks like an end.
                end.say(before, &[]);
                end.say(&[], &[]);
                end.say(&[], &[]);
                end.say(&announcement_of_files(0, 1, 0), &[socket.as_fd()]);
                drop((socket, end));
            });
        });
    }
    // In the queue of another socket.
    scene.holds_nobody_up(|socket| {
        let (ours, theirs) = Socket::pair().unwrap();
        ours.send(b"hidden", &[socket.as_fd()]).unwrap();
        drop((socket, ours));
        let end = bind(&scene.server);
        scene.says_at_once(|| {
            end.say(&announcement_of_files(0, 1, 0), &[theirs.as_fd()]);
            drop(theirs);
        });
    });
    // From a client without a binding.
    let connect = || Socket::connect(&Directory::from_environment(), scene.server.name()).unwrap();
    let null = File::open("/dev/null").unwrap();
    if connect().send(b"hello", &[null.as_fd()]).is_err() {
        // The kernel passes no files to a peer that has not been admitted (`SO_PASSRIGHTS`).
        return;
    }
    scene.holds_nobody_up(|socket| scene.passes(&connect(), b"hello", socket));
    scene.holds_nobody_up(|socket| {
        let stranger = connect();
        scene.says_at_once(|| {
            stranger.send(b"hello", &[]).unwrap();
            stranger.send(b"", &[]).unwrap();
            stranger.send(b"", &[socket.as_fd()]).unwrap();
            drop((socket, stranger));
        });
    });
}

/// Leaves more files than may be left, behind one that delays them. Each takes the place of the one
/// before.
fn pile_up(end: &End) {
    let slow = File::open("/").unwrap();
    for _ in 0..2 * FILES_WAITING / FILES {
        end.say(&announcement_of_files(0, FILES as u16, 0), &[slow.as_fd(); FILES]);
    }
}

#[test]
fn files_still_to_be_closed_are_bounded_and_counted() {
    let _watchdog = Watchdog::new("files_still_to_be_closed_are_bounded_and_counted");
    let name = Room::name("bounded");
    let mut command = Command::new(SERVER);
    command.args([&name, "few-bindings", "3"]);
    let Scene { server, honest, files } = Scene::with(ServerProcess::run(command, &name));
    let (socket, peer) = lingering();
    let (one, other) = (bind(&server), bind(&server));
    at_once(&server, || {
        one.say(&announcement_of_files(0, 1, 0), &[socket.as_fd()]);
        drop(socket);
    });
    for (end, ends) in [(&one, 1), (&other, 2)] {
        pile_up(end);
        let kept = || kept_by_file_threads(server.pid());
        until("as many as may be left", || (kept() > ends * FILES_WAITING).then_some(()));
        for _ in 0..20 {
            // Each file counts twice, once as a file to be closed and once in its envelope. Also
            // there are the three standard files and the thread's end of the exchange.
            let most = 5 + 2 * ends * (FILES_WAITING + 2 * FILES + 1);
            assert!(kept() <= most, "{} files more", kept());
            assert_eq!((closers(server.pid()), honest.count(vec![watched().0])), (1, Ok(1)));
        }
    }
    // Both bindings end, and count until the last of their files is closed.
    drop((one, other));
    let others = || files.others();
    until("both to end", || (others() <= 1).then_some(()));
    let refused = PorterClient::import(&name).unwrap_err();
    assert!(matches!(refused, ImportError::Limit(..)), "{refused}");
    drop(peer);
    files.until_no_others();
    until("room for others", || PorterClient::import(&name).ok());
    until("nobody to close any more", || (closers(server.pid()) == 0).then_some(()));
}

/// A server passes `file`, and no call of its client takes it.
pub fn leave_to_the_client(end: &End, file: OwnedFd) {
    // For a call that does not exist. The client keeps the file until the binding has ended.
    end.say(&announcement_of_files(40, 1, 0), &[file.as_fd()]);
    drop(file);
    // A ticket that was not asked for ends the binding.
    let mut ticket = [0; 16];
    ticket[0] = 8;
    end.say(&ticket, &[File::open("/dev/null").unwrap().as_fd()]);
}

#[test]
fn a_client_is_not_held_up_by_its_servers_files() {
    let _watchdog = Watchdog::new("a_client_is_not_held_up_by_its_servers_files");
    let honest = server("slow-beside");
    let beside = import(&honest);
    let (socket, peer) = lingering();
    let lie = |end: &End| leave_to_the_client(end, socket.into());
    lied_to("slow-server", lie, |client| {
        let result = client.null();
        assert!(matches!(result, Err(CallError::ProtocolViolation(_))), "{result:?}");
        until("somebody to close it", || (closers(std::process::id()) > 0).then_some(()));
        // The clerk still serves other bindings.
        let hasty = beside.with_deadline(std::time::Duration::from_millis(20));
        assert!(matches!(hasty.hold(watched().0), Err(CallError::Deadline(_))));
        others_go_on(&honest, &import(&honest));
        assert!(closers(std::process::id()) > 0, "it is not closed yet");
        drop(peer);
        until("it to be closed", || (closers(std::process::id()) == 0).then_some(()));
    });
}
