//! The description of a sandbox.

use crate::spec::Spec;
use crate::supervisor::{Plan, start};
use crate::{Domain, Measure, StartError};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// A sandbox for a domain that can only serve and call its bindings. It can be started repeatedly:
/// after a crash, or for several domains at once.
///
/// The process starts with an environment that is empty except for `$UNDERPASS_DIR`, the directory
/// of names. It has no open files but sockets in place of the standard outputs
/// ([`silent`](Self::silent)), and dies with this process. [`inside`](crate::inside) says what it
/// does then.
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
/// use underpass::sandbox::{Measure, Sandbox};
///
/// let sandbox = Sandbox::program("/usr/libexec/decoder")
///     .arg("--strict")
///     .memory(64 << 20)
///     .processor_time(Duration::from_secs(60))
///     .require(Measure::Files);
/// let domain = sandbox.start()?;
/// assert!(domain.report().holds(Measure::Files));
/// # Ok::<(), underpass::sandbox::StartError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing runs until `start`"]
pub struct Sandbox {
    pub(crate) plan: Plan,
}

impl Sandbox {
    /// A sandbox for another process of this very program. Its `main` calls
    /// [`inside`](crate::inside).
    pub fn this_program() -> Self {
        // Not the program's path, because a later version may have replaced the file.
        Self::program("/proc/self/exe")
    }

    /// A sandbox for a process of another program. Its `main` calls [`inside`](crate::inside).
    /// The path is not searched in `$PATH`.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self {
            plan: Plan {
                program: path.into(),
                arguments: Vec::new(),
                environment: Vec::new(),
                spec: Spec::default(),
                patience: Duration::from_secs(10),
                silent: false,
            },
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Plan)) -> Self {
        change(&mut self.plan);
        self
    }

    fn limited(self, change: impl FnOnce(&mut Spec)) -> Self {
        self.with(|plan| change(&mut plan.spec))
    }

    /// Gives the program an argument.
    pub fn arg(self, argument: impl AsRef<OsStr>) -> Self {
        self.with(|plan| plan.arguments.push(argument.as_ref().to_owned()))
    }

    /// Sets an environment variable of the program. Without this, the environment is empty.
    pub fn env(self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.with(|plan| plan.environment.push((key.into(), value.into())))
    }

    /// The bytes of private memory that it may use beyond those in use when it begins to serve. The
    /// default is 256 MiB. Further memory is refused. A Rust program aborts then, unless it asked
    /// by `try_reserve`.
    ///
    /// Files in memory, in which large arguments and results travel, are bounded by
    /// [`files`](Self::files) × [`largest`](Self::largest) alone, and mapped ones once more and by
    /// 4 GiB. Somebody who has taken the domain over can fill as much; when the machine's memory
    /// runs out, the kernel ends the domain before others. A control group around the program
    /// bounds it tightly.
    pub fn memory(self, bytes: u64) -> Self {
        self.limited(|spec| spec.memory = bytes)
    }

    /// The bytes of the largest argument or result that can travel. The default is 64 MiB, the
    /// least 2 MiB, which is a binding's own memory. For a larger result, the caller gets
    /// [`NoResources`](underpass_rpc::CallError::NoResources).
    pub fn largest(self, bytes: u64) -> Self {
        self.limited(|spec| spec.largest = bytes.max(2 << 20))
    }

    /// The limit on open files: one for each binding, one for each large argument or result in
    /// progress, and about ten for the runtime. The default is 256.
    ///
    /// It also limits the files that are in flight in sockets. The kernel counts those for *all*
    /// processes of a user together. It refuses a process to pass files while there are more of
    /// them than that process's own limit on open files (`ulimit -n`, mostly 1,024). So a domain
    /// that was taken over and fills sockets with files can raise the count to this number. For
    /// each kernel thread that sends at the same moment, it can add 253. Other processes of its
    /// user can still pass files if their own limit is larger.
    ///
    /// For the same reason, a domain with a small limit cannot pass bindings and large results
    /// while other processes have as many files in flight (`ETOOMANYREFS`).
    pub fn files(self, files: u64) -> Self {
        self.limited(|spec| spec.files = files)
    }

    /// The limit on kernel threads. The default is 256. See [`Measure::Tasks`].
    pub fn tasks(self, tasks: u64) -> Self {
        self.limited(|spec| spec.tasks = tasks)
    }

    /// The processor time of its whole life, in whole seconds and at least one. The default is no
    /// limit. When the time is used up, it ends with
    /// [`Ended::ProcessorTime`](crate::Ended::ProcessorTime). [`Domain::within`] limits the time of
    /// one call.
    pub fn processor_time(self, time: Duration) -> Self {
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        self.limited(|spec| spec.processor_time = Some(seconds.max(1)))
    }

    /// Makes forbidden calls fail with `EPERM` instead of ending the domain, for libraries that try
    /// calls without needing them.
    pub fn lenient(self) -> Self {
        self.limited(|spec| spec.lenient = true)
    }

    /// Makes [`start`](Self::start) fail if `measure` does not hold on this system. Some measures
    /// are always required. The others are taken as far as the system allows.
    pub fn require(self, measure: Measure) -> Self {
        self.limited(|spec| spec.required.push(measure))
    }

    /// How long the process may take until it serves. The default is 10 s.
    pub fn patience(self, time: Duration) -> Self {
        self.with(|plan| plan.patience = time)
    }

    /// Gives it no standard outputs. What it writes there is lost, also the message of a panic.
    ///
    /// At first what it writes there is copied to this process's outputs, each by a kernel thread
    /// of its own. The domain can't reach the files behind them. If nobody reads those, the domain
    /// waits in its writes when some 200 KiB are under way, and nothing else does. If they are
    /// closed, its writes fail with `EPIPE`. All that it wrote before its end is copied before that
    /// is told, unless nobody reads it for a second. Lines of the two outputs may change their
    /// order. If this process exits without having ended the domain, some of the last output may be
    /// lost.
    pub fn silent(self) -> Self {
        self.with(|plan| plan.silent = true)
    }

    /// Starts the process, and waits until it serves. This blocks only the calling thread.
    ///
    /// # Errors
    /// [`StartError`], each kind with its remedy. The process has ended then.
    pub fn start(&self) -> Result<Domain, StartError> {
        start(self.plan.clone())
    }
}
