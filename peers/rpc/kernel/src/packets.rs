//! Unix sequenced packets. A message that is larger than a packet goes in several; the first has
//! the length of the message before it.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect as join, listen, recv, send, socket_with,
};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use underpass_rpc_peer::{Client, Connection, Outcome, ThreadClient, Work, answer_in_place, ready};

/// The name of the socket in the directory.
const NAME: &str = "seqpacket";

/// The largest packet: the kernel's default buffer for a socket has room for some of them.
const PACKET: usize = 64 << 10;

/// The longest message that a side takes from the other.
const LONGEST: usize = 64 << 20;

/// The bytes of the length.
const LENGTH: usize = 4;

fn open() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

pub(crate) fn serve(directory: &Path) -> Outcome {
    let socket = open()?;
    bind(&socket, &SocketAddrUnix::new(directory.join(NAME))?)?;
    listen(&socket, 128)?;
    ready()?;
    loop {
        let client = accept_with(&socket, SocketFlags::CLOEXEC)?;
        // The connection ends with an error when its client closes it.
        thread::spawn(move || Packets::new(client).answer_all());
    }
}

pub(crate) fn connect(directory: &Path) -> Outcome<Box<dyn Client>> {
    let name = directory.join(NAME);
    Ok(Box::new(ThreadClient::new(move || {
        let socket = open()?;
        join(&socket, &SocketAddrUnix::new(&name)?)?;
        Ok(Packets::new(socket))
    })))
}

struct Packets {
    socket: OwnedFd,
    packet: Vec<u8>,
    message: Vec<u8>,
}

impl Packets {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, packet: vec![0; PACKET], message: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (first, rest) = bytes.split_at(bytes.len().min(PACKET - LENGTH));
        let used = LENGTH + first.len();
        self.packet[..LENGTH].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.packet[LENGTH..used].copy_from_slice(first);
        send(&self.socket, &self.packet[..used], SendFlags::NOSIGNAL)?;
        for packet in rest.chunks(PACKET) {
            send(&self.socket, packet, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let (came, _) = recv(&self.socket, &mut self.packet[..], RecvFlags::empty())?;
        let Some((length, first)) = self.packet[..came].split_first_chunk::<LENGTH>() else {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other side has closed the socket"));
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > LONGEST || first.len() > length {
            return Err(io::Error::other(format!("a message of {length} bytes can't be right")));
        }
        self.message.resize(length, 0);
        self.message[..first.len()].copy_from_slice(first);
        let mut at = first.len();
        while at < length {
            let (came, _) = recv(&self.socket, &mut self.message[at..], RecvFlags::empty())?;
            if came == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += came;
        }
        Ok(())
    }

    fn answer_all(mut self) -> io::Result<()> {
        loop {
            self.receive()?;
            let answer = answer_in_place(std::mem::take(&mut self.message));
            self.send(&answer)?;
            self.message = answer;
        }
    }
}

impl Connection for Packets {
    fn call(&mut self, work: &Work) -> Outcome {
        self.send(work.request())?;
        self.receive()?;
        work.check(&self.message)
    }
}
