//! The main thread's side of pinned domains: the list of them, and what the policy hears of each.

use crate::pinned::{PinnedSource, SurveyedDomain, SurveyorHandle};
use crate::policy::{Decision, DomainId, ProcessorTime, Terms};
use crate::server::node_server::NodeServer;
use crate::server::reception::TokenBell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use underpass_os::clock::now_ns;
use underpass_os::{Directory, Fifo, Socket};

/// The most pinned domains.
const MOST: usize = 64;

/// The name of the jobserver's pipe in the user's directory.
const PIPE: &str = ".jobserver";

/// Where the jobserver's pipe of this directory is, if a server has ever had one there.
pub fn jobserver_pipe(directory: &Directory) -> PathBuf {
    directory.join(PIPE)
}

/// One pinned domain, as the main thread has it.
#[derive(Debug)]
pub(super) struct PinnedDomain {
    /// The receptionist's number of its connection. `None` for clients of the jobserver.
    connection: Option<u64>,
    /// Its runner, or this server.
    pid: u32,
    weight: u16,
    id: DomainId,
    survey: Arc<SurveyedDomain>,
}

/// All pinned domains, and the thread that surveys them.
#[derive(Debug, Default)]
pub(super) struct PinnedDomains {
    list: Vec<PinnedDomain>,
    surveyor: Option<SurveyorHandle>,
    jobserver: Option<Arc<Fifo>>,
    /// What was decided is still to be carried out.
    is_decided: bool,
}

impl PinnedDomains {
    fn find(&mut self, id: DomainId) -> Option<&PinnedDomain> {
        self.list.iter().find(|pinned| pinned.id == id)
    }

    /// Counts a grant. Returns `false` if that is no pinned domain.
    pub(super) fn grant(&mut self, id: DomainId) -> bool {
        let Some(pinned) = self.find(id) else { return false };
        pinned.survey.target.grant();
        self.is_decided = true;
        true
    }

    /// Asks for a processor. Returns `false` if that is no pinned domain.
    pub(super) fn ask(&mut self, id: DomainId) -> bool {
        let Some(pinned) = self.find(id) else { return false };
        pinned.survey.target.ask();
        self.is_decided = true;
        true
    }

    /// What each of them holds.
    pub(super) fn holds(&self) -> impl Iterator<Item = (DomainId, u32)> {
        self.list.iter().map(|pinned| (pinned.id, pinned.survey.target.get()))
    }

    /// Has the surveyor carry out what was decided. Returns whether that was anything.
    pub(super) fn carry_out(&mut self) -> bool {
        let is_decided = std::mem::take(&mut self.is_decided);
        if let (true, Some(surveyor)) = (is_decided, &self.surveyor) {
            surveyor.wake();
        }
        is_decided
    }

    /// The processes that have pages of their own have changed.
    pub(super) fn set_registered(&self, pids: impl Iterator<Item = u32>) {
        if let Some(surveyor) = &self.surveyor {
            surveyor.set_registered(pids.collect());
        }
    }

    /// Gives everything back to all processes, and ends the surveyor. The jobserver's pipe stays if
    /// another server has it from now on.
    pub(super) fn end(&mut self, is_replaced: bool) {
        self.surveyor = None;
        if let (Some(fifo), false) = (&self.jobserver, is_replaced) {
            fifo.remove();
        }
    }

    /// What the status says of each.
    pub(super) fn status(&self) -> impl Iterator<Item = PinnedStatus> {
        self.list.iter().map(|pinned| {
            let count = |counter: &std::sync::atomic::AtomicU32| counter.load(Ordering::Relaxed);
            let survey = &*pinned.survey;
            let held = survey.target.get();
            PinnedStatus {
                id: pinned.id,
                pid: pinned.pid,
                weight: pinned.weight,
                held,
                ready: count(&survey.ready),
                wanted: count(&survey.demand).saturating_sub(held),
                processes: count(&survey.processes),
                tokens: pinned.connection.is_none().then(|| (count(&survey.issued), count(&survey.out))),
            }
        })
    }
}

/// What the status says of a pinned domain.
#[derive(Debug)]
pub(super) struct PinnedStatus {
    pub(super) id: DomainId,
    pub(super) pid: u32,
    pub(super) weight: u16,
    pub(super) held: u32,
    pub(super) ready: u32,
    pub(super) wanted: u32,
    pub(super) processes: u32,
    /// Of the jobserver: those in circulation, and those of them that are with clients.
    pub(super) tokens: Option<(u32, u32)>,
}

