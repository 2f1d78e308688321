//! Unix stream sockets.

use crate::framed::Framed;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use underpass_rpc_peer::{Client, Outcome, ThreadClient, ready};

/// The name of the socket in the directory.
const NAME: &str = "stream";

pub(crate) fn serve(directory: &Path) -> Outcome {
    for stream in listen(directory)? {
        let stream = stream?;
        // The connection ends with an error when its client closes it.
        thread::spawn(move || Framed::new(stream.try_clone()?, stream).answer_all());
    }
    Ok(())
}

pub(crate) fn serve_spinning(directory: &Path) -> Outcome {
    for stream in listen(directory)? {
        let stream = stream?;
        stream.set_nonblocking(true)?;
        thread::spawn(move || Framed::new(Spinning(stream.try_clone()?), Spinning(stream)).answer_all());
    }
    Ok(())
}

fn listen(directory: &Path) -> Outcome<impl Iterator<Item = io::Result<UnixStream>>> {
    let listener = UnixListener::bind(directory.join(NAME))?;
    ready()?;
    Ok(std::iter::from_fn(move || Some(listener.accept().map(|(stream, _)| stream))))
}

pub(crate) fn connect(directory: &Path) -> Outcome<Box<dyn Client>> {
    let socket = directory.join(NAME);
    Ok(Box::new(ThreadClient::new(move || {
        let stream = UnixStream::connect(&socket)?;
        Ok(Framed::new(stream.try_clone()?, stream))
    })))
}

pub(crate) fn connect_spinning(directory: &Path) -> Outcome<Box<dyn Client>> {
    let socket = directory.join(NAME);
    Ok(Box::new(ThreadClient::new(move || {
        let stream = UnixStream::connect(&socket)?;
        stream.set_nonblocking(true)?;
        Ok(Framed::new(Spinning(stream.try_clone()?), Spinning(stream)))
    })))
}

/// A socket that is asked again and again instead of blocking.
struct Spinning(UnixStream);

fn spin<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            done => return done,
        }
    }
}

impl Read for Spinning {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        spin(|| self.0.read(to))
    }
}

impl Write for Spinning {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        spin(|| self.0.write(from))
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        spin(|| self.0.write_vectored(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
