//! The connection to a vhost-user device: one request at a time, each of which is answered.

use crate::DeviceError;
use crate::vhost_user::message::{VHOST_HEADER, VhostCommand, VhostHeader};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::PoisonError;
use std::time::Duration;
use underpass_os::clock::{deadline_ns, now_ns};
use underpass_os::{DeviceStream, StreamEvent};
use underpass_threads::{blocking, in_injected_task};

#[derive(Debug)]
pub(crate) struct VhostConnection {
    stream: DeviceStream,
    patience: Duration,
    /// Held by the thread whose request is under way.
    one: underpass_sync::Mutex<()>,
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    /// Not at all: both sides have not agreed on more yet.
    Never,
    /// By a number, which is 0 if it was done.
    Done,
    /// By what was asked for.
    Payload,
}

impl VhostConnection {
    pub(crate) fn new(stream: DeviceStream, patience: Duration) -> Self {
        Self { stream, patience, one: underpass_sync::Mutex::new(()) }
    }

    /// Asks for something. Returns the payload of the reply.
    pub(crate) fn ask(
        &self,
        what: &'static str,
        command: VhostCommand,
        payload: &[u8],
    ) -> Result<Vec<u8>, DeviceError> {
        self.exchange(what, command, payload, &[], Answered::Payload)
    }

    /// Asks for a number.
    pub(crate) fn ask_number(&self, what: &'static str, command: VhostCommand) -> Result<u64, DeviceError> {
        let told = self.ask(what, command, &[])?;
        let number = told.try_into().map(u64::from_le_bytes);
        number.map_err(|_| self.malformed("a reply is no number"))
    }

    /// Has something done before both sides have agreed that this is answered.
    pub(crate) fn tell(
        &self,
        what: &'static str,
        command: VhostCommand,
        payload: &[u8],
    ) -> Result<(), DeviceError> {
        self.exchange(what, command, payload, &[], Answered::Never).map(drop)
    }

    /// Has something done, and waits for the answer that it was.
    pub(crate) fn order(
        &self,
        what: &'static str,
        command: VhostCommand,
        payload: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<(), DeviceError> {
        let told = self.exchange(what, command, payload, files, Answered::Done)?;
        match told.try_into().map(u64::from_le_bytes) {
            Ok(0) => Ok(()),
            Ok(error) => Err(DeviceError::Refused(what, error as i32)),
            Err(_) => Err(self.malformed("a reply is no number")),
        }
    }

    fn exchange(
        &self,
        what: &'static str,
        command: VhostCommand,
        payload: &[u8],
        files: &[BorrowedFd<'_>],
        answered: Answered,
    ) -> Result<Vec<u8>, DeviceError> {
        if in_injected_task() {
            return Err(DeviceError::InHandler(what));
        }
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = deadline_ns(self.patience);
        let header = VhostHeader {
            command: command as u32,
            is_reply: false,
            needs_reply: answered == Answered::Done,
            size: payload.len() as u32,
        };
        let message = [&header.encode(), payload].concat();
        let told = blocking(|| {
            self.send(&message, files, deadline)?;
            if answered == Answered::Never { Ok(Vec::new()) } else { self.receive(command, deadline) }
        });
        told.map_err(|e| {
            self.hang_up();
            match e {
                DeviceError::Late(_) => DeviceError::Late(what),
                e => e,
            }
        })
    }

    fn send(&self, message: &[u8], files: &[BorrowedFd<'_>], deadline: u64) -> Result<(), DeviceError> {
        let (mut left, mut files) = (message, files);
        while !left.is_empty() {
            match self.stream.send(left, files) {
                Ok(sent) => (left, files) = (&left[sent..], &[]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(StreamEvent::Writable, deadline)?;
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn receive(&self, command: VhostCommand, deadline: u64) -> Result<Vec<u8>, DeviceError> {
        let mut header = [0; VHOST_HEADER];
        self.fill(&mut header, deadline)?;
        let header = VhostHeader::decode(&header).ok_or(DeviceError::Malformed("a header can't be"))?;
        if !header.is_reply || header.command != command as u32 {
            return Err(DeviceError::Malformed("a message came that is no reply to the request"));
        }
        let mut payload = vec![0; header.size as usize];
        self.fill(&mut payload, deadline)?;
        Ok(payload)
    }

    fn fill(&self, mut buffer: &mut [u8], deadline: u64) -> Result<(), DeviceError> {
        while !buffer.is_empty() {
            // Files that come along are closed.
            match self.stream.receive(buffer, &mut Vec::new()) {
                Ok(0) => return Err(DeviceError::Gone),
                Ok(received) => buffer = &mut buffer[received..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(StreamEvent::Readable, deadline)?;
                }
                Err(e) => return Err(e.into()),
            }
            // A device that sends a byte now and then is late, too.
            if now_ns() > deadline {
                return Err(DeviceError::Late("send a reply"));
            }
        }
        Ok(())
    }

    fn wait(&self, event: StreamEvent, deadline: u64) -> Result<(), DeviceError> {
        match self.stream.wait(event, deadline)? {
            true => Ok(()),
            false => Err(DeviceError::Late("take a message")),
        }
    }

    /// Gives the device up, since it broke its protocol.
    pub(crate) fn malformed(&self, why: &'static str) -> DeviceError {
        self.hang_up();
        DeviceError::Malformed(why)
    }

    /// Ends the connection.
    pub(crate) fn hang_up(&self) {
        self.stream.hang_up();
    }

    /// Its peer is gone when the device is.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
