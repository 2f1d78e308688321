//! The processors that this domain may use.

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
/// What `sched_getaffinity` says: on a machine of more than 1,024 CPUs, `InvalidInput`.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Confines this kernel thread, and those that it starts from now on, to `cpus`.
///
/// # Errors
/// `InvalidInput` if none of `cpus` exists or is allowed here (see `taskset -p $$`).
pub fn confine(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Moves this kernel thread to another of the CPUs that it may run on, and lets the kernel move it
/// on from there; `false` if it has no other. Three system calls, and what it takes to wake an idle
/// CPU.
pub fn leave() -> bool {
    let Ok(all) = sched_getaffinity(None) else { return false };
    let mut others = all;
    others.unset(current());
    let moved = others.count() > 0 && sched_setaffinity(None, &others).is_ok();
    if moved {
        // It fails if all CPUs of the set have been taken away meanwhile; then the kernel has
        // chosen others.
        let _ = sched_setaffinity(None, &all);
    }
    moved
}

/// Gives the processor away to any other kernel thread that is ready on it.
pub fn give_way() {
    rustix::thread::sched_yield();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_a_cpu_may_come_back() {
        let before = allowed().unwrap();
        assert_eq!(leave(), before.len() > 1);
        assert_eq!(allowed().unwrap(), before);
        confine(&[current()]).unwrap();
        assert!(!leave(), "there is no other");
    }
}
