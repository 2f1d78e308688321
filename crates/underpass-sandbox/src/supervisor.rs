//! The supervisor of a sandboxed domain: a kernel thread that starts the domain, ends it when it
//! must, and learns how it ended.
//!
//! Each domain has a supervisor of its own, because the kernel ends a process with the *kernel
//! thread* that started it. The supervisor sleeps almost all the time.

use crate::ended::Blow;
use crate::forbidden::Watcher;
use crate::inside::{ROLE, VERSION};
use crate::message::{LONGEST, SERVE, StartMessage};
use crate::outputs::Outputs;
use crate::spec::Spec;
use crate::{Domain, Ended, Report, StartError};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use underpass_os::forbidden::SeccompListener;
use underpass_os::{Directory, Listening, Poller, Ready, Socket, clock, descriptor, spawn};
use underpass_sync::{Condvar, Mutex, MutexGuard};

/// The process to start, and its settings.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) spec: Spec,
    pub(crate) patience: Duration,
    pub(crate) silent: bool,
}

/// The state that a domain's supervisor shares with the holders of the domain.
pub(crate) struct SupervisorState {
    state: Mutex<State>,
    changed: Condvar,
    /// Rung when the supervisor has to check something.
    poller: Poller,
}

#[derive(Default)]
struct State {
    /// The result of the start, until the starter has taken it.
    started: Option<Result<(u32, Report), StartError>>,
    ended: Option<Ended>,
    /// What the supervisor is to do to the process, or has done.
    blow: Option<Blow>,
    /// Calls in progress, by their deadlines and numbers, and the times that they were given.
    armed: BTreeMap<(u64, u64), Duration>,
    next: u64,
    /// The time until which the supervisor sleeps.
    sleeps_until: Option<u64>,
}

impl SupervisorState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits until `found` returns something.
    fn until<T>(&self, mut found: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = self.state();
        loop {
            if let Some(found) = found(&mut state) {
                return found;
            }
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        self.state().ended.clone()
    }

    pub(crate) fn wait(&self) -> Ended {
        self.until(|state| state.ended.clone())
    }

    pub(crate) fn strike(&self, blow: Blow) {
        self.state().blow.get_or_insert(blow);
        self.poller.ring();
    }

    /// Registers a call that may take until `deadline`.
    pub(crate) fn arm(&self, deadline: u64, time: Duration) -> (u64, u64) {
        let mut state = self.state();
        state.next += 1;
        let key = (deadline, state.next);
        state.armed.insert(key, time);
        // Most calls begin while the supervisor sleeps until an earlier call's deadline, and then
        // it need not be woken.
        if state.sleeps_until.is_none_or(|until| deadline < until) {
            state.sleeps_until = Some(deadline);
            self.poller.ring();
        }
        key
    }

    pub(crate) fn disarm(&self, key: (u64, u64)) {
        self.state().armed.remove(&key);
    }
}

/// Starts a domain, and waits until it serves.
pub(crate) fn start(plan: Plan) -> Result<Domain, StartError> {
    let system = |what| move |e| StartError::System(what, e);
    let poller = Poller::new().map_err(system("no file is left for a sandbox"))?;
    let shared = Arc::new(SupervisorState { state: Mutex::default(), changed: Condvar::new(), poller });
    let theirs = shared.clone();
    std::thread::Builder::new()
        .name("underpass-sandbox".to_owned())
        .stack_size(256 * 1024)
        .spawn(move || supervise(&plan, &theirs))
        .map_err(system("no kernel thread is left for a sandbox"))?;
    let (pid, report) = shared.until(|state| state.started.take())?;
    Ok(Domain::new(shared, pid, report))
}

