//! A stack overflow is reported with the thread's name. Other faults are reported as without this
//! package.

use crate::common::{setting, test_command, watchdog};
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use underpass_threads::{Builder, blocking};

/// Runs the calling test in a process of its own, which it kills.
fn child() -> Output {
    test_command().env("UNDERPASS_TEST_DIES", "1").output().unwrap()
}

fn dies() -> bool {
    setting("UNDERPASS_TEST_DIES", 0) == 1
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[inline(never)]
fn goes_too_deep(depth: u64) -> u64 {
    let here = std::hint::black_box([depth; 16]);
    if depth == u64::MAX { 0 } else { goes_too_deep(depth + 1) + here[3] }
}

#[test]
fn an_overflow_names_the_thread_its_stack_and_where_it_is() {
    let _dog = watchdog();
    if dies() {
        let body = || goes_too_deep(0);
        let thread = Builder::new().name("deep one").stack_size(64 * 1024).spawn(body).unwrap();
        unreachable!("it ends the process: {:?}", thread.join());
    }
    let output = child();
    let said = said(&output);
    assert_eq!(output.status.signal(), Some(6), "{said}");
    assert!(said.contains("thread 'deep one' ("), "{said}");
    assert!(said.contains("has overflowed its stack of 64 KiB"), "{said}");
    assert!(said.contains("Builder::stack_size"), "{said}");
    assert!(said.matches("goes_too_deep").count() > 10, "{said}");
    let first = said.lines().find(|line| line.trim_start().starts_with("0:")).unwrap();
    assert!(first.contains("goes_too_deep") || first.contains("black_box"), "{said}");
}

#[test]
fn an_overflow_in_a_blocking_call_is_reported_too() {
    let _dog = watchdog();
    if dies() {
        let thread = Builder::new().name("deep call").spawn(|| blocking(|| goes_too_deep(0))).unwrap();
        unreachable!("it ends the process: {:?}", thread.join());
    }
    let output = child();
    let said = said(&output);
    assert_eq!(output.status.signal(), Some(6), "{said}");
    assert!(said.contains("'deep call'") && said.contains("stack of 256 KiB"), "{said}");
}

#[test]
fn the_stack_of_a_kernel_thread_is_std_s_matter() {
    let _dog = watchdog();
    if dies() {
        underpass_threads::spawn(|| ()).join().unwrap();
        let body = || goes_too_deep(0);
        let thread = std::thread::Builder::new()
            .name("of the kernel".into())
            .stack_size(64 * 1024)
            .spawn(body)
            .unwrap();
        unreachable!("it ends the process: {:?}", thread.join());
    }
    let output = child();
    let said = said(&output);
    assert_eq!(output.status.signal(), Some(6), "{said}");
    assert!(said.contains("'of the kernel'") && said.contains("overflowed its stack"), "{said}");
    assert!(!said.contains("underpass:"), "{said}");
}

#[test]
fn another_fault_is_a_fault() {
    let _dog = watchdog();
    if dies() {
        // SAFETY: none. Nothing is mapped there, and the fault is the purpose.
        let thread =
            Builder::new().spawn(|| unsafe { std::ptr::without_provenance::<u64>(64).read_volatile() });
        unreachable!("it ends the process: {:?}", thread.unwrap().join());
    }
    let output = child();
    assert_eq!(output.status.signal(), Some(11), "{}", said(&output));
    assert!(!said(&output).contains("overflow"), "{}", said(&output));
}
