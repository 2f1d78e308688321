//! The connection to a device in another process: requests with replies, and posted writes.
//!
//! One request is under way at a time. Its thread waits for the reply in the kernel, in brackets.
//! Posted writes want no reply, and never wait for that thread.

use crate::DeviceError;
use crate::lock::lock;
use crate::vfio_user::message::{DeviceCommand, HEADER, MessageHeader};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use underpass_os::clock::{deadline_ns, now_ns};
use underpass_os::{DeviceStream, StreamEvent};
use underpass_threads::{blocking, in_injected_task};

/// The most bytes that wait for room in the stream. Linux takes as many whole, or none of them, so
/// that a driver which is killed leaves whole messages.
const MOST_WAITING: usize = 32 * 1024;
/// Set in the ids of a holder's resets, and in no others.
const OF_HOLDERS: u16 = 0x8000;
/// The most bytes that a device sends before it answers a reset.
const MOST_STALE: usize = 1 << 20;

/// What a device has answered.
#[derive(Debug, Default)]
pub(crate) struct DeviceReply {
    pub(crate) body: Vec<u8>,
    pub(crate) files: Vec<OwnedFd>,
}

/// | field | its writer |
/// |---|---|
/// | `waiting` | whoever sends, under its lock, which is held for one system call that does not wait |
/// | `one` | held by the thread whose request is under way |
#[derive(Debug)]
pub(crate) struct DeviceConnection {
    stream: DeviceStream,
    patience: Duration,
    /// Bytes for which the stream had no room. They go before all others.
    waiting: Mutex<Vec<u8>>,
    one: underpass_sync::Mutex<()>,
    next: AtomicU16,
}

