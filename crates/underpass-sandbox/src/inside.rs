//! The process in the sandbox, from the beginning of `main` to the moment at which it serves and
//! can do nothing else.

use crate::message::{LONGEST, SERVE, StartMessage};
use crate::report::{Measure, Report};
use crate::spec::Spec;
use crate::{StartError, walls};
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use underpass_os::forbidden::SeccompListener;
use underpass_os::{Socket, clock, confine, process};
use underpass_processor::Pool;
use underpass_rpc::Server;

/// The environment variable that tells a process that a [`Sandbox`](crate::Sandbox) started it, and
/// of which version.
pub(crate) const ROLE: &str = "UNDERPASS_SANDBOX";
pub(crate) const VERSION: &str = "2";

/// How long the starter may take to send its description, in ns.
const PATIENCE: u64 = 10_000_000_000;

/// A process that a sandbox started. It still has the rights of its user, except capabilities.
#[derive(Debug)]
#[must_use = "the walls go up in `serve`; a process that doesn't serve in time is ended"]
pub struct Inside {
    starter: Socket,
    spec: Spec,
    report: Report,
}

/// Tells a process that a [`Sandbox`](crate::Sandbox) started it. `None` if none did. Call this
/// once, first thing in `main`: only a process with a single kernel thread can enter namespaces of
/// its own.
///
/// From here on the process has no capabilities. Where possible, it has no network and no access to
/// the host's shared memory. It still has files. It goes by its own number of processors, whether
/// there is an activation server or not.
///
/// # Errors
/// [`NoSandbox`](StartError::NoSandbox), [`System`](StartError::System).
/// [`NotEnforced`](StartError::NotEnforced) if a required measure is not available. The starter
/// gets the error too.
///
/// # Examples
/// ```
/// // Nobody has put this process into a sandbox.
/// assert!(underpass::sandbox::inside()?.is_none());
/// # Ok::<(), underpass::sandbox::StartError>(())
/// ```
pub fn inside() -> Result<Option<Inside>, StartError> {
    match std::env::var_os(ROLE) {
        None => return Ok(None),
        Some(version) if version == VERSION => {}
        Some(_) => return Err(StartError::NoSandbox("its starter is of another version")),
    }
    // To look for the activation server takes a system call that the walls forbid, at any time.
    Pool::share_with_nobody();
    let system = |what| move |e| StartError::System(what, e);
    let socket = confine::take_stdin().and_then(Socket::adopt);
    let starter = socket.map_err(system("the starter's socket can't be had"))?;
    let asked = hear(&starter).map_err(system("the starter can't be heard"))?;
    let spec =
        Spec::from_bytes(&asked).ok_or(StartError::NoSandbox("what its starter wants is no sandbox"))?;
    let mut inside = Inside { starter, spec, report: Report::default() };
    walls::first(&mut inside.report);
    // The change of credentials may have made the kernel forget this setting.
    process::die_with_parent().map_err(system("this process can't be made to end with its starter"))?;
    inside.check()?;
    Ok(Some(inside))
}

/// The starter's next message.
fn hear(starter: &Socket) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; LONGEST];
    starter.wait(clock::now_ns() + PATIENCE)?;
    let received = starter.receive(&mut bytes)?;
    bytes.truncate(received.len);
    Ok(bytes)
}

impl Inside {
    /// Takes the names of `server`'s exports, restricts all kernel threads of this process, tells
    /// the starter, and serves for ever. Nobody gets a binding before the process is restricted.
    /// Import the bindings that the server's procedures call before this.
    ///
    /// The names show nothing of themselves ([`Server::inspectable`]).
    ///
    /// From then on, a system call that names a file fails with `PermissionDenied`, for libraries
    /// that can do without the file. Any other system call that serving does not need ends the
    /// process, unless the sandbox is [`lenient`](crate::Sandbox::lenient). Unannounced blocking is
    /// not detected, because `/proc` is out of reach.
    ///
    /// # Errors
    /// The errors of [`inside`]. [`Failed`](StartError::Failed) with the error of [`Server::bind`].
    /// The starter gets the error too. Some restrictions may hold then, so the process can only
    /// end.
    pub fn serve(mut self, server: Server) -> Result<Infallible, StartError> {
        // The exports are made first, and then the limits are set.
        underpass_threads::e_stacks_within(self.spec.memory);
        let server = server.inspectable(false);
        let bound = server.bind().map_err(|e| self.failed(StartError::Failed(e.to_string())))?;
        keep_processors();
        let names: Vec<PathBuf> = bound.paths().map(PathBuf::from).collect();
        let listener = walls::last(&self.spec, &mut self.report);
        self.check()?;
        let files: Vec<BorrowedFd<'_>> = listener.iter().map(SeccompListener::as_fd).collect();
        let ready = StartMessage::Ready { report: self.report.clone(), names };
        self.starter.send(&ready.to_bytes(), &files).map_err(|e| {
            self.failed(StartError::System("what hears of forbidden calls can't be passed to the starter", e))
        })?;
        // A copy here would let this process continue after a forbidden call.
        drop(listener);
        let told = hear(&self.starter).map_err(|e| StartError::System("the starter can't be heard", e))?;
        if told != SERVE {
            return Err(StartError::NoSandbox("its starter does not have it serve"));
        }
        // Over this socket the process could pass its starter files that it has from others.
        drop(self.starter);
        let _running = bound.serve();
        loop {
            std::thread::park();
        }
    }

    /// Fails if a required measure is missing.
    fn check(&self) -> Result<(), StartError> {
        let required = |of: &Measure| of.is_essential() || self.spec.required.contains(of);
        let missing = self.report.missing().find(|(of, _)| required(of));
        missing.map_or(Ok(()), |(of, why)| Err(self.failed(StartError::NotEnforced(of, why.to_owned()))))
    }

    fn failed(&self, e: StartError) -> StartError {
        let message = match &e {
            StartError::NotEnforced(measure, why) => {
                StartMessage::NotEnforced { measure: *measure, why: why.clone() }
            }
            other => StartMessage::Failed { why: other.to_string() },
        };
        // If the starter is gone, it needs no message, and this process ends with it.
        let _ = self.starter.send(&message.to_bytes(), &[]);
        e
    }
}

/// The domain keeps its current number of processors, because the quota cannot be read any more.
fn keep_processors() {
    if let Some(pool) = Pool::get().filter(|_| !Pool::donated_only()) {
        Pool::configure(pool.maximum() as u32);
    }
}
