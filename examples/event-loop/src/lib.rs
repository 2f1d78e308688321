//! A line server that lives in an epoll loop (by `mio`), and asks another domain for each answer.
//!
//! The loop waits for its sockets and for the completions of its calls at once. It has one thread,
//! and no executor.
//!
//! *Read first:* `EventLoop::run`.
#![forbid(unsafe_code)]

use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use underpass::CallError;
use underpass::io::Completions;

/// Answers lines.
#[underpass::interface]
pub trait Oracle {
    /// The answer to a line.
    ///
    /// # Errors
    /// The call has failed.
    fn answer(&self, line: &str) -> Result<String, CallError>;
}

/// Writes lines in capitals.
#[derive(Debug)]
pub struct Loud;

impl Oracle for Loud {
    fn answer(&self, line: &str) -> Result<String, CallError> {
        Ok(line.to_uppercase())
    }
}

const LISTENER: Token = Token(0);
const CALLS: Token = Token(1);
const FIRST: usize = 2;

/// A client of the line server.
#[derive(Debug)]
struct Client {
    socket: TcpStream,
    /// Bytes of a line that has not ended yet.
    received: Vec<u8>,
}

/// The line server.
#[derive(Debug)]
pub struct EventLoop {
    poll: Poll,
    listener: TcpListener,
    clients: HashMap<Token, Client>,
    next: usize,
    oracle: OracleClient,
    calls: Completions<Result<String, CallError>>,
    /// Which client has asked.
    asked: HashMap<u64, Token>,
}

impl EventLoop {
    /// A line server at any port of the loopback address.
    ///
    /// # Errors
    /// There is no port, or there are too many open files.
    pub fn new(oracle: OracleClient) -> io::Result<Self> {
        let (poll, calls) = (Poll::new()?, Completions::new()?);
        let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        // The calls are one more descriptor.
        poll.registry().register(&mut SourceFd(&calls.as_raw_fd()), CALLS, Interest::READABLE)?;
        let (clients, asked) = (HashMap::new(), HashMap::new());
        Ok(Self { poll, listener, clients, next: FIRST, oracle, calls, asked })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `clients` clients have come and gone.
    ///
    /// # Errors
    /// The loop can't wait.
    pub fn run(mut self, clients: usize) -> io::Result<()> {
        let (mut events, last) = (Events::with_capacity(64), FIRST + clients);
        while self.next < last || !self.clients.is_empty() {
            match self.poll.poll(&mut events, None) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    CALLS => self.answer(),
                    client => self.read(client),
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let mut socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            };
            let token = Token(self.next);
            self.next += 1;
            self.poll.registry().register(&mut socket, token, Interest::READABLE)?;
            self.clients.insert(token, Client { socket, received: Vec::new() });
        }
    }

    /// Starts a call for each line that has come.
    fn read(&mut self, token: Token) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        let mut bytes = [0; 1024];
        loop {
            match client.socket.read(&mut bytes) {
                Ok(0) => break drop(self.clients.remove(&token)),
                Ok(count) => client.received.extend_from_slice(&bytes[..count]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => break drop(self.clients.remove(&token)),
            }
            while let Some(end) = client.received.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = client.received.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                let oracle = self.oracle.clone();
                let call = self.calls.add(async move { oracle.answer_async(&line).await });
                self.asked.insert(call, token);
            }
        }
    }

    /// Passes on the results of the calls that have ended.
    fn answer(&mut self) {
        while let Some((call, answer)) = self.calls.next() {
            let answer = answer.unwrap_or_else(|error| format!("error: {error}"));
            let Some(client) = self.asked.remove(&call).and_then(|token| self.clients.get_mut(&token)) else {
                continue; // It has gone.
            };
            // A real server would keep what the socket does not take.
            let _ = client.socket.write_all(format!("{answer}\n").as_bytes());
        }
    }
}
