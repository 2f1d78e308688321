//! What the server knows of one registered domain.

use crate::messages::NodeMessage;
use crate::page::layout::{LEN, SERVER, TransferKind};
use crate::page::{LinkWord, PageLink, PageView};
use crate::policy::{DomainId, ProcessorTime, Terms};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use underpass_os::{Memory, Socket, processor_time, published};

/// One registered domain.
#[derive(Debug)]
pub(super) struct RegisteredDomain {
    /// The receptionist's number of its connection.
    pub(super) connection: u64,
    socket: Arc<Socket>,
    pub(super) pid: u32,
    pub(super) terms: Terms,
    /// How many activations ran when it registered.
    pub(super) running: u32,
    pub(super) page: Memory,
    file: OwnedFd,
    pub(super) place: usize,
    pub(super) generation: u32,
    /// Its name in the policy, once it has mapped its page.
    pub(super) id: Option<DomainId>,
    /// `base` of the page's README.
    pub(super) base: u32,
    /// What it has, as the last look found it.
    pub(super) held: u32,
    /// What it had or was about to take, and how many processors it had been given by then, modulo
    /// 2³².
    had: u32,
    was_given: u32,
    pub(super) temporary: u32,
    /// It went by its own maximum for some time since it was last compared with the kernel's
    /// accounts.
    pub(super) excused: bool,
    /// What the kernel accounts to each of its kernel threads.
    times: HashMap<u32, (u64, u64)>,
}

/// A domain that wants to register.
#[derive(Debug)]
pub(super) struct Applicant {
    pub(super) connection: u64,
    pub(super) socket: Arc<Socket>,
    pub(super) pid: u32,
    pub(super) terms: Terms,
    pub(super) running: u32,
}

impl RegisteredDomain {
    /// Makes a page for a domain.
    pub(super) fn new(applicant: Applicant, place: usize, generation: u32) -> io::Result<Self> {
        let (page, file) = published::create_for_two("underpass-page", LEN)?;
        let Applicant { connection, socket, pid, terms, running } = applicant;
        Ok(Self {
            connection,
            socket,
            pid,
            terms,
            running,
            page,
            file,
            place,
            generation,
            id: None,
            base: 0,
            held: 0,
            had: 0,
            was_given: 0,
            temporary: 0,
            // What it ran before it registered does not count.
            excused: true,
            times: HashMap::new(),
        })
    }

    /// The server's link to it.
    pub(super) fn link(&self, server_generation: u32) -> PageLink {
        PageLink {
            own_place: SERVER,
            own_generation: server_generation,
            place: self.place,
            generation: self.generation,
        }
    }

    /// A look finds that it has so many processors, and that others have given it so many. Returns
    /// how many came since the last look and are gone.
    pub(super) fn passed(&mut self, has: u32, given: u32, most: u32) -> u32 {
        let more = has.saturating_sub(std::mem::replace(&mut self.had, has));
        let new = given.wrapping_sub(std::mem::replace(&mut self.was_given, given));
        // More is the end of a link, or a lie.
        if new > 2 * most { 0 } else { new.saturating_sub(more) }
    }

    /// How many processors it has given the domain at `place` since the link began, modulo 2³².
    pub(super) fn given_to(&self, place: usize) -> u32 {
        let given = |kind: TransferKind| LinkWord::unpack(self.page.read(kind.given(place))).count;
        TransferKind::ALL.into_iter().map(given).fold(0, u32::wrapping_add)
    }

    /// Sends it a message. It never waits.
    pub(super) fn send(&self, message: &NodeMessage, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.socket.send(&message.encode(), files)
    }

    /// Its page, for this domain.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// It has mapped its page: nobody else may do that for writing.
    pub(super) fn close_page(&self) -> io::Result<()> {
        published::close_to_writers(self.file.as_fd())
    }

    /// Ends the connection. The receptionist finds that.
    pub(super) fn hang_up(&self) {
        self.socket.hang_up();
    }

    /// What the kernel has accounted to it since the last such question. `None` if the kernel does
    /// not say.
    pub(super) fn processor_time(&mut self) -> Option<ProcessorTime> {
        let threads = processor_time::of_threads(self.pid).ok()?;
        let mut sum = ProcessorTime::default();
        let mut times = HashMap::with_capacity(threads.len());
        for thread in threads {
            let (ran, waited) = self.times.get(&thread.thread).copied().unwrap_or_default();
            sum.ran += thread.ran.saturating_sub(ran);
            sum.waited += thread.waited.saturating_sub(waited);
            times.insert(thread.thread, (thread.ran, thread.waited));
        }
        self.times = times;
        Some(sum)
    }
}
