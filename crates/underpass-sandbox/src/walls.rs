//! How the walls go up, in an order in which each still can: what needs files first, the filter of system calls last.

use crate::policy;
use crate::report::{Measure, Report};
use crate::spec::Spec;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetError, Scope,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use underpass_os::confine::{self, Limit};
use underpass_os::forbidden;

/// Addresses beyond those for memory and files: allocators reserve 64 MiB for many a kernel thread, and use little of it.
const ROOM: u64 = 4 << 30;

/// What is done first thing in `main`, while the process has one kernel thread.
pub(crate) fn first(report: &mut Report) {
    report.note(Measure::Namespaces, confine::leave_namespaces());
    report.note(Measure::Capabilities, confine::drop_capabilities());
    // Without one, the last walls' report says why.
    if let Ok(ruleset) = best() {
        confine::restrict_beforehand(ruleset);
    }
}

/// What is done when all exports and imports are made. `listener` is told of forbidden calls.
pub(crate) fn last(spec: &Spec, listener: BorrowedFd<'static>, report: &mut Report) {
    // Not a wall: who is killed first when memory runs out.
    let _ = confine::die_first();
    let used = confine::memory_used();
    files_and_network(report);
    report.note(Measure::Privacy, confine::leave_no_core());
    report.note(Measure::Limits, used.and_then(|used| limits(spec, used)));
    report.note(Measure::Tasks, tasks(spec, report));
    report.note(Measure::Calls, calls(spec, listener));
}

fn files_and_network(report: &mut Report) {
    let restricted = has(|ruleset| ruleset.handle_access(AccessFs::from_all(ABI::V1)))
        .and_then(|()| confine::restrict(best()?.as_fd()).map_err(|e| e.to_string()));
    let network =
        restricted.clone().and_then(|()| has(|ruleset| ruleset.handle_access(AccessNet::from_all(ABI::V4))));
    report.note(Measure::Files, restricted);
    report.note(Measure::Network, network);
}

/// A ruleset that refuses what this kernel can of the newest that this was written for.
fn best() -> Result<OwnedFd, String> {
    let files = Ruleset::default().handle_access(AccessFs::from_all(ABI::V7));
    let network = files.and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(ABI::V4)));
    let scoped = network.and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket));
    let ruleset: Option<OwnedFd> = scoped.and_then(Ruleset::create).map_err(told)?.into();
    ruleset.ok_or_else(|| "Landlock made no ruleset".to_owned())
}

/// Whether this kernel's Landlock can refuse all of what `handle` asks of a ruleset.
fn has(handle: impl FnOnce(Ruleset) -> Result<Ruleset, RulesetError>) -> Result<(), String> {
    let strict = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    handle(strict).and_then(Ruleset::create).map(|_: RulesetCreated| ()).map_err(told)
}

fn told(e: RulesetError) -> String {
    format!("{e}; see whether `landlock` is in /sys/kernel/security/lsm")
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

/// The kernel counts them by user and namespace, and not at all for root's.
fn tasks(spec: &Spec, report: &Report) -> Result<(), String> {
    if !report.holds(Measure::Namespaces) {
        return Err("without a namespace of its own the bound would be the user's".to_owned());
    }
    if underpass_os::process::user() == 0 {
        return Err("the kernel does not count the kernel threads of root's processes".to_owned());
    }
    confine::limit(Limit::Tasks, spec.tasks).map_err(|e| e.to_string())
}

fn calls(spec: &Spec, listener: BorrowedFd<'static>) -> Result<(), String> {
    forbidden::tell(listener).map_err(|e| e.to_string())?;
    let filters = policy::filters(std::process::id(), spec.lenient).map_err(|e| e.to_string())?;
    filters
        .iter()
        .try_for_each(|filter| seccompiler::apply_filter_all_threads(filter))
        .map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::mpsc;

    const SELF: &str = "walls::tests::every_kernel_thread_is_behind_landlock_alone";
    const LOCKED: &str = "UNDERPASS_TEST_LOCKED";

    /// In a process of its own, which has no other wall: nothing but Landlock refuses.
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
                        // It sleeps in the kernel meanwhile.
                        wait.recv().unwrap();
                        (open(), connect(port).map(|_| ()))
                    });
                    (thread, go)
                })
                .collect();
            older.iter().for_each(|_| readied.recv().unwrap());
            files_and_network(&mut report);
            let older = older.into_iter().map(|(thread, go)| {
                go.send(()).unwrap();
                thread
            });
            let younger = scope.spawn(|| (open(), connect(port).map(|_| ())));
            for thread in older.chain([younger]) {
                let (opened, connected) = thread.join().unwrap();
                let refused = Err(io::ErrorKind::PermissionDenied);
                assert_eq!(opened.is_ok(), !report.holds(Measure::Files), "{report}");
                assert_eq!(connected == refused, report.holds(Measure::Network), "{report}");
            }
        });
    }
}
