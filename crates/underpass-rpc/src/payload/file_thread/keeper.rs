//! What a file thread does: it receives, keeps and closes files, and leaves to its closer what may
//! wait.

use super::{Described, FileForm, HELD_UP, Job, LINGER, Outcome, ReceivedMessage, SharedQueue, Then, Was};
use crate::payload::passed_file::CountedFile;
use std::collections::HashMap;
use std::io;
use std::mem;
use std::time::Duration;
use underpass_os::dump::NoDump;
use underpass_os::foreign::{Arrived, Closer, ForeignFile, Table};

/// The files of a file thread, none of which leaves its table.
pub(super) struct FileKeeper<'a> {
    of: &'a SharedQueue,
    table: Table,
    closer: Option<Closer>,
    /// How long it waits next while the closer is busy.
    held_up: Duration,
    /// Set while the closer may be lost.
    no_dump: Option<NoDump>,
    kept: HashMap<u64, ForeignFile>,
    last: u64,
}

impl<'a> FileKeeper<'a> {
    pub(super) fn new(of: &'a SharedQueue, table: Table) -> Self {
        Self { of, table, closer: None, held_up: LINGER, no_dump: None, kept: HashMap::new(), last: 0 }
    }

    pub(super) fn work(&mut self, job: Job) {
        match job {
            Job::Receive { room, then } => {
                // The copy of the socket is closed at once. A lost closer would keep a copy in this
                // table open.
                let received = self.taken().and_then(|socket| self.table.receive(&socket, room));
                match received {
                    Ok(arrived) => self.pass_on(arrived, then),
                    Err(e) => {
                        let nothing = Outcome::Received { message: Err(e), files: Vec::new(), then };
                        self.of.tell(&self.table, nothing, &[]);
                    }
                }
            }
            Job::Close { number, was } => {
                let transit_socket = self.kept.remove(&number);
                match (transit_socket, was) {
                    (Some(transit_socket), Was::Unopened(counted)) => self.close(transit_socket, counted),
                    (transit_socket, _) => drop(transit_socket),
                }
            }
            Job::CloseThis { counted } => {
                if let Ok(file) = self.taken() {
                    self.close(file, Some(counted));
                }
            }
            Job::Run(act) => match self.closer() {
                Some(closer) => closer.run(act),
                None => {
                    let _no_dump = NoDump::begin();
                    act();
                }
            },
        }
    }

    /// How long to wait for a job. For ever while it keeps something, as only a job changes that.
    pub(super) fn patience(&mut self) -> Option<Duration> {
        if !self.closer_is_idle() {
            let longer = (2 * self.held_up).min(HELD_UP);
            return Some(mem::replace(&mut self.held_up, longer));
        }
        self.held_up = LINGER;
        self.no_dump = None;
        self.kept.is_empty().then_some(LINGER)
    }

    pub(super) fn closer_is_idle(&self) -> bool {
        self.closer.as_ref().is_none_or(Closer::is_idle)
    }

    /// The closer has been busy for a while. If it is lost, a core dump would never be written, and
    /// the process would never end. So core dumps are turned off.
    pub(super) fn closer_is_held_up(&mut self) {
        self.no_dump.get_or_insert_with(NoDump::begin);
    }

    /// The thread that may be lost. If none can be started, this thread does its work.
    fn closer(&mut self) -> Option<&Closer> {
        if self.closer.is_none() {
            self.closer = Closer::start(&self.table, self.of.unclosed.clone()).ok();
        }
        self.closer.as_ref()
    }

    /// Closes `file`, which counts as unclosed until then.
    fn close(&mut self, file: ForeignFile, counted: Option<CountedFile>) {
        match self.closer() {
            Some(closer) => closer.close(file, counted),
            None => {
                let _no_dump = NoDump::begin();
                drop((file, counted));
            }
        }
    }

    /// The descriptor that came next over the exchange.
    fn taken(&self) -> io::Result<ForeignFile> {
        let taken = self.table.take();
        let mut queue = self.of.queue();
        queue.under_way -= 1;
        let others_wait = !queue.unsent.is_empty();
        drop(queue);
        if others_wait {
            self.of.tell(&self.table, Outcome::HasRoom, &[]);
        }
        // No descriptor comes if there was no room for it in this thread's table.
        taken?.ok_or(io::Error::from_raw_os_error(24))
    }

    /// Gives the process the parts of a message that it may have.
    fn pass_on(&mut self, arrived: Arrived, then: Then) {
        let Arrived { bytes, cut, lost_files, sender, files } = arrived;
        let (mut described, mut given, mut lost_files) = (Vec::new(), Vec::new(), lost_files);
        for file in files {
            let (is_connection, may_keep_others) = (file.is_connection(), file.may_keep_others());
            let (kind, file) = if file.is_memory() {
                (FileForm::Memory, Given::Away(file))
            } else {
                let sealed = self.table.seal(&file);
                // The transit socket holds a copy. If it does not, this may be the last.
                match sealed.is_ok() && file.copies_close_at_once() {
                    true => drop(file),
                    false => self.close(file, None),
                }
                let Ok(transit_socket) = sealed else {
                    lost_files = true;
                    continue;
                };
                self.keep(transit_socket)
            };
            described.push(Described { kind, is_connection, may_keep_others });
            given.push(file);
        }
        let given: Vec<_> = given
            .iter()
            .map(|given| match given {
                Given::Away(file) => self.table.reach(file),
                Given::Kept(number) => self.table.reach(&self.kept[number]),
            })
            .collect();
        let message = ReceivedMessage { bytes, cut, lost_files, sender, files: Vec::new() };
        let outcome = Outcome::Received { message: Ok(message), files: described, then };
        self.of.tell(&self.table, outcome, &given);
    }

    fn keep(&mut self, transit_socket: ForeignFile) -> (FileForm, Given) {
        self.last += 1;
        self.kept.insert(self.last, transit_socket);
        (FileForm::Sealed(self.last), Given::Kept(self.last))
    }
}

/// A descriptor of which the process gets a copy.
enum Given {
    Away(ForeignFile),
    Kept(u64),
}
