//! Two named pipes for each connection. Their names go over a Unix socket first.

use crate::framed::Framed;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::pipe::fcntl_setpipe_size;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use underpass_rpc_peer::{Client, Outcome, ThreadClient, ready};

/// The name of the socket in the directory.
const NAME: &str = "pipe";

/// The room of a pipe: what the kernel allows everybody by default.
const ROOM: usize = 1 << 20;

pub(crate) fn serve(directory: &Path) -> Outcome {
    let listener = UnixListener::bind(directory.join(NAME))?;
    ready()?;
    loop {
        let (mut client, _) = listener.accept()?;
        let mut number = [0; 8];
        client.read_exact(&mut number)?;
        let (there, back) = names(directory, u64::from_le_bytes(number));
        // In the client's order: to open a pipe waits for the other side.
        let (from, to) = (File::open(there)?, OpenOptions::new().write(true).open(back)?);
        enlarge(&to);
        // The connection ends with an error when its client closes it.
        thread::spawn(move || Framed::new(from, to).answer_all());
    }
}

fn names(directory: &Path, number: u64) -> (PathBuf, PathBuf) {
    (directory.join(format!("pipe-{number}-there")), directory.join(format!("pipe-{number}-back")))
}

pub(crate) fn connect(directory: &Path) -> Outcome<Box<dyn Client>> {
    let directory = directory.to_owned();
    let numbers = AtomicU64::new(0);
    Ok(Box::new(ThreadClient::new(move || {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let (there, back) = names(&directory, number);
        for name in [&there, &back] {
            mknodat(CWD, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        UnixStream::connect(directory.join(NAME))?.write_all(&number.to_le_bytes())?;
        let (to, from) = (OpenOptions::new().write(true).open(&there)?, File::open(&back)?);
        enlarge(&to);
        remove(&there, &back)?;
        Ok(Framed::new(from, to))
    })))
}

/// A pipe that stays smaller, because this user's pipes have used up their share, works as well.
fn enlarge(pipe: &File) {
    let _ = fcntl_setpipe_size(pipe, ROOM);
}

/// Both sides have opened the pipes: they need no names any more.
fn remove(there: &Path, back: &Path) -> io::Result<()> {
    fs::remove_file(there)?;
    fs::remove_file(back)
}
