//! Open files as arguments and results. They arrive, and no copy stays open, whichever side ends.
//!
//! A pipe shows that no copy is left: its reader sees the end when the last writable copy is
//! closed, in any process and in any message in transit.

mod another_user;
mod ends;
mod fuse_page;
mod held;
mod hidden;
mod liars;
mod lock;
mod missing_page;
mod ports;
mod scene;
mod sealed;
mod shapes;
mod slow;
mod snare;

use std::fs::File;
use std::io::{PipeReader, Read, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use underpass_tests::{PorterClient, Room, ServerProcess};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn server(of: &str) -> ServerProcess {
    ServerProcess::start(SERVER, &Room::name(of), "porter")
}

/// A server that every user may import. It has one processor, so a worker that hangs is its only
/// one, unless another takes its place.
fn public(of: &str) -> ServerProcess {
    ServerProcess::start_with(SERVER, &Room::name(of), "public", |command| {
        command.env("UNDERPASS_PROCESSORS", "1");
    })
}

fn import(server: &ServerProcess) -> PorterClient {
    PorterClient::import_within(server.name(), ServerProcess::soon()).unwrap()
}

/// A pipe's writing end, and the reading end, which shows when the former is closed everywhere.
fn watched() -> (OwnedFd, PipeReader) {
    let (reader, writer) = pipe().unwrap();
    (writer.into(), reader)
}

/// Waits until nothing can write any more. There is no limit, because the watchdog ends a test that
/// waits in vain.
fn closed_everywhere(mut reader: PipeReader) {
    assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
}

/// The identity of a pipe or a file.
fn identity(file: impl AsFd) -> (u64, u64) {
    let found = File::from(file.as_fd().try_clone_to_owned().unwrap()).metadata().unwrap();
    (found.dev(), found.ino())
}
