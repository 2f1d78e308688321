//! What gdb shows of threads that run, are ready and are suspended, in a live process and in a
//! core. Without gdb the test only prints that it was skipped.

use crate::common::{setting, test_name, watchdog};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use underpass_harness::skip;
use underpass_threads::{Builder, dump, park, yield_now};

#[inline(never)]
fn deepest(depth: u32) {
    if depth == 0 {
        park();
    } else {
        deepest(depth - 1);
    }
    std::hint::black_box(depth);
}

/// gdb stops here.
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn underpass_test_gdb_looks() {
    std::hint::black_box(());
}

#[inline(never)]
fn runs_right_here() {
    underpass_test_gdb_looks();
    if setting("UNDERPASS_TEST_DIES", 0) == 1 {
        std::process::abort();
    }
}

/// The process that gdb runs: all threads on one activation.
fn inferior() {
    let threads = underpass_threads::spawn(|| {
        let sleeper = Builder::new().name("sleeper").spawn(|| deepest(3)).unwrap();
        let waker = sleeper.thread().clone();
        let joiner = Builder::new().name("joiner").spawn(|| sleeper.join().unwrap()).unwrap();
        let go_on = Arc::new(AtomicBool::new(true));
        let yields = go_on.clone();
        let body = move || {
            while yields.load(Ordering::Relaxed) {
                yield_now();
            }
        };
        let yielder = Builder::new().name("yielder").spawn(body).unwrap();
        let blocked = |name: &str| {
            let dump = dump();
            dump.threads.iter().any(|thread| thread.name.as_deref() == Some(name) && thread.awaited.is_some())
        };
        while !blocked("sleeper") || !blocked("joiner") {}
        runs_right_here();
        go_on.store(false, Ordering::Relaxed);
        waker.unpark();
        (joiner, yielder)
    });
    let (joiner, yielder) = threads.join().unwrap();
    joiner.join().unwrap();
    yielder.join().unwrap();
}

/// gdb's output for these commands, about the child that stands in `runs_right_here`, or about its
/// core.
fn gdb(arguments: &[&str], commands: &[&str]) -> String {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/gdb/underpass.py");
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set disable-randomization off", "-ex", "set debuginfod enabled off"]);
    // Its messages about kernel threads may come in the middle of a line of the inferior's output.
    gdb.args(["-ex", "set print thread-events off", "-ex", &format!("source {}", script.display())]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let output =
        gdb.args(arguments).env("UNDERPASS_TEST_INFERIOR", "1").env("UNDERPASS_PROCESSORS", "1").output();
    let output = output.expect("it is installed");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Checks the output of `underpass threads` and `underpass bt sleeper`.
fn check(said: &str) {
    let line = |name: &str| {
        let lines: Vec<_> =
            said.lines().filter(|line| line.split_whitespace().any(|word| word == name)).collect();
        (*lines.first().unwrap_or_else(|| panic!("no {name} in\n{said}"))).to_owned()
    };
    assert!(line("sleeper").contains(" blocked "), "{said}");
    assert!(line("yielder").contains(" ready "), "{said}");
    assert!(line("joiner").contains("handle::End, held by "), "{said}");
    assert!(line("joiner").ends_with("'sleeper'"), "{said}");
    assert!(said.lines().any(|line| line.contains(" running ")), "{said}");
    let frames: Vec<_> = said.lines().skip_while(|line| !line.contains("'sleeper', blocked:")).collect();
    let deep = frames.iter().filter(|line| line.starts_with('#') && line.contains("deepest")).count();
    assert_eq!(deep, 4, "{said}");
    assert!(frames.iter().any(|line| line.contains("gdb.rs:")), "{said}");
    let last = frames.iter().rfind(|line| line.starts_with('#')).unwrap();
    assert!(last.contains("underpass_context_entry"), "it ends where the stack begins: {said}");
}

#[test]
fn gdb_lists_threads_and_shows_where_they_are() {
    let _dog = watchdog();
    if setting("UNDERPASS_TEST_INFERIOR", 0) == 1 {
        return inferior();
    }
    if cfg!(any(not(target_arch = "x86_64"), underpass_portable)) {
        skip!("the switch is not ours");
    }
    if Command::new("gdb").arg("--version").output().is_err() {
        skip!("there is no gdb");
    }
    let exe = std::env::current_exe().unwrap();
    let exe = exe.to_str().unwrap();
    let name = &test_name();
    let live = gdb(
        &["--args", exe, "--exact", name, "--nocapture"],
        &[
            "break underpass_test_gdb_looks",
            "run",
            "echo RUNNING\\n",
            "bt",
            "echo THREADS\\n",
            "underpass threads",
            "underpass bt sleeper",
            "echo ENTERED\\n",
            "underpass enter sleeper",
            "bt 12",
            "underpass leave",
            "echo AGAIN\\n",
            "bt",
            "echo OVER\\n",
            "delete",
            "continue",
        ],
    );
    let part = |begin: &str, end: &str| {
        let from = live.find(begin).unwrap_or_else(|| panic!("no {begin}:\n{live}"));
        let to = live[from..].find(end).unwrap_or_else(|| panic!("no {end}:\n{live}"));
        live[from..from + to].to_owned()
    };
    // The frames of a running thread, from where it is to where its stack begins, and nothing else.
    for running in [part("RUNNING\n", "THREADS\n"), part("AGAIN\n", "OVER\n")] {
        let frames: Vec<_> = running.lines().filter(|line| line.starts_with('#')).collect();
        assert!(frames[0].contains("underpass_test_gdb_looks"), "{running}");
        assert!(frames.iter().any(|frame| frame.contains("runs_right_here")), "{running}");
        assert!(frames.last().unwrap().contains("underpass_context_entry"), "{running}");
        assert!(!running.contains("corrupt") && !running.contains("Cannot access"), "{running}");
    }
    check(&part("THREADS\n", "ENTERED\n"));
    assert!(part("ENTERED\n", "AGAIN\n").contains("deepest"), "{live}");
    // Some versions of gdb fail at the exit of a process with many kernel threads, after this.
    assert!(live.contains("ok. 1 passed"), "it goes on unharmed: {live}");
    let core = match core(exe, name) {
        Ok(core) => core,
        Err(why) => skip!("{why}"),
    };
    check(&gdb(&[exe, core.to_str().unwrap()], &["underpass threads", "underpass bt sleeper"]));
    std::fs::remove_dir_all(core.parent().unwrap()).unwrap();
}

/// The core of an inferior that died where gdb would have stopped, if the kernel writes one to a
/// known place.
fn core(exe: &str, name: &str) -> Result<PathBuf, String> {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if pattern.trim() != "core" {
        return Err(format!("cores go to {}", pattern.trim()));
    }
    let place = std::env::temp_dir().join(format!("underpass-core-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -c unlimited && exec \"$0\" --exact \"$1\" --nocapture", exe, name]);
    shell
        .env("UNDERPASS_TEST_INFERIOR", "1")
        .env("UNDERPASS_TEST_DIES", "1")
        .env("UNDERPASS_PROCESSORS", "1");
    let output = shell.current_dir(&place).output().unwrap();
    let mut files = std::fs::read_dir(&place).unwrap();
    let file = files.next().unwrap_or_else(|| panic!("no core: {output:?}")).unwrap();
    Ok(file.path())
}
