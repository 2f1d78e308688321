//! A domain that passes its own ends of its bindings, so that its peer keeps them open.
//!
//! `underpass-test-hiding client NAME HOW` imports the `Shelf` NAME, passes its own end as HOW
//! says, reports that, and makes no more calls. `underpass-test-hiding server NAME HOW` exports a
//! `Shelf` as NAME. Its `give` gives its own ends of all its bindings.
//!
//! HOW is `own`: the end itself. `queue`: another socket, in whose queue the end lies. `deep`: the
//! end lies in the queue of a socket that lies in the queue of a third. `unsent`, for a client: the
//! end comes beside a message that never comes.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod raw;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::time::Duration;
use underpass::{CallError, Outcome, Server};
use underpass_os::{Connected, Socket};
use underpass_tests::{Board, Shelf, ShelfClient};

fn main() -> Result<(), Box<dyn Error>> {
    underpass_os::process::die_with_parent()?;
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [what, name, how] = &arguments[..] else { return Err("three arguments".into()) };
    match what.as_str() {
        "client" => client(name, how),
        "server" => {
            let hider = Hider { board: Board::default(), before: sockets()?, how: how.clone() };
            Ok(Server::new().export(name, Shelf::serve(hider)).run()?)
        }
        _ => Err("neither a client nor a server".into()),
    }
}

/// The numbers of the sockets that this process has open.
fn sockets() -> io::Result<BTreeSet<RawFd>> {
    let files = fs::read_dir("/proc/self/fd")?.flatten();
    let sockets = files.filter(|file| {
        fs::read_link(file.path())
            .is_ok_and(|what| what.as_os_str().as_encoded_bytes().starts_with(b"socket:"))
    });
    Ok(sockets.filter_map(|file| file.file_name().to_str()?.parse().ok()).collect())
}

/// This process's ends of the bindings that were made since only the sockets `before` existed. The
/// pairs that this process has made for itself are left out.
fn own_since(before: &BTreeSet<RawFd>) -> io::Result<Vec<OwnedFd>> {
    let mut own = Vec::new();
    for &number in sockets()?.difference(before) {
        let socket = Socket::adopt(raw::another(number)?)?;
        if socket.peer()?.pid.cast_unsigned() != std::process::id() {
            own.push(socket.into());
        }
    }
    Ok(own)
}

/// A socket in whose queue these files lie. They are open nowhere else.
fn in_a_queue(files: &[OwnedFd]) -> io::Result<OwnedFd> {
    let (ours, theirs) = Socket::pair()?;
    ours.send(b"hidden", &files.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
    Ok(theirs)
}

fn hidden(files: Vec<OwnedFd>, how: &str) -> io::Result<Vec<OwnedFd>> {
    Ok(match how {
        "queue" => vec![in_a_queue(&files)?],
        "deep" => vec![in_a_queue(&[in_a_queue(&files)?])?],
        _ => files,
    })
}

fn client(name: &str, how: &str) -> Result<(), Box<dyn Error>> {
    let before = sockets()?;
    let shelf = ShelfClient::import_within(name, Duration::from_secs(60))?;
    let own = own_since(&before)?;
    match how {
        "unsent" => {
            // An out-of-band message of one file, for the last slot.
            let mut announcement = [0; 16];
            (announcement[0], announcement[1], announcement[2], announcement[4]) = (1, 1, 63, 1);
            let file = own[0].try_clone()?;
            own.into_iter().try_for_each(|own| Socket::adopt(own)?.send(&announcement, &[file.as_fd()]))?;
        }
        _ => shelf.put(hidden(own, how)?)?,
    }
    println!("passed");
    loop {
        std::thread::park();
    }
}

/// A shelf that gives files that it should not give.
struct Hider {
    board: Board,
    before: BTreeSet<RawFd>,
    how: String,
}

impl Shelf for Hider {
    fn put(&self, files: Vec<OwnedFd>) -> Result<(), CallError> {
        self.board.put(files)
    }

    fn clear(&self, files: u32) -> Result<u32, CallError> {
        self.board.clear(files)
    }

    fn give(&self) -> Result<Vec<OwnedFd>, CallError> {
        let own = own_since(&self.before).and_then(|own| hidden(own, &self.how));
        own.map_err(|e| CallError::NoResources(Outcome::Unknown, e.to_string()))
    }

    fn stay(&self) -> Result<(), CallError> {
        self.board.stay()
    }

    fn null(&self) -> Result<(), CallError> {
        Ok(())
    }
}