impl DeviceConnection {
    pub(crate) fn new(stream: DeviceStream, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            waiting: Mutex::default(),
            one: underpass_sync::Mutex::new(()),
            next: AtomicU16::new(0),
        }
    }

    /// Sends a request, and waits for its reply. If none comes in time, or a wrong one, the
    /// connection ends.
    pub(crate) fn request(
        &self,
        what: &'static str,
        command: DeviceCommand,
        body: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<DeviceReply, DeviceError> {
        if in_injected_task() {
            return Err(DeviceError::InHandler(what));
        }
        let _one = self.one.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let header = MessageHeader::request(self.id(), command, body.len());
        let message = [&header.encode(), body].concat();
        let deadline = deadline_ns(self.patience);
        let reply = blocking(|| {
            self.send(&message, files, deadline)?;
            self.flush(deadline)?;
            self.receive(header, deadline)
        });
        let reply = reply.map_err(|e| match e {
            DeviceError::Late(_) => DeviceError::Late(what),
            e => e,
        });
        match reply {
            Ok((_, Some(error))) => Err(DeviceError::Refused(what, error)),
            Ok((reply, None)) => Ok(reply),
            Err(e) => {
                self.stream.hang_up();
                Err(e)
            }
        }
    }

    /// Has the device reset itself, although the last user of this connection has died, perhaps
    /// with a request under way. The device answers in order, so what comes before the reply to
    /// the reset is stale. `turn` differs from that of the last such reset.
    pub(crate) fn reset_after(&self, turn: u16) -> Result<(), DeviceError> {
        const WHAT: &str = "reset itself";
        let _one = self.one.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let request = MessageHeader::request(turn | OF_HOLDERS, DeviceCommand::Reset, 0);
        let deadline = deadline_ns(self.patience);
        let found = blocking(|| {
            self.send(&request.encode(), &[], deadline)?;
            self.flush(deadline)?;
            self.find_reply(request, deadline)
        });
        match found {
            Ok(None) => Ok(()),
            Ok(Some(error)) => Err(DeviceError::Refused(WHAT, error)),
            Err(DeviceError::Late(_)) => Err(DeviceError::Late(WHAT)),
            Err(e) => Err(e),
        }
    }

    /// Reads until the last bytes that came are the header of the reply to `request`. Returns the
    /// number of the error that it brings.
    fn find_reply(&self, request: MessageHeader, deadline: u64) -> Result<Option<i32>, DeviceError> {
        let (mut last, mut stale) = (Vec::new(), 0);
        while stale < MOST_STALE {
            let mut part = [0; 256];
            match self.stream.receive(&mut part, &mut Vec::new()) {
                Ok(0) => return Err(DeviceError::Gone),
                Ok(received) => {
                    stale += received;
                    last.extend_from_slice(&part[..received]);
                    last.drain(..last.len().saturating_sub(HEADER));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(StreamEvent::Readable, deadline)?;
                }
                Err(e) => return Err(e.into()),
            }
            let header = last.first_chunk().and_then(MessageHeader::decode);
            if let Some(header) = header
                && header == request.reply(0, header.error)
            {
                return Ok(header.error);
            }
            if now_ns() > deadline {
                return Err(DeviceError::Late("send a reply"));
            }
        }
        Err(DeviceError::Malformed("it does not end what it sends"))
    }

    /// Sends a request that wants no reply. A handler never waits here: if there is no room, its
    /// message is kept and sent with the next one, up to a bound.
    pub(crate) fn post(
        &self,
        what: &'static str,
        command: DeviceCommand,
        body: &[u8],
    ) -> Result<(), DeviceError> {
        let header =
            MessageHeader { no_reply: true, ..MessageHeader::request(self.id(), command, body.len()) };
        let message = [&header.encode(), body].concat();
        let deadline = deadline_ns(self.patience);
        loop {
            {
                let mut waiting = lock(&self.waiting);
                self.push(&mut waiting)?;
                if waiting.len() + message.len() <= MOST_WAITING {
                    waiting.extend_from_slice(&message);
                    return self.push(&mut waiting);
                }
            }
            if in_injected_task() {
                return Err(DeviceError::InHandler(what));
            }
            blocking(|| self.wait(StreamEvent::Writable, deadline))?;
        }
    }

    /// Gives the device up, since it broke its protocol.
    pub(crate) fn malformed(&self, why: &'static str) -> DeviceError {
        self.stream.hang_up();
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

    fn id(&self) -> u16 {
        // Relaxed: it only has to differ from those of late replies.
        self.next.fetch_add(1, Ordering::Relaxed) & !OF_HOLDERS
    }

    /// Sends as much of what waits as there is room for.
    fn push(&self, waiting: &mut Vec<u8>) -> Result<(), DeviceError> {
        while !waiting.is_empty() {
            match self.stream.send(waiting, &[]) {
                Ok(sent) => drop(waiting.drain(..sent)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Sends a message with files. Nothing comes between its bytes.
    fn send(&self, message: &[u8], files: &[BorrowedFd<'_>], deadline: u64) -> Result<(), DeviceError> {
        loop {
            {
                let mut waiting = lock(&self.waiting);
                self.push(&mut waiting)?;
                if waiting.is_empty() {
                    match self.stream.send(message, files) {
                        Ok(sent) => {
                            waiting.extend_from_slice(&message[sent..]);
                            return Ok(());
                        }
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                        Err(e) => return Err(e.into()),
                    }
                }
            }
            self.wait(StreamEvent::Writable, deadline)?;
        }
    }

    /// Waits until nothing waits for room.
    fn flush(&self, deadline: u64) -> Result<(), DeviceError> {
        loop {
            {
                let mut waiting = lock(&self.waiting);
                self.push(&mut waiting)?;
                if waiting.is_empty() {
                    return Ok(());
                }
            }
            self.wait(StreamEvent::Writable, deadline)?;
        }
    }

    fn wait(&self, event: StreamEvent, deadline: u64) -> Result<(), DeviceError> {
        match self.stream.wait(event, deadline)? {
            true => Ok(()),
            false => Err(DeviceError::Late("take a message")),
        }
    }

    /// Receives the reply to `request`, and the number of the error that it brings.
    fn receive(
        &self,
        request: MessageHeader,
        deadline: u64,
    ) -> Result<(DeviceReply, Option<i32>), DeviceError> {
        let mut reply = DeviceReply::default();
        let mut header = [0; HEADER];
        self.fill(&mut header, &mut reply.files, deadline)?;
        let header = MessageHeader::decode(&header).ok_or(DeviceError::Malformed("a header can't be"))?;
        if !header.is_reply || (header.id, header.command) != (request.id, request.command) {
            return Err(DeviceError::Malformed("a message came that is no reply to the request"));
        }
        reply.body = vec![0; header.size as usize - HEADER];
        self.fill(&mut reply.body, &mut reply.files, deadline)?;
        Ok((reply, header.error))
    }

    fn fill(
        &self,
        mut buffer: &mut [u8],
        files: &mut Vec<OwnedFd>,
        deadline: u64,
    ) -> Result<(), DeviceError> {
        while !buffer.is_empty() {
            match self.stream.receive(buffer, files) {
                Ok(0) => return Err(DeviceError::Gone),
                Ok(received) => buffer = &mut buffer[received..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(StreamEvent::Readable, deadline)?
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
}
