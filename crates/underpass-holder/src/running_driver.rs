//! One driver: its device, and the processes of its program.

use crate::drivers::{DriverError, DriverProgram, DriverStatus};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use underpass::device::{DeviceHolder, DriverEnd};
use underpass::sync::{Condvar, Mutex, MutexGuard};
use underpass::thread::cancelled;
use underpass_os::spawn::ChildEnder;

/// A process that ends sooner than this after its start does not count as having served.
const BRIEF: Duration = Duration::from_secs(1);
/// After as many such ends in a row a driver is not started again.
const MOST_BRIEF: u32 = 5;
/// How long a driver may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(15);

/// One driver, which may be between two processes.
#[derive(Debug)]
pub(crate) struct RunningDriver {
    name: String,
    holder: DeviceHolder,
    state: Mutex<DriverState>,
    /// Held by the caller that replaces the program: the programs get the device in this order.
    replacing: Mutex<()>,
    changed: Condvar,
}

#[derive(Debug)]
struct DriverState {
    /// What is started if the newest process ends.
    program: DriverProgram,
    wanted: bool,
    /// Those that run, the newest last.
    processes: Vec<DriverProcess>,
    starts: u64,
    deaths: u64,
    handed_over: u64,
    brief: u32,
}

#[derive(Debug)]
struct DriverProcess {
    number: u64,
    id: u32,
    program: DriverProgram,
    ender: ChildEnder,
    /// It has got the device.
    lent: bool,
    since: Instant,
}

impl RunningDriver {
    /// Starts the first process. Returns once it has the device.
    pub(crate) fn start(
        name: &str,
        holder: DeviceHolder,
        program: DriverProgram,
    ) -> Result<Arc<Self>, DriverError> {
        let state = DriverState {
            program: program.clone(),
            wanted: true,
            processes: Vec::new(),
            starts: 0,
            deaths: 0,
            handed_over: 0,
            brief: 0,
        };
        let driver = Arc::new(Self {
            name: name.to_owned(),
            holder,
            state: Mutex::new(state),
            replacing: Mutex::new(()),
            changed: Condvar::new(),
        });
        let number = driver.launch(&mut driver.state(), program)?;
        match driver.until_lent(number) {
            true => Ok(driver),
            false => {
                driver.stop();
                Err(DriverError::Ended)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, DriverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process, which gets the device in its turn. Returns its number.
    fn launch(self: &Arc<Self>, state: &mut DriverState, program: DriverProgram) -> Result<u64, DriverError> {
        let failed = |e: std::io::Error| DriverError::Program(format!("{}: {e}", program.program));
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let mut command = Command::new(&program.program);
        command.args(&program.arguments).stdin(Stdio::from(OwnedFd::from(theirs)));
        let mut child = command.spawn().map_err(failed)?;
        // Otherwise this process would keep the driver's end open.
        drop(command);
        let ender = ChildEnder::new(&child).inspect_err(|_| end_now(&mut child)).map_err(failed)?;
        state.starts += 1;
        let (number, id) = (state.starts, child.id());
        let watching = Arc::clone(self);
        let thread = std::thread::Builder::new().name(format!("driver {id}"));
        let watched = thread.spawn(move || watching.watch(number, ours, child));
        // If there is no thread, the child was dropped with its closure, and runs.
        watched.inspect_err(|_| ender.kill()).map_err(failed)?;
        let process = DriverProcess { number, id, program, ender, lent: false, since: Instant::now() };
        state.processes.push(process);
        Ok(number)
    }

    /// Lends the device to a process in its turn, and waits until it has ended.
    fn watch(self: Arc<Self>, number: u64, socket: UnixStream, mut child: Child) {
        let lending = Arc::clone(&self);
        let lent = std::thread::Builder::new().name("lend".to_owned()).spawn(move || {
            let end = lending.holder.lend_and(socket, || lending.note_lent(number));
            match end {
                Ok(DriverEnd::HandedOver) => lending.state().handed_over += 1,
                Ok(DriverEnd::Died) => {}
                Err(e) => eprintln!("underpass-holder: the device of {} can't be lent: {e}", lending.name),
            }
        });
        if let Err(e) = &lent {
            // Its socket is closed, so that it ends.
            eprintln!("underpass-holder: {}: {e}", self.name);
        }
        // It fails only if somebody else has waited for the child, and nobody does.
        let _ = child.wait();
        self.ended(number);
    }

    fn note_lent(&self, number: u64) {
        let mut state = self.state();
        state.processes.iter_mut().filter(|process| process.number == number).for_each(|it| it.lent = true);
        self.changed.notify_all();
    }

    /// A process has ended. If it was the newest one, the one before it goes on, or its program is
    /// started again.
    fn ended(self: &Arc<Self>, number: u64) {
        let mut state = self.state();
        let Some(place) = state.processes.iter().position(|process| process.number == number) else {
            return;
        };
        let newest = place + 1 == state.processes.len();
        let ended = state.processes.remove(place);
        if newest && let Some(before) = state.processes.last() {
            // It has not replaced the other one, which still has the device.
            state.program = before.program.clone();
        } else if newest && state.wanted {
            state.deaths += 1;
            state.brief = if ended.since.elapsed() < BRIEF { state.brief + 1 } else { 0 };
            let program = state.program.clone();
            if state.brief >= MOST_BRIEF {
                eprintln!("underpass-holder: {} ends again and again, so it is not started", self.name);
            } else if let Err(e) = self.launch(&mut state, program) {
                eprintln!("underpass-holder: {}: {e}", self.name);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until a process has the device. `false`: it has ended without it.
    fn until_lent(&self, number: u64) -> bool {
        let mut state = self.state();
        loop {
            match state.processes.iter().find(|process| process.number == number) {
                None => return false,
                Some(process) if process.lent => return true,
                // Nobody waits for the answer any more.
                Some(_) if cancelled() => return true,
                Some(_) => {}
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Starts another program, which replaces the one that runs. Returns once it has the device.
    pub(crate) fn replace(self: &Arc<Self>, program: DriverProgram) -> Result<(), DriverError> {
        let _one = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let number = {
            let mut state = self.state();
            if !state.wanted {
                return Err(DriverError::Unknown);
            }
            let number = self.launch(&mut state, program.clone())?;
            (state.program, state.brief) = (program, 0);
            number
        };
        if self.until_lent(number) { Ok(()) } else { Err(DriverError::Ended) }
    }

    /// Ends all processes.
    pub(crate) fn stop(&self) {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.state();
        state.wanted = false;
        state.processes.iter().for_each(|process| process.ender.terminate());
        // If nobody waits for the answer any more, they have been asked to end, at least.
        while !state.processes.is_empty() && !cancelled() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.processes.iter().for_each(|process| process.ender.kill());
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    pub(crate) fn status(&self) -> DriverStatus {
        let state = self.state();
        DriverStatus {
            name: self.name.clone(),
            processes: state.processes.iter().map(|process| process.id).collect(),
            starts: state.starts,
            deaths: state.deaths,
            handed_over: state.handed_over,
        }
    }
}

/// Ends a child that can't be watched.
fn end_now(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
