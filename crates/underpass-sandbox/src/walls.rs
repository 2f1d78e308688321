//! Restricts the process in an order in which each measure is still possible: those that need files
//! first, the filter of system calls last.

use crate::policy::{self, Beyond};
use crate::report::{Measure, Report};
use crate::spec::Spec;
use seccompiler::{BpfProgram, apply_filter_all_threads};
use std::io;
use underpass_os::confine::{self, Limit};
use underpass_os::forbidden::{Instruction, SeccompListener};
use underpass_os::landlock;

/// Address space beyond memory and files: allocators reserve 64 MiB for a kernel thread, and use
/// little of it.
const ROOM: u64 = 4 << 30;

/// The first measures, at the beginning of `main`, while the process has one kernel thread.
pub(crate) fn first(report: &mut Report) {
    report.note(Measure::Namespaces, confine::leave_namespaces());
    report.note(Measure::Capabilities, confine::drop_capabilities());
}

/// The last measures, when all exports and imports are made. Returns the listener for forbidden
/// calls, if there is one.
pub(crate) fn last(spec: &Spec, report: &mut Report) -> Option<SeccompListener> {
    // Not a restriction: the kernel kills this process first when memory runs out.
    let _ = confine::die_first();
    let used = confine::memory_used();
    files_and_network(report);
    report.note(Measure::Privacy, confine::leave_no_core());
    report.note(Measure::Limits, used.and_then(|used| limits(spec, used)));
    report.note(Measure::Tasks, tasks(spec, report));
    let (calls, names) = match calls(spec) {
        Ok(names) => (Ok(()), names),
        Err(why) => (Err(why), Err("there is no filter".to_owned())),
    };
    report.note(Measure::Calls, calls);
    let (names, listener) = match names {
        Ok(listener) => (Ok(()), Some(listener)),
        Err(why) => (Err(why), None),
    };
    report.note(Measure::CallNames, names);
    listener
}

fn files_and_network(report: &mut Report) {
    let version = landlock::restrict().map_err(|e| match e.kind() {
        io::ErrorKind::Unsupported => {
            "there is no Landlock; see whether it is in /sys/kernel/security/lsm".to_owned()
        }
        _ => e.to_string(),
    });
    report.note(Measure::Files, version.clone().map(|_| ()));
    let network = version.and_then(|version| match version {
        landlock::NETWORK.. => Ok(()),
        _ => {
            Err(format!("Landlock of this kernel has version {version}, and {} is needed", landlock::NETWORK))
        }
    });
    report.note(Measure::Network, network);
}

fn limits(spec: &Spec, (private, addresses): (u64, u64)) -> io::Result<()> {
    let shared = spec.files.saturating_mul(spec.largest);
    confine::limit(Limit::Private, private.saturating_add(spec.memory))?;
    let beyond = spec.memory.saturating_add(shared).saturating_add(ROOM);
    confine::limit(Limit::Addresses, addresses.saturating_add(beyond))?;
    confine::limit(Limit::Files, spec.files)?;
    confine::limit(Limit::FileSize, spec.largest)?;
    spec.processor_time.map_or(Ok(()), |seconds| confine::limit(Limit::Processor, seconds))
}

/// The kernel counts tasks by user and namespace, but does not limit root's.
fn tasks(spec: &Spec, report: &Report) -> Result<(), String> {
    if !report.holds(Measure::Namespaces) {
        return Err("without a namespace of its own the bound would be the user's".to_owned());
    }
    if underpass_os::process::user() == 0 {
        return Err("the kernel does not count the kernel threads of root's processes".to_owned());
    }
    confine::limit(Limit::Tasks, spec.tasks).map_err(|e| e.to_string())
}

/// Installs the filters. Returns the listener for forbidden calls, or the reason why there is none.
fn calls(spec: &Spec) -> Result<Result<SeccompListener, String>, String> {
    let apply = |filter: &BpfProgram| apply_filter_all_threads(filter).map_err(|e| e.to_string());
    let list = |beyond| policy::list(std::process::id(), beyond).map_err(|e| e.to_string());
    policy::exceptions().map_err(|e| e.to_string())?.iter().try_for_each(apply)?;
    if spec.lenient {
        apply(&list(Beyond::Fails)?)?;
        return Ok(Err("a lenient sandbox ends no domain for them".to_owned()));
    }
    match SeccompListener::install(&list(Beyond::IsTold)?.iter().map(instruction).collect::<Vec<_>>()) {
        Ok(listener) => Ok(Ok(listener)),
        Err(e) => {
            apply(&list(Beyond::Ends)?)?;
            Ok(Err(format!("{e}; is it in a container that listens to its calls?")))
        }
    }
}

fn instruction(of: &seccompiler::sock_filter) -> Instruction {
    Instruction { code: of.code, jt: of.jt, jf: of.jf, k: of.k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::mpsc;
    use underpass_os::Socket;
    use underpass_os::foreign::Spawner;

    const SELF: &str = "walls::tests::every_kernel_thread_is_behind_landlock_alone";
    const LOCKED: &str = "UNDERPASS_TEST_LOCKED";

    /// Runs in a process of its own without other measures, so that only Landlock refuses.
    #[test]
    fn every_kernel_thread_is_behind_landlock_alone() {
        if std::env::var_os(LOCKED).is_none() {
            let mut again = Command::new(std::env::current_exe().unwrap());
            let ran = again.args([SELF, "--exact", "--nocapture"]).env(LOCKED, "1").output().unwrap();
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(
                ran.status.success() && said.contains("1 passed"),
                "{said}{}",
                String::from_utf8_lossy(&ran.stderr)
            );
            return;
        }
        let open = || std::fs::read("/etc/passwd").map_err(|e| e.kind());
        let connect = |port: u16| std::net::TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.kind());
        let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listening.local_addr().unwrap().port();
        let mut report = Report::default();
        let (ready, readied) = mpsc::channel();
        std::thread::scope(|scope| {
            let older: Vec<_> = (0..4)
                .map(|_| {
                    let (ready, (go, wait)) = (ready.clone(), mpsc::channel::<()>());
                    let thread = scope.spawn(move || {
                        assert!(open().is_ok() && connect(port).is_ok());
                        ready.send(()).unwrap();
                        // The thread sleeps in the kernel meanwhile.
                        wait.recv().unwrap();
                        (open(), connect(port).map(|_| ()))
                    });
                    (thread, go)
                })
                .collect();
            older.iter().for_each(|_| readied.recv().unwrap());
            // One thread has a descriptor table of its own, and so has the thread that starts it.
            let (go_apart, wait) = mpsc::channel::<()>();
            let (tell, told) = mpsc::channel();
            let (_way, exchange) = Socket::pair().unwrap();
            let apart = move |_| {
                wait.recv().unwrap();
                tell.send((open(), connect(port).map(|_| ()))).unwrap();
            };
            Spawner::start().unwrap().spawn("apart", exchange, apart).unwrap();
            files_and_network(&mut report);
            let older = older.into_iter().map(|(thread, go)| {
                go.send(()).unwrap();
                thread
            });
            let younger = scope.spawn(|| (open(), connect(port).map(|_| ())));
            let results = older.chain([younger]).map(|thread| thread.join().unwrap());
            go_apart.send(()).unwrap();
            let apart = told.iter().take(1);
            for (opened, connected) in results.chain(apart) {
                let refused = Err(io::ErrorKind::PermissionDenied);
                assert_eq!(opened.is_ok(), !report.holds(Measure::Files), "{report}");
                assert_eq!(connected == refused, report.holds(Measure::Network), "{report}");
            }
        });
    }
}
