//! The process in the sandbox, from its first step in `main` to the moment at which it serves and can do nothing else.

use crate::message::{LONGEST, Message};
use crate::report::{Measure, Report};
use crate::spec::Spec;
use crate::{StartError, walls};
use std::convert::Infallible;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use underpass_os::{Socket, clock, confine, process};
use underpass_processor::Pool;
use underpass_rpc::Server;

/// By this variable a process learns that a [`Sandbox`](crate::Sandbox) started it, and of which version.
pub(crate) const ROLE: &str = "UNDERPASS_SANDBOX";
pub(crate) const VERSION: &str = "1";

/// How long the starter may take to say what it wants, in ns.
const PATIENCE: u64 = 10_000_000_000;

/// A process that a sandbox started, which still has the rights of its user, without capabilities.
#[derive(Debug)]
#[must_use = "the walls go up in `serve`; a process that doesn't serve in time is ended"]
pub struct Inside {
    starter: &'static Socket,
    spec: Spec,
    report: Report,
}

/// Tells a process that a [`Sandbox`](crate::Sandbox) started it; nothing if none did. To be called first thing in `main`, once: while
/// the process has but one kernel thread it can enter namespaces of its own.
///
/// From here on the process has no capabilities and, where that is possible, neither network nor the host's shared memory. Files it still has.
///
/// # Errors
/// [`NoSandbox`](StartError::NoSandbox), [`System`](StartError::System); [`NotEnforced`](StartError::NotEnforced) if a measure was required that can't
/// be had. The starter is told too.
///
/// # Examples
/// ```
/// // Nobody has put this process into a sandbox.
/// assert!(underpass_sandbox::inside()?.is_none());
/// # Ok::<(), underpass_sandbox::StartError>(())
/// ```
pub fn inside() -> Result<Option<Inside>, StartError> {
    match std::env::var_os(ROLE) {
        None => return Ok(None),
        Some(version) if version == VERSION => {}
        Some(_) => return Err(StartError::NoSandbox("its starter is of another version")),
    }
    let system = |what| move |e| StartError::System(what, e);
    let socket = confine::take_stdin().and_then(Socket::adopt);
    let socket = socket.map_err(system("the starter's socket can't be had"))?;
    // It is told of the end of this process by the kernel.
    let starter: &'static Socket = Box::leak(Box::new(socket));
    let mut bytes = vec![0; LONGEST];
    let asked = starter.wait(clock::now_ns() + PATIENCE).and_then(|_| starter.receive(&mut bytes));
    let asked = asked.map_err(system("the starter can't be heard"))?;
    let spec = Spec::from_bytes(&bytes[..asked.len])
        .ok_or(StartError::NoSandbox("what its starter wants is no sandbox"))?;
    let mut inside = Inside { starter, spec, report: Report::default() };
    walls::first(&mut inside.report);
    // New credentials may have made the kernel forget it.
    process::die_with_parent().map_err(system("this process can't be made to end with its starter"))?;
    inside.check()?;
    Ok(Some(inside))
}

impl Inside {
    /// Makes `server`'s exports, puts up the walls around all kernel threads of this process, tells the starter, and serves for ever. Bindings that the
    /// server's procedures call must have been imported before.
    ///
    /// What names a file fails from then on with `PermissionDenied`, for the sake of libraries that look and do without; any other call to the system that
    /// serving doesn't need ends the process, unless the sandbox is [`lenient`](crate::Sandbox::lenient). Unannounced blocking is not found, as `/proc` is out of reach.
    ///
    /// # Errors
    /// As [`inside`]; [`Failed`](StartError::Failed) with what [`Server::start`] says. The starter is told too. Some of the walls may stand then: the process can only end.
    pub fn serve(mut self, server: Server) -> Result<Infallible, StartError> {
        // The limits come when the exports are made.
        underpass_threads::e_stacks_within(self.spec.memory);
        let running = server.start().map_err(|e| self.failed(StartError::Failed(e.to_string())))?;
        keep_processors();
        let names: Vec<PathBuf> = running.paths().map(PathBuf::from).collect();
        let listener: BorrowedFd<'static> = self.starter.as_fd();
        walls::last(&self.spec, listener, &mut self.report);
        self.check()?;
        self.say(&Message::Ready { report: self.report.clone(), names });
        loop {
            std::thread::park();
        }
    }

    /// Fails if something is missing that was required.
    fn check(&self) -> Result<(), StartError> {
        let required = |of: &Measure| of.is_essential() || self.spec.required.contains(of);
        let missing = self.report.missing().find(|(of, _)| required(of));
        missing.map_or(Ok(()), |(of, why)| Err(self.failed(StartError::NotEnforced(of, why.to_owned()))))
    }

    fn failed(&self, e: StartError) -> StartError {
        self.say(&match &e {
            StartError::NotEnforced(measure, why) => {
                Message::NotEnforced { measure: *measure, why: why.clone() }
            }
            other => Message::Failed { why: other.to_string() },
        });
        e
    }

    fn say(&self, message: &Message) {
        // A starter that is gone needs to know nothing, and takes this process along.
        let _ = self.starter.send(&message.to_bytes(), &[]);
    }
}

/// The domain goes on with the processors that it has: what grants them can't be read any more.
fn keep_processors() {
    if let Some(pool) = Pool::get().filter(|_| !Pool::donated_only()) {
        Pool::configure(pool.maximum() as u32);
    }
}
