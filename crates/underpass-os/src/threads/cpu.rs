//! The processors that this domain may use.

use crate::thread::Tid;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::io;

/// The CPU that this kernel thread runs on at this moment.
#[inline]
pub fn current() -> usize {
    sched_getcpu()
}

/// The CPUs that this kernel thread may run on, ascending.
///
/// # Errors
/// The errors of `sched_getaffinity`. On a machine of more than 1,024 CPUs that is `InvalidInput`.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Whether the process `pid` may run on `cpu` and on no other. `false` if that can't be told.
///
/// # Examples
/// ```
/// let own = std::process::id();
/// let cpus = underpass_os::cpu::allowed()?;
/// assert_eq!(underpass_os::cpu::is_only_cpu_of(own, cpus[0]), cpus.len() == 1);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn is_only_cpu_of(pid: u32, cpu: usize) -> bool {
    let set = name(pid).and_then(|pid| Ok(sched_getaffinity(Some(pid))?));
    set.is_ok_and(|set| set.count() == 1 && cpu < CpuSet::MAX_CPU && set.is_set(cpu))
}

/// Confines this kernel thread, and the threads that it starts from now on, to `cpus`.
///
/// # Errors
/// `InvalidInput` if this process may use none of `cpus` (see `taskset -p $$`).
pub fn confine(cpus: &[usize]) -> io::Result<()> {
    Ok(sched_setaffinity(None, &set_of(cpus))?)
}

/// The CPUs that a kernel thread of any process may run on, ascending.
///
/// # Errors
/// There is no such thread. On a machine of more than 1,024 CPUs it is `InvalidInput`.
pub fn allowed_to(thread: u32) -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(Some(name(thread)?))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Confines a kernel thread of a process of this user to `cpus`. What it starts from then on is
/// confined as well.
///
/// # Errors
/// There is no such thread, it is another user's, or it may use none of `cpus`.
///
/// # Examples
/// ```
/// use underpass_os::cpu;
/// let own = std::process::id();
/// let before = cpu::allowed_to(own)?;
/// cpu::confine_thread(own, &before[..1])?;
/// assert_eq!(cpu::allowed_to(own)?, before[..1]);
/// cpu::confine_thread(own, &before)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn confine_thread(thread: u32, cpus: &[usize]) -> io::Result<()> {
    Ok(sched_setaffinity(Some(name(thread)?), &set_of(cpus))?)
}

fn name(thread: u32) -> io::Result<Pid> {
    let name = i32::try_from(thread).ok().and_then(Pid::from_raw);
    name.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    set
}

/// Moves this kernel thread to `cpu`, and then lets the kernel move it freely again.
///
/// # Errors
/// `InvalidInput` if it may not run there.
pub fn go_to(cpu: usize) -> io::Result<()> {
    let all = sched_getaffinity(None)?;
    if cpu >= CpuSet::MAX_CPU || !all.is_set(cpu) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sched_setaffinity(None, &set_of(&[cpu]))?;
    // This fails if all CPUs of the set have been taken away meanwhile. The kernel has then chosen
    // others.
    let _ = sched_setaffinity(None, &all);
    Ok(())
}

/// Moves this kernel thread to another of the CPUs that it may run on, and then lets the kernel
/// move it freely again. Returns `false` if it has no other CPU. It costs three system calls, and
/// waking the other CPU if that is idle.
pub fn leave() -> bool {
    let Ok(all) = sched_getaffinity(None) else { return false };
    let mut others = all;
    others.unset(current());
    let moved = others.count() > 0 && sched_setaffinity(None, &others).is_ok();
    if moved {
        // This fails if all CPUs of the set have been taken away meanwhile. The kernel has then
        // chosen others.
        let _ = sched_setaffinity(None, &all);
    }
    moved
}

/// While this value exists, a thread of this process may run on one CPU only. So if it sleeps, it
/// wakes up there. Afterwards the kernel moves it freely again.
#[derive(Debug)]
pub struct WakeUpPlace {
    thread: Pid,
    before: CpuSet,
}

impl WakeUpPlace {
    /// Lets `thread` wake up on `cpu`. `None` if it may not run there, or on no other CPU, or if it
    /// has ended. It costs two system calls, and a third one when the value is dropped. What
    /// another process changes of the thread's CPUs meanwhile may be lost.
    ///
    /// # Examples
    /// ```
    /// use underpass_os::cpu::{self, WakeUpPlace};
    /// let before = cpu::allowed()?;
    /// let place = WakeUpPlace::new(underpass_os::thread::current(), before[0]);
    /// assert_eq!(place.is_some(), before.len() > 1);
    /// drop(place);
    /// assert_eq!(cpu::allowed()?, before);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(thread: Tid, cpu: usize) -> Option<Self> {
        let thread = thread.pid()?;
        let before = sched_getaffinity(Some(thread)).ok()?;
        if cpu >= CpuSet::MAX_CPU || !before.is_set(cpu) || before.count() == 1 {
            return None;
        }
        sched_setaffinity(Some(thread), &set_of(&[cpu])).ok()?;
        Some(Self { thread, before })
    }
}

impl Drop for WakeUpPlace {
    fn drop(&mut self) {
        // This fails if the thread has ended, or if all CPUs of the set have been taken away
        // meanwhile. The kernel has then chosen others.
        let _ = sched_setaffinity(Some(self.thread), &self.before);
    }
}

/// Yields the processor to another kernel thread that is ready on it.
pub fn give_way() {
    rustix::thread::sched_yield();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_wakes_up_where_it_was_placed() {
        let all = allowed().unwrap();
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            tell.send((crate::thread::current(), 0)).unwrap();
            woken.iter().for_each(|()| tell.send((crate::thread::current(), current())).unwrap());
        });
        let (thread, _) = told.recv().unwrap();
        for &cpu in all.iter().filter(|_| all.len() > 1) {
            let place = WakeUpPlace::new(thread, cpu).unwrap();
            wake.send(()).unwrap();
            assert_eq!(told.recv().unwrap().1, cpu);
            drop(place);
            assert_eq!(sched_getaffinity(thread.pid()).unwrap(), sched_getaffinity(None).unwrap());
        }
        drop(wake);
        sleeper.join().unwrap();
    }

    #[test]
    fn a_thread_that_left_a_cpu_may_return() {
        let before = allowed().unwrap();
        assert_eq!(leave(), before.len() > 1);
        assert_eq!(allowed().unwrap(), before);
        confine(&[current()]).unwrap();
        assert!(!leave(), "there is no other");
    }
}