impl NodeServer {
    /// Owns a GNU make jobserver from now on. Its clients are one domain of this weight. Returns
    /// where its pipe is.
    ///
    /// # Errors
    /// `AlreadyExists` if a file that is no named pipe of this user stands there: remove it.
    /// Otherwise there are too many open files or watches.
    pub fn own_jobserver(&mut self, weight: u16) -> io::Result<PathBuf> {
        let path = jobserver_pipe(&self.directory);
        let fifo = Arc::new(Fifo::own(Path::new(&path))?);
        let watch = fifo.watch()?;
        let bell = self.surveyor()?.bell();
        self.pin(None, std::process::id(), weight, PinnedSource::Clients(fifo.clone()))?;
        if let Some(bell) = bell {
            self.watch_tokens(TokenBell { watch, bell })?;
        }
        self.pinned.jobserver = Some(fifo);
        Ok(path)
    }

    fn surveyor(&mut self) -> io::Result<&SurveyorHandle> {
        if self.pinned.surveyor.is_none() {
            self.pinned.surveyor = Some(SurveyorHandle::start(self.doorbell.clone())?);
            self.pinned.set_registered(self.members.iter().map(|member| member.pid));
        }
        self.pinned.surveyor.as_ref().ok_or_else(|| io::ErrorKind::Other.into())
    }

    fn pin(
        &mut self,
        connection: Option<u64>,
        pid: u32,
        weight: u16,
        source: PinnedSource,
    ) -> io::Result<()> {
        let again =
            connection.is_some() && self.pinned.list.iter().any(|pinned| pinned.connection == connection);
        if again || self.pinned.list.len() >= MOST {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let survey = Arc::new(SurveyedDomain::new(source));
        self.surveyor()?.add(survey.clone());
        let terms = Terms { weight, minimum: 0, maximum: self.processors };
        let id = self.policy.register(terms, now_ns(), &mut self.decided);
        self.pinned.list.push(PinnedDomain { connection, pid, weight, id, survey });
        self.looks.stale();
        Ok(())
    }

    /// The processes below this one take part from now on, until the connection ends.
    pub(super) fn pin_command(&mut self, connection: u64, socket: &Socket, pid: u32, weight: u16) {
        if self.pin(Some(connection), pid, weight, PinnedSource::Below(pid)).is_err() {
            socket.hang_up();
        }
    }

    /// The connection has ended. Its processes get everything back.
    pub(super) fn unpin(&mut self, connection: u64) {
        let Some(at) = self.pinned.list.iter().position(|pinned| pinned.connection == Some(connection))
        else {
            return;
        };
        let gone = self.pinned.list.swap_remove(at);
        // Relaxed: to wake the surveyor synchronizes.
        gone.survey.is_over.store(true, Ordering::Relaxed);
        self.policy.unregister(gone.id, now_ns(), &mut self.decided);
        self.looks.stale();
        self.pinned.is_decided = true;
    }

    /// Tells the policy what pinned domains want. Returns how many of them want a processor.
    pub(super) fn report_pinned(&mut self, now: u64) -> u64 {
        let mut wanting = 0;
        for pinned in &self.pinned.list {
            // Relaxed: a hint.
            let demand = pinned.survey.demand.load(Ordering::Relaxed);
            let wants = demand.saturating_sub(pinned.survey.target.get());
            wanting += u64::from(wants > 0);
            self.policy.report(pinned.id, wants, u64::MAX, now, &mut self.decided);
        }
        wanting
    }

    /// Takes what pinned domains hold and do not use, since another domain wants a processor.
    pub(super) fn take_idle_pinned(&mut self) {
        for pinned in &self.pinned.list {
            // Relaxed: a hint.
            let demand = pinned.survey.demand.load(Ordering::Relaxed);
            self.pinned.is_decided |= pinned.survey.target.keep(demand);
        }
    }

    /// There is nothing to compare with the kernel's accounts, since it is the kernel that keeps
    /// the processes on their CPUs.
    pub(super) fn account_pinned(&mut self, now: u64) {
        let time = ProcessorTime { ran: 0, waited: u64::MAX };
        for pinned in &self.pinned.list {
            self.policy.account(pinned.id, time, now, &mut self.decided);
        }
    }

    /// Counts a grant or an ask of a pinned domain. Returns `false` if the decision is of another.
    pub(super) fn carry_out_pinned(&mut self, decision: &Decision) -> bool {
        match *decision {
            Decision::Grant { to } => self.pinned.grant(to),
            Decision::Ask { victim, .. } => self.pinned.ask(victim),
            _ => false,
        }
    }
}