/// The main function of the supervisor's thread.
fn supervise(plan: &Plan, shared: &Arc<SupervisorState>) {
    let (ended, failed) = match Supervisor::begin(plan, shared) {
        Err(e) => (Ended::Killed, e),
        Ok(mut supervisor) => {
            let ended = supervisor.run();
            supervisor.tidy();
            (ended.clone(), supervisor.failed.take().unwrap_or(StartError::Ended(ended)))
        }
    };
    let mut state = shared.state();
    state.ended = Some(ended);
    // If the domain had begun to serve, nobody takes this any more.
    state.started = Some(Err(failed));
    drop(state);
    shared.changed.notify_all();
}

/// The supervision of a process, from its start to its end.
struct Supervisor<'a> {
    shared: &'a Arc<SupervisorState>,
    child: Child,
    /// Readable when the process has ended. The poller watches it.
    _life: OwnedFd,
    socket: Socket,
    /// The time, in ns, by which the process must serve. `None` once it does.
    begins_by: Option<u64>,
    patience: Duration,
    names: Vec<PathBuf>,
    outputs: Outputs,
    /// Receives forbidden calls, once the process is restricted.
    watcher: Option<Watcher>,
    failed: Option<StartError>,
    killed: bool,
}

const LIFE: u64 = 0;
const WORDS: u64 = 1;

