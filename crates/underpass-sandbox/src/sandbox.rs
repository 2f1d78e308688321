//! A sandbox, described.

use crate::spec::Spec;
use crate::supervisor::{Plan, start};
use crate::{Domain, Measure, StartError};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// A sandbox for a domain that can do nothing but serve and call its bindings. It can be started
/// again and again: after a crash, or for several domains at once.
///
/// The process starts with an empty environment (but for `$UNDERPASS_DIR`, where names are), no
/// open files but sockets in place of the standard outputs ([`silent`](Self::silent)), and dies
/// with this process. [`inside`](crate::inside) says what it does then.
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
/// use underpass_sandbox::{Measure, Sandbox};
///
/// let sandbox = Sandbox::program("/usr/libexec/decoder")
///     .arg("--strict")
///     .memory(64 << 20)
///     .processor_time(Duration::from_secs(60))
///     .require(Measure::Files);
/// let domain = sandbox.start()?;
/// assert!(domain.report().holds(Measure::Files));
/// # Ok::<(), underpass_sandbox::StartError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing runs until `start`"]
pub struct Sandbox {
    pub(crate) plan: Plan,
}

impl Sandbox {
    /// For another process of this very program: its `main` calls [`inside`](crate::inside).
    pub fn this_program() -> Self {
        // Not a path of the file system: it may have been replaced by a later version.
        Self::program("/proc/self/exe")
    }

    /// For a process of another program, whose `main` calls [`inside`](crate::inside). The path is
    /// not looked for in `$PATH`.
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

    /// Gives the program a variable of the environment, which is empty else.
    pub fn env(self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.with(|plan| plan.environment.push((key.into(), value.into())))
    }

    /// Bytes of private memory that it may use beyond what it has when it begins to serve. 256 MiB
    /// at first. What can't be had is refused; a Rust program aborts then, unless it asked by
    /// `try_reserve`.
    ///
    /// Files in memory, in which large arguments and results travel, are bounded by
    /// [`files`](Self::files) × [`largest`](Self::largest) alone, and mapped ones once more and by
    /// 4 GiB. Somebody who has taken the domain over can fill as much; when the machine's memory
    /// runs out, the kernel ends the domain before others. A control group around the program
    /// bounds it tightly.
    pub fn memory(self, bytes: u64) -> Self {
        self.limited(|spec| spec.memory = bytes)
    }

    /// Bytes of the largest argument or result that can travel. 64 MiB at first, and 2 MiB at
    /// least: a binding's own memory. A larger result is
    /// [`NoResources`](underpass_rpc::CallError::NoResources) to its caller.
    pub fn largest(self, bytes: u64) -> Self {
        self.limited(|spec| spec.largest = bytes.max(2 << 20))
    }

    /// Open files: one for each binding, one for each large argument or result under way, and some
    /// ten for the runtime. 256 at first.
    ///
    /// It also bounds the files that are under way in sockets. The kernel counts those for *all*
    /// processes of a user together. It refuses a process to pass files while there are more than
    /// that process's own number of open files (`ulimit -n`, mostly 1,024). So a domain that was
    /// taken over, and fills sockets with files, can bring the count to this number, and to 253
    /// beyond it for each kernel thread that sends in the same moment. Other processes of its user
    /// can still pass files if their number is larger.
    ///
    /// For the same reason a domain with a small number can't hand out bindings and large results
    /// while other processes have as many files under way (`ETOOMANYREFS`).
    pub fn files(self, files: u64) -> Self {
        self.limited(|spec| spec.files = files)
    }

    /// Kernel threads. 256 at first. See [`Measure::Tasks`].
    pub fn tasks(self, tasks: u64) -> Self {
        self.limited(|spec| spec.tasks = tasks)
    }

    /// Processor time of its whole life, in whole seconds and one at least; unbounded at first.
    /// Then it ends with [`Ended::ProcessorTime`](crate::Ended::ProcessorTime). [`Domain::within`]
    /// bounds the time of one call.
    pub fn processor_time(self, time: Duration) -> Self {
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        self.limited(|spec| spec.processor_time = Some(seconds.max(1)))
    }

    /// Has forbidden calls fail with `EPERM` instead of ending the domain: for libraries that try
    /// what they can do without.
    pub fn lenient(self) -> Self {
        self.limited(|spec| spec.lenient = true)
    }

    /// Has [`start`](Self::start) fail if `measure` does not hold on this system. Some always are
    /// required; the rest is done as well as the system can.
    pub fn require(self, measure: Measure) -> Self {
        self.limited(|spec| spec.required.push(measure))
    }

    /// How long the process may take until it serves. 10 s at first.
    pub fn patience(self, time: Duration) -> Self {
        self.with(|plan| plan.patience = time)
    }

    /// Leaves it no standard outputs: what it says there, as that it panics, is lost.
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

    /// Starts the process, and waits until it serves. Blocks the calling thread and no other.
    ///
    /// # Errors
    /// [`StartError`], each kind with its remedy; and then the process has ended.
    pub fn start(&self) -> Result<Domain, StartError> {
        start(self.plan.clone())
    }
}
