//! A process that is killed or stopped, at a step or a moment that a seed chooses.

use crate::ports::journal::Journals;
use crate::ports::others::Others;
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use underpass_os::failpoint::STEPS;
use underpass_os::process::{ProcessState, state_of};
use underpass_tests::{Numbers, cont, signal, state_of as states_of};

/// The most passes of a step before the process is killed or stopped there.
const MOST_TIMES: usize = 24;
/// The most messages before the survivor kills or stops it, if this build has no steps.
const MOST_MESSAGES: usize = 60;
/// How often the survivor looks what has become of it.
const GLANCE: Duration = Duration::from_millis(1);

/// Where it happens.
#[derive(Clone, Copy, Debug)]
enum At {
    /// At a step, at its pass of this number.
    Step(&'static str, usize),
    /// A short time after it has made this many notes. The survivor does it.
    Notes(usize),
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Killed,
    /// It is stopped, and killed later.
    StoppedAndKilled,
    /// It is stopped, and goes on later.
    Stopped,
}

/// What happens to a process.
#[derive(Clone, Copy, Debug)]
pub struct Fate {
    at: At,
    how: How,
}

impl Fate {
    /// Chooses by `numbers` among the steps that begin with one of `sides`, if this build has
    /// steps.
    pub fn choose(numbers: &mut Numbers, sides: &[&str]) -> Self {
        let steps: Vec<_> =
            STEPS.iter().copied().filter(|step| sides.iter().any(|side| step.starts_with(side))).collect();
        // Some steps are passed only once.
        let times = if numbers.below(2) == 0 { 1 } else { 1 + numbers.below(MOST_TIMES) };
        let at = match cfg!(underpass_failpoints) {
            true => At::Step(numbers.among(&steps), times),
            false => At::Notes(numbers.below(MOST_MESSAGES)),
        };
        Self { at, how: numbers.among(&[How::Killed, How::Killed, How::StoppedAndKilled, How::Stopped]) }
    }

    /// Starts this program with `arguments`, and this fate.
    pub fn start(self, arguments: &[&str]) -> io::Result<Victim> {
        let mut command = Command::new("/proc/self/exe");
        command.args(arguments).stdin(Stdio::null());
        if let At::Step(step, times) = self.at {
            let stops = if self.how == How::Killed { "" } else { ":stop" };
            command.env("UNDERPASS_FAILPOINT", format!("{step}:{times}{stops}"));
        }
        let child = command.spawn()?;
        Ok(Victim { child, fate: self })
    }
}

/// The process.
#[derive(Debug)]
pub struct Victim {
    child: Child,
    fate: Fate,
}

/// What the thread that watches the process and the one that talks to it tell each other.
#[derive(Debug, Default)]
pub struct Shared {
    is_gone: AtomicBool,
    is_done: AtomicBool,
}

impl Shared {
    /// Whether the process has ended.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Nothing more is wanted of the process.
    pub fn done(&self) {
        self.is_done.store(true, Ordering::Release);
    }
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its fate killed it.
    Killed,
    /// The survivor killed it, when nothing more was wanted.
    ByTheSurvivor,
    /// By itself.
    ByItself,
}

impl Victim {
    /// Watches the process until it has ended.
    pub fn watch(
        mut self,
        shared: &Shared,
        journals: &Journals,
        others: &Others,
        fates: &mut Fates,
    ) -> Result<Ended, String> {
        let ended = self.until_end(shared, journals, others, fates);
        if ended.is_err() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        shared.is_gone.store(true, Ordering::Release);
        ended.map_err(|e| format!("{:?}: {e}", self.fate))
    }

    fn until_end(
        &mut self,
        shared: &Shared,
        journals: &Journals,
        others: &Others,
        fates: &mut Fates,
    ) -> Result<Ended, Box<dyn Error>> {
        let mut meets_it = true;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return self.ended_with(status, fates);
            }
            if shared.is_done.load(Ordering::Acquire) {
                // It may have met its fate just now: its sockets close before it can be waited for.
                if matches!(state_of(self.child.id()), ProcessState::Exiting | ProcessState::Gone) {
                    let status = self.child.wait()?;
                    return self.ended_with(status, fates);
                }
                self.child.kill()?;
                self.child.wait()?;
                return Ok(Ended::ByTheSurvivor);
            }
            if meets_it && self.meets_its_fate(journals)? {
                if self.fate.how != How::Killed {
                    fates.count(self.fate, "stopped");
                    others.go_on()?;
                }
                if self.fate.how != How::Stopped {
                    self.child.kill()?;
                    let status = self.child.wait()?;
                    return self.ended_with(status, fates);
                }
                cont(self.child.id());
                meets_it = false;
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Whether it is to be killed now, or has been stopped.
    fn meets_its_fate(&mut self, journals: &Journals) -> io::Result<bool> {
        let pid = self.child.id();
        match self.fate.at {
            At::Step(..) => Ok(self.fate.how != How::Killed && is_stopped(pid)),
            At::Notes(notes) if journals.messages.len() < notes => Ok(false),
            At::Notes(_) if self.fate.how == How::Killed => Ok(true),
            At::Notes(_) => {
                signal("-STOP", pid);
                while !is_stopped(pid) {
                    if self.child.try_wait()?.is_some() {
                        return Ok(false);
                    }
                    std::thread::yield_now();
                }
                Ok(true)
            }
        }
    }

    fn ended_with(&self, status: ExitStatus, fates: &mut Fates) -> Result<Ended, Box<dyn Error>> {
        match status.signal() {
            None if status.success() => Ok(Ended::ByItself),
            Some(9) if self.fate.how != How::Stopped => {
                fates.count(self.fate, "killed");
                Ok(Ended::Killed)
            }
            _ => Err(format!("it ended by itself: {status}").into()),
        }
    }
}

/// Whether all kernel threads of `pid` are stopped.
fn is_stopped(pid: u32) -> bool {
    let states = states_of(pid);
    !states.is_empty() && states.chars().all(|state| state == 'T')
}

/// How many processes were killed and stopped at each step.
#[derive(Debug, Default)]
pub struct Fates(BTreeMap<(&'static str, &'static str), usize>);

impl Fates {
    fn count(&mut self, fate: Fate, what: &'static str) {
        let at = match fate.at {
            At::Step(step, _) => step,
            At::Notes(_) => "any moment",
        };
        *self.0.entry((at, what)).or_default() += 1;
    }

    /// Prints the counts.
    pub fn tell(&self) {
        let list: Vec<_> = self.0.iter().map(|((at, what), count)| format!("{at} {what} {count}")).collect();
        println!("{}", list.join(", "));
    }
}