impl<'a> Supervisor<'a> {
    fn begin(plan: &Plan, shared: &'a Arc<SupervisorState>) -> Result<Self, StartError> {
        let system = |what| move |e| StartError::System(what, e);
        let (socket, theirs) = Socket::pair().map_err(system("a sandbox has no socket"))?;
        let mut command = command(plan);
        command.stdin(theirs);
        let outputs = if plan.silent { Ok(Outputs::none()) } else { Outputs::of(&mut command) };
        let outputs = outputs.map_err(system("a sandbox has no outputs"))?;
        let mut child = command.spawn().map_err(system("the program can't be started"))?;
        // The command holds the process's end of the socket.
        drop(command);
        let life = match Self::watch(shared, &child, &socket) {
            Ok(life) => life,
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(StartError::System("the process can't be watched", e));
            }
        };
        // If the process has ended already, the supervisor learns that in `run`.
        let _ = socket.send(&plan.spec.to_bytes(), &[]);
        Ok(Self {
            shared,
            child,
            _life: life,
            socket,
            begins_by: Some(clock::deadline_ns(plan.patience)),
            patience: plan.patience,
            names: Vec::new(),
            outputs,
            watcher: None,
            failed: None,
            killed: false,
        })
    }

    fn watch(shared: &SupervisorState, child: &Child, socket: &Socket) -> io::Result<OwnedFd> {
        let life = descriptor::of_process(child.id())?;
        shared.poller.add(&life, LIFE)?;
        shared.poller.add(socket, WORDS)?;
        Ok(life)
    }

    /// Supervises until the process has ended. Returns how it ended.
    fn run(&mut self) -> Ended {
        let mut lives = true;
        while lives {
            let timeout = self.look();
            match self.shared.poller.wait(timeout) {
                Ok(ready) if ready.contains(&Ready::File(LIFE)) => lives = false,
                Ok(ready) if ready.contains(&Ready::File(WORDS)) => {
                    self.hear();
                }
                Ok(_) => {}
                // This fails only if our own files are broken.
                Err(_) => {
                    self.kill();
                    lives = false;
                }
            }
        }
        let status = self.child.wait();
        // Messages from before it served are trusted, and there are few of them.
        while self.begins_by.is_some() && self.hear() {}
        if let Some(watcher) = self.watcher.take() {
            watcher.stop();
        }
        self.outputs.end();
        let blow = self.shared.state().blow;
        status.map_or(Ended::Killed, |status| Ended::of(status, blow))
    }

    /// Does what is due. Returns the ns until the next action is due.
    fn look(&mut self) -> Option<u64> {
        let now = clock::now_ns();
        if self.begins_by.is_some_and(|by| by <= now) {
            // A process that has reported its failure and goes on is ended too.
            self.failed.get_or_insert(StartError::Late(self.patience));
            self.shared.state().blow.get_or_insert(Blow::Killed);
        }
        let mut state = self.shared.state();
        if let Some((&(deadline, _), &time)) = state.armed.first_key_value()
            && deadline <= now
        {
            state.blow.get_or_insert(Blow::Late(time));
        }
        let first = state.armed.first_key_value().map(|(&(deadline, _), _)| deadline);
        let struck = state.blow.is_some();
        // The wait for a process that is being killed has no limit.
        let next = first.into_iter().chain(self.begins_by).min().filter(|_| !struck);
        state.sleeps_until = next;
        drop(state);
        if struck {
            self.kill();
        }
        next.map(|next| next.saturating_sub(now))
    }

    fn kill(&mut self) {
        if !std::mem::replace(&mut self.killed, true) {
            // This fails only if the process has ended already.
            let _ = self.child.kill();
        }
    }

    /// Takes the next message of the process. Returns whether there was one.
    fn hear(&mut self) -> bool {
        let mut bytes = [0; LONGEST];
        let (message, files) = match self.socket.receive(&mut bytes) {
            Ok(received) if received.len > 0 => {
                (StartMessage::from_bytes(&bytes[..received.len]), received.files)
            }
            Ok(_) => return self.hears_no_more(),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => return self.hears_no_more(),
        };
        match message {
            Some(StartMessage::Ready { report, names })
                if self.begins_by.is_some() && self.failed.is_none() =>
            {
                self.names = names;
                self.begins(report, files.into_iter().next().map(SeccompListener::adopt));
            }
            Some(StartMessage::Failed { why }) if self.begins_by.is_some() => {
                self.failed = Some(StartError::Failed(why));
            }
            Some(StartMessage::NotEnforced { measure, why }) if self.begins_by.is_some() => {
                self.failed = Some(StartError::NotEnforced(measure, why));
            }
            _ => {}
        }
        true
    }

    /// The process is restricted, and may serve now.
    ///
    /// From here on the process is untrusted. It could keep this thread busy, and pass files that
    /// take for ever to close. So the socket is closed for messages before the process serves.
    fn begins(&mut self, report: Report, listener: Option<SeccompListener>) {
        self.shared.poller.remove(&self.socket);
        self.socket.receive_no_more();
        match listener.map(|listener| Watcher::start(listener, self.shared)).transpose() {
            Ok(watcher) => self.watcher = watcher,
            Err(e) => {
                self.failed = Some(StartError::System("nobody can listen to its forbidden calls", e));
                self.shared.state().blow.get_or_insert(Blow::Killed);
                return;
            }
        }
        self.begins_by = None;
        // If the process has ended already, the supervisor learns that in `run`.
        let _ = self.socket.send(SERVE, &[]);
        self.shared.state().started = Some(Ok((self.child.id(), report)));
        self.shared.changed.notify_all();
    }

    fn hears_no_more(&self) -> bool {
        self.shared.poller.remove(&self.socket);
        false
    }

    /// Removes what the process left: the names that it announced, if no other domain serves them
    /// by now.
    fn tidy(&self) {
        for path in &self.names {
            if let (Some(parent), Some(name)) =
                (path.parent(), path.file_name().and_then(|name| name.to_str()))
            {
                // The next export of the name replaces it as well.
                let _ = Listening::remove_dead(&Directory::at(parent), name);
            }
        }
    }
}

fn command(plan: &Plan) -> Command {
    let mut command = Command::new(&plan.program);
    command.args(&plan.arguments).env_clear().env(ROLE, VERSION);
    if let Ok(own) = std::env::current_exe()
        && plan.program.starts_with("/proc/self")
    {
        command.arg0(own);
    }
    command.env("UNDERPASS_DIR", Directory::from_environment().path());
    command.envs(plan.environment.iter().map(|(key, value)| (key, value)));
    if plan.silent {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    spawn::isolate(&mut command);
    command
}
