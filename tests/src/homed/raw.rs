//! What an honest home and an honest reader never do.

use std::error::Error;
use std::ffi::{c_int, c_long, c_void};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass_tests::Numbers;

unsafe extern "C" {
    fn fork() -> c_int;
    fn _exit(status: c_int) -> !;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn write(to: c_int, bytes: *const c_void, count: usize) -> isize;
    fn syscall(number: c_long, ...) -> c_long;
}

/// `PR_SET_SECCOMP`, `SECCOMP_MODE_STRICT` and the number of `exit`.
const PR_SET_SECCOMP: c_int = 22;
const STRICT: c_int = 1;
const EXIT: c_long = 60;

/// Where this domain has mapped memory of that name for writing.
fn memory(name: &str) -> Result<Vec<Range<usize>>, Box<dyn Error>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let lines = maps.lines().filter(|line| line.contains(name) && line.contains(" rw-s "));
    let all: Result<Vec<_>, Box<dyn Error>> = lines
        .map(|line| {
            let (range, _) = line.split_once(' ').ok_or("no range")?;
            let (begin, end) = range.split_once('-').ok_or("no range")?;
            Ok(usize::from_str_radix(begin, 16)?..usize::from_str_radix(end, 16)?)
        })
        .collect();
    all.and_then(|all| if all.is_empty() { Err("it is not mapped".into()) } else { Ok(all) })
}

/// Writes `times` numbers anywhere into the object, most of them such that they could mean
/// something.
pub fn spoil(numbers: &mut Numbers, times: u64) -> Result<(), Box<dyn Error>> {
    // The words of the protocol, those behind them, and any.
    write_anywhere("memfd:underpass-object", numbers, times, |numbers, words| match numbers.below(3) {
        0 => 8 + numbers.below(3),
        1 => numbers.below(words.min(300)),
        _ => numbers.below(words),
    })
}

/// Writes `times` numbers anywhere into the request area.
pub fn spoil_requests(numbers: &mut Numbers, times: u64) -> Result<(), Box<dyn Error>> {
    // The reserved location, the first words of requests and of their second lines, and any.
    write_anywhere("memfd:underpass-requests", numbers, times, |numbers, words| match numbers.below(3) {
        0 => 0,
        1 => 8 * (1 + numbers.below(32)) + numbers.below(2),
        _ => numbers.below(words),
    })
}

/// Writes `times` numbers anywhere into the memory of locked objects.
pub fn spoil_locked(numbers: &mut Numbers, times: u64) -> Result<(), Box<dyn Error>> {
    // The word of the lock, the data or permits, and any.
    write_anywhere("memfd:underpass-locked", numbers, times, |numbers, words| match numbers.below(3) {
        0 => 8,
        1 => 16 + numbers.below(4),
        _ => numbers.below(words),
    })
}

fn write_anywhere(
    name: &str,
    numbers: &mut Numbers,
    times: u64,
    which: impl Fn(&mut Numbers, usize) -> usize,
) -> Result<(), Box<dyn Error>> {
    let all = memory(name)?;
    for _ in 0..times {
        let memory = &all[numbers.below(all.len())];
        let words = (memory.end - memory.start) / 8;
        let index = which(numbers, words);
        let value = match numbers.below(5) {
            0 => 0,
            1 => u64::MAX,
            2 => numbers.draw(),
            3 => 1 << numbers.below(64),
            _ => numbers.below(8) as u64,
        };
        let at = (memory.start + index * 8) as *mut u64;
        // SAFETY: the word lies in the mapping, which stays to the end of this process. Every
        // domain accesses it by atomics or opaque copies.
        let word = unsafe { AtomicU64::from_ptr(at) };
        word.store(value, Ordering::SeqCst);
    }
    Ok(())
}

/// What `ask` says in a forked child.
pub fn in_child(ask: impl FnOnce() -> bool) -> io::Result<bool> {
    // SAFETY: the child does what `ask` does, which takes no lock, and ends.
    let child = unsafe { fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        let status = if ask() { 7 } else { 8 };
        // SAFETY: it ends the child.
        unsafe { _exit(status) };
    }
    let mut status = 0;
    // SAFETY: the status is this function's own.
    if unsafe { waitpid(child, &mut status, 0) } != child {
        return Err(io::Error::last_os_error());
    }
    Ok(status == 7 << 8)
}

/// Lets the system end this kernel thread at any call but a read or a write. Then runs `work`,
/// writes what it returns, and ends.
pub fn mute(work: impl FnOnce() -> Option<u64>) -> io::Result<()> {
    // SAFETY: the call takes two numbers. This thread makes no other calls afterwards.
    if unsafe { prctl(PR_SET_SECCOMP, STRICT) } != 0 {
        println!("refused");
        return Ok(());
    }
    let mut line = [b'0'; 21];
    let mut rest = work().unwrap_or(0);
    for digit in line[..20].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    line[20] = b'\n';
    // SAFETY: the bytes are this function's own.
    unsafe { write(1, line.as_ptr().cast(), line.len()) };
    // SAFETY: it ends this kernel thread, by the call that is allowed. Its process ends with its
    // test.
    unsafe { syscall(EXIT, 0) };
    unreachable!("the thread has ended")
}
