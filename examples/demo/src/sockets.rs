//! The transport that Underpass is compared with: hand-written Unix-domain sockets, with one
//! connection and one kernel thread for each caller.
//!
//! A frame consists of its length in 4 bytes, and then of the procedure's number and arguments, or
//! of the result. Values are encoded as in Underpass. On each side a call costs one `write` and,
//! unless it is long, one `read`. That is the least that sockets can do.

use super::switches;
use std::cell::RefCell;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use underpass::Counters;
use underpass_wire::{Decode, DecodeError, Encode};

/// The longest frame that is accepted, in bytes.
const LONGEST: usize = 64 << 20;
/// Bytes of the frame's length.
const HEAD: usize = 4;

/// The counters of the sockets of one end. `sleeps` is the kernel's own count.
pub type SharedCounters = Arc<Mutex<Counters>>;

/// Decodes a procedure's arguments, runs it, and encodes its result.
pub type SocketHandler = dyn Fn(u16, &mut &[u8], &mut Vec<u8>) -> Result<(), DecodeError> + Send + Sync;

/// One end of a connection.
struct Connection {
    stream: UnixStream,
    out: Vec<u8>,
    input: Vec<u8>,
    totals: SharedCounters,
}

impl Connection {
    fn new(stream: UnixStream, totals: SharedCounters) -> Self {
        Self { stream, out: Vec::new(), input: vec![0; 64 << 10], totals }
    }

    /// Begins the next frame to be sent.
    fn frame(&mut self) -> &mut Vec<u8> {
        self.out.clear();
        self.out.extend_from_slice(&[0; HEAD]);
        &mut self.out
    }

    fn send(&mut self) -> io::Result<()> {
        let len = (self.out.len() - HEAD) as u32;
        self.out[..HEAD].copy_from_slice(&len.to_le_bytes());
        self.stream.write_all(&self.out)?;
        self.count(|totals| totals.bytes_out += u64::from(len));
        Ok(())
    }

    /// The next frame. `None` if the peer has closed the connection between frames.
    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        let (mut have, mut need) = (0, HEAD);
        while have < need {
            let read = self.stream.read(&mut self.input[have..])?;
            self.count(|_| {});
            if read == 0 && have == 0 {
                return Ok(None);
            } else if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            have += read;
            if have >= HEAD
                && let Some(head) = self.input.first_chunk()
            {
                need = HEAD + u32::from_le_bytes(*head) as usize;
                if need > LONGEST {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("a frame of {need} bytes"),
                    ));
                }
                self.input.resize(self.input.len().max(need), 0);
            }
        }
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).bytes_in += (need - HEAD) as u64;
        Ok(Some(&self.input[HEAD..need]))
    }

    /// Counts one kernel entry, and the given counters.
    fn count(&self, more: impl FnOnce(&mut Counters)) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.kernel_entries += 1;
        more(&mut totals);
    }
}

/// A client's connection.
pub struct SocketClient {
    connection: RefCell<Connection>,
}

impl SocketClient {
    /// Connects to the server at `path`. The connection's traffic is added to `totals`.
    ///
    /// # Errors
    /// The errors of `connect`.
    pub fn connect(path: &Path, totals: &SharedCounters) -> io::Result<Self> {
        let connection = Connection::new(UnixStream::connect(path)?, totals.clone());
        Ok(Self { connection: RefCell::new(connection) })
    }

    /// Calls procedure `number`.
    ///
    /// # Errors
    /// The errors of the socket. `InvalidData` if the reply cannot be decoded.
    pub fn call<R: Decode>(&self, number: u16, arguments: &impl Encode) -> io::Result<R> {
        let mut connection = self.connection.borrow_mut();
        let frame = connection.frame();
        number.encode(frame);
        arguments.encode(frame);
        connection.send()?;
        let mut reply = connection.receive()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let result =
            R::decode(&mut reply).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
        connection.totals.lock().unwrap_or_else(PoisonError::into_inner).calls += 1;
        Ok(result)
    }

    /// The traffic of all connections that share these counters.
    pub fn counters(&self) -> Counters {
        *self.connection.borrow().totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SocketClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Serves connections at `path`, each in a kernel thread of its own, until the process ends.
///
/// # Errors
/// The errors of `bind`.
pub fn serve(path: &Path, handler: Arc<SocketHandler>, totals: &SharedCounters) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let totals = totals.clone();
    thread::Builder::new().name("accept".to_owned()).spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (handler, connection) = (handler.clone(), Connection::new(stream, totals.clone()));
            thread::spawn(move || answer(connection, &*handler));
        }
    })?;
    Ok(())
}

/// Answers the calls of one connection until it is closed.
fn answer(mut connection: Connection, handler: &SocketHandler) {
    let before = switches::of_this_thread();
    loop {
        connection.frame();
        let mut out = std::mem::take(&mut connection.out);
        let Ok(Some(mut frame)) = connection.receive() else { break };
        let served = u16::decode(&mut frame).and_then(|number| handler(number, &mut frame, &mut out));
        connection.out = out;
        if served.is_err() || connection.send().is_err() {
            break;
        }
        connection.totals.lock().unwrap_or_else(PoisonError::into_inner).served += 1;
    }
    let slept = switches::of_this_thread().saturating_sub(before);
    connection.totals.lock().unwrap_or_else(PoisonError::into_inner).sleeps += slept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_answered_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let (path, here, there) =
            (dir.path().join("echo"), SharedCounters::default(), SharedCounters::default());
        let handler: Arc<SocketHandler> = Arc::new(|number, arguments, result| {
            let text = String::decode(arguments)?;
            (number, text.repeat(usize::from(number))).encode(result);
            Ok(())
        });
        serve(&path, handler, &there).unwrap();
        let client = SocketClient::connect(&path, &here).unwrap();
        assert_eq!(client.call::<(u16, String)>(2, &"ab").unwrap(), (2, "abab".to_owned()));
        let counters = client.counters();
        assert_eq!((counters.calls, counters.kernel_entries), (1, 2));
        let long = "x".repeat(300_000);
        assert_eq!(client.call::<(u16, String)>(3, &long).unwrap().1.len(), 900_000);
        assert_eq!(client.counters().calls, 2);
        assert!(client.call::<u8>(9, &[0xff_u8; 2]).is_err());
    }
}
