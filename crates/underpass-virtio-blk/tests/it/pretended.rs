//! A disk behind vhost-user on two kernel threads, written from the specifications: one for the
//! messages, and one for the queue.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use underpass::device::vfio_user::message::{MessageBody, MessageFields};
use underpass::device::vhost_user::message::{VHOST_HEADER, VhostHeader};
use underpass_os::{DeviceMemory, DeviceStream, EventFd, Memory, StreamEvent};

/// How the disk lies about requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Lie {
    None = 0,
    /// No request ends.
    Silent = 1,
    /// What ends is no request.
    UnknownRequest = 2,
    /// It says that 1,000 more have ended.
    ManyEnded = 3,
    /// Each request ends twice.
    Twice = 4,
    /// Requests end without a status.
    NoStatus = 5,
}

/// The way to have the disk lie, and to end it.
pub struct PretendedDisk {
    shared: Arc<Shared>,
}

struct Shared {
    stream: DeviceStream,
    lie: AtomicU32,
    queue: Mutex<Option<Queue>>,
    /// Memory by the driver's addresses.
    memory: Mutex<BTreeMap<u64, DeviceMemory>>,
    bytes: Mutex<Vec<u8>>,
    ended: AtomicBool,
}

/// The queue, as far as the driver has told.
#[derive(Default)]
struct Queue {
    entries: u16,
    descriptors: u64,
    available: u64,
    used: u64,
    kick: Option<EventFd>,
    call: Option<EventFd>,
    seen: u16,
    done: u16,
    enabled: bool,
}

impl PretendedDisk {
    /// Starts a disk. Returns the socket to reach it by.
    pub fn start(size: usize) -> (OwnedFd, Self) {
        let (ours, theirs) = DeviceStream::pair().unwrap();
        let shared = Arc::new(Shared {
            stream: theirs,
            lie: AtomicU32::new(0),
            queue: Mutex::new(Some(Queue::default())),
            memory: Mutex::default(),
            bytes: Mutex::new(vec![0; size]),
            ended: AtomicBool::new(false),
        });
        let messages = Arc::clone(&shared);
        std::thread::spawn(move || {
            while messages.message().is_some() {}
            messages.ended.store(true, Ordering::Relaxed);
            *messages.queue.lock().unwrap() = None;
        });
        let queue = Arc::clone(&shared);
        std::thread::spawn(move || while queue.serve() {});
        (ours.into(), Self { shared })
    }

    pub fn lie(&self, lie: Lie) {
        self.shared.lie.store(lie as u32, Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.shared.stream.hang_up();
    }
}

impl Shared {
    fn fill(&self, mut buffer: &mut [u8], files: &mut Vec<OwnedFd>) -> Option<()> {
        while !buffer.is_empty() {
            match self.stream.receive(buffer, files) {
                Ok(0) => return None,
                Ok(n) => buffer = &mut buffer[n..],
                Err(_) => drop(self.stream.wait(StreamEvent::Readable, u64::MAX / 2)),
            }
        }
        Some(())
    }

    /// Does what one message asks for. `None`: the driver has hung up.
    fn message(&self) -> Option<()> {
        let (mut header, mut files) = ([0; VHOST_HEADER], Vec::new());
        self.fill(&mut header, &mut files)?;
        let header = VhostHeader::decode(&header)?;
        let mut payload = vec![0; header.size as usize];
        self.fill(&mut payload, &mut files)?;
        let told = MessageFields(&payload);
        let answer = {
            let mut queue = self.queue.lock().unwrap();
            self.handle(header.command, told, files, queue.as_mut()?)?
        };
        let answer = answer.or_else(|| header.needs_reply.then(|| MessageBody::default().u64(0)));
        if let Some(body) = answer {
            let size = body.0.len() as u32;
            let reply = VhostHeader { is_reply: true, needs_reply: false, size, ..header };
            // The driver may have hung up.
            let _ = self.stream.send(&[&reply.encode()[..], &body.0].concat(), &[]);
        }
        Some(())
    }

    /// Returns what is answered.
    fn handle(
        &self,
        command: u32,
        told: MessageFields<'_>,
        mut files: Vec<OwnedFd>,
        queue: &mut Queue,
    ) -> Option<Option<MessageBody>> {
        match command {
            1 => return Some(Some(MessageBody::default().u64(1 << 30 | 1 << 32 | 1 << 9))),
            15 => return Some(Some(MessageBody::default().u64(1 << 3 | 1 << 9))),
            24 => {
                let len = told.u32(4)?;
                let sectors = (self.bytes.lock().unwrap().len() / 512) as u64;
                let mut region = vec![0; len as usize];
                region[..8].copy_from_slice(&sectors.to_le_bytes());
                return Some(Some(MessageBody::default().u32(0).u32(len).u32(0).bytes(&region)));
            }
            5 => {
                let mut memory = self.memory.lock().unwrap();
                memory.clear();
                for (number, file) in files.iter().enumerate().take(told.u32(0)? as usize) {
                    let size = Memory::length_of(file.as_fd()).unwrap() as usize;
                    let mapped = Memory::adopt(file.as_fd(), size).unwrap();
                    memory.insert(told.u64(8 + 32 * number)?, DeviceMemory::new(mapped));
                }
            }
            8 => queue.entries = told.u32(4)? as u16,
            9 => {
                (queue.descriptors, queue.used, queue.available) =
                    (told.u64(8)?, told.u64(16)?, told.u64(24)?);
            }
            10 => (queue.seen, queue.done) = (told.u32(4)? as u16, 0),
            11 => {
                queue.enabled = false;
                return Some(Some(MessageBody::default().u32(0).u32(queue.seen.into())));
            }
            12 => queue.kick = files.pop().map(EventFd::adopt),
            13 => queue.call = files.pop().map(EventFd::adopt),
            18 => queue.enabled = told.u32(4)? == 1,
            _ => {}
        }
        Some(None)
    }

    /// Looks at the queue once. `false`: the disk has ended.
    fn serve(&self) -> bool {
        if let Some(queue) = &mut *self.queue.lock().unwrap()
            && queue.enabled
            && queue.kick.as_ref().is_some_and(|kick| kick.take().is_ok())
        {
            while self.one(queue).is_some() {}
        }
        std::thread::yield_now();
        !self.ended.load(Ordering::Relaxed)
    }

    fn at<R>(&self, address: u64, what: impl FnOnce(&DeviceMemory, usize) -> Option<R>) -> Option<R> {
        let memory = self.memory.lock().unwrap();
        let (begin, memory) = memory.range(..=address).next_back()?;
        what(memory, (address - begin) as usize)
    }

    fn load(&self, address: u64, bytes: u64) -> Option<u64> {
        self.at(address, |memory, at| match bytes {
            2 => memory.load::<u16>(at).map(u64::from),
            4 => memory.load::<u32>(at).map(u64::from),
            _ => memory.load::<u64>(at),
        })
    }

    /// Does the next request. `None`: there is none.
    fn one(&self, queue: &mut Queue) -> Option<()> {
        let lie = self.lie.load(Ordering::Relaxed);
        if self.load(queue.available + 2, 2)? as u16 == queue.seen || lie == Lie::Silent as u32 {
            return None;
        }
        let first = self.load(queue.available + 4 + u64::from(queue.seen % queue.entries) * 2, 2)?;
        queue.seen = queue.seen.wrapping_add(1);
        let descriptor = |number: u64| {
            let at = queue.descriptors + number * 16;
            let (address, len) = (self.load(at, 8)?, self.load(at + 8, 4)?);
            Some((address, len as usize, self.load(at + 12, 2)?, self.load(at + 14, 2)?))
        };
        let (head, _, _, next) = descriptor(first)?;
        let (kind, sector) = (self.load(head, 4)?, self.load(head + 8, 8)?);
        let mut status = descriptor(next)?;
        if kind != 4 {
            let (data, len, ..) = status;
            status = descriptor(status.3)?;
            let mut bytes = self.bytes.lock().unwrap();
            let bytes = bytes.get_mut(sector as usize * 512..sector as usize * 512 + len)?;
            self.at(data, |memory, at| match kind {
                0 => memory.copy_in(at, bytes),
                _ => memory.copy_out(at, bytes),
            })?;
        }
        if lie != Lie::NoStatus as u32 {
            self.at(status.0, |memory, at| memory.store(at, 0u8))?;
        }
        let named = if lie == Lie::UnknownRequest as u32 { 61 } else { first };
        self.put(queue, named)?;
        if lie == Lie::Twice as u32 {
            self.put(queue, named)?;
        }
        if lie == Lie::ManyEnded as u32 {
            queue.done = queue.done.wrapping_add(1000);
            self.at(queue.used + 2, |memory, at| memory.store(at, queue.done))?;
        }
        queue.call.iter().for_each(EventFd::signal);
        Some(())
    }

    /// Says that a request has ended.
    fn put(&self, queue: &mut Queue, first: u64) -> Option<()> {
        let at = queue.used + 4 + u64::from(queue.done % queue.entries) * 8;
        self.at(at, |memory, at| memory.store(at, first as u32))?;
        queue.done = queue.done.wrapping_add(1);
        self.at(queue.used + 2, |memory, at| memory.store(at, queue.done))
    }
}
