//! The system calls that a sandboxed domain may make.
//!
//! Three filters apply at once, and the strictest answer counts. The last filter allows only what
//! serving and calling need. Any other call ends the process. The first two filters refuse calls
//! without ending the process: those that name files, and `clone3`. The runtime and the standard
//! library try such calls and can do without them.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use underpass_os::calls;

/// Calls that are allowed with any arguments: they concern this process alone, or files that it has
/// open.
const FREE: &[&str] = &[
    // Files that it has: sockets of bindings, the listening ones, memory.
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "lseek",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "fstat",
    "fstatfs",
    "fsync",
    "memfd_create",
    "ftruncate",
    "fallocate",
    "recvmsg",
    "sendmsg",
    "recvfrom",
    "sendto",
    "accept",
    "accept4",
    "shutdown",
    "getsockopt",
    "getsockname",
    "getpeername",
    "pipe2",
    "ioctl",
    // Waiting.
    "poll",
    "ppoll",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd2",
    "timerfd_create",
    "timerfd_settime",
    "timerfd_gettime",
    "futex",
    "futex_waitv",
    "membarrier",
    "nanosleep",
    "clock_nanosleep",
    "clock_gettime",
    "clock_getres",
    "gettimeofday",
    "time",
    "alarm",
    "restart_syscall",
    // Memory.
    "munmap",
    "mremap",
    "madvise",
    "mincore",
    "cachestat",
    "brk",
    // Kernel threads, processors, signals to itself.
    "set_robust_list",
    "rseq",
    "set_tid_address",
    "exit",
    "exit_group",
    "sched_yield",
    "sched_getaffinity",
    "getcpu",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    "getpid",
    "gettid",
    "getppid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getrandom",
    "getrusage",
    "getrlimit",
    "sysinfo",
    "uname",
    "times",
];

/// Calls that name a file. They are refused with `EACCES`, as for files that this user may not
/// access.
const NAMES_A_FILE: &[&str] = &[
    "open",
    "openat",
    "openat2",
    "creat",
    "stat",
    "lstat",
    "newfstatat",
    "statx",
    "statfs",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getcwd",
    "chdir",
    "unlink",
    "unlinkat",
    "rmdir",
    "rename",
    "renameat",
    "renameat2",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "chmod",
    "fchmodat",
    "chown",
    "lchown",
    "fchownat",
    "utimensat",
    "truncate",
];

const EPERM: u32 = 1;
const EACCES: u32 = 13;
const ENOSYS: u32 = 38;

/// `CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD`: the flags of a kernel thread
/// of this process.
const THREAD: u64 = 0x10f00;
/// These flags, and every flag that makes a namespace or a pidfd, or lets others trace the thread.
const LOOKED_AT: u64 = THREAD | 0x7e02_0000 | 0x80 | 0x1000 | 0x2000 | 0x4000 | 0x8000;
const PROT_EXEC: u64 = 4;
const AF_UNIX: u64 = 1;
const SEQPACKET: u64 = 5;
const SOL_SOCKET: u64 = 1;
const SO_PASSCRED: u64 = 16;
/// Of the kernel's `socket.h`, Linux 6.16.
const SO_PASSRIGHTS: u64 = 83;
/// The bits of a socket's type that are not flags.
const SOCKET_TYPES: u64 = 0xf;
/// `FIONREAD` and `FIONBIO`.
const IOCTLS: [u64; 2] = [0x541b, 0x5421];
/// `F_DUPFD`, `F_GETFD`, `F_SETFD`, `F_GETFL`, `F_SETFL`, `F_DUPFD_CLOEXEC`, `F_ADD_SEALS`,
/// `F_GET_SEALS`. Not `F_SETOWN`, which sends signals.
const FCNTLS: [u64; 8] = [0, 1, 2, 3, 4, 1030, 1033, 1034];
/// `PR_GET_DUMPABLE`, `PR_SET_NAME`, `PR_GET_NAME`, `PR_SET_VMA`.
const PRCTLS: [u64; 4] = [3, 15, 16, 0x5356_4d41];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The effect of a call that is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// It fails.
    Fails,
    /// The kernel ends the process.
    Ends,
    /// It is held up, and the listener is notified. In the program this is `Trap`, which
    /// [`SeccompListener::install`](underpass_os::forbidden::SeccompListener::install) replaces.
    IsTold,
}

/// The filters that are installed first.
pub(crate) fn exceptions() -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let exceptions = |errno, rules| filter(rules, SeccompAction::Allow, SeccompAction::Errno(errno));
    Ok([exceptions(EACCES, refused()?)?, exceptions(ENOSYS, plain(&["clone3"]))?])
}

/// The last filter.
pub(crate) fn list(process: u32, beyond: Beyond) -> Result<BpfProgram, seccompiler::BackendError> {
    let beyond = match beyond {
        Beyond::Fails => SeccompAction::Errno(EPERM),
        Beyond::Ends => SeccompAction::KillProcess,
        Beyond::IsTold => SeccompAction::Trap,
    };
    filter(allowed(process)?, beyond, SeccompAction::Allow)
}

fn filter(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, otherwise, matched, arch)?.try_into()
}

/// Rules for calls with any arguments. A name that does not exist on this processor needs no rule.
fn plain(names: &[&str]) -> Rules {
    names.iter().filter_map(|name| Some((calls::number(name)?, Vec::new()))).collect()
}

fn refused() -> Result<Rules, seccompiler::BackendError> {
    let mut rules = plain(NAMES_A_FILE);
    let others: Result<_, _> =
        IOCTLS.iter().map(|&known| Condition::new(1, Len::Dword, Op::Ne, known)).collect();
    add(&mut rules, "ioctl", vec![SeccompRule::new(others?)?]);
    Ok(rules)
}

fn allowed(process: u32) -> Result<Rules, seccompiler::BackendError> {
    let mut rules = plain(FREE);
    // The earlier filters answer these.
    rules.extend(plain(NAMES_A_FILE));
    rules.extend(plain(&["clone3"]));
    let is = |argument, value| Condition::new(argument, Len::Dword, Op::Eq, value);
    let has_not = |argument, bits| Condition::new(argument, Len::Qword, Op::MaskedEq(bits), 0);
    let all = |conditions: Vec<Condition>| SeccompRule::new(conditions);
    let one_of = |argument, values: &[u64]| -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        values.iter().map(|&value| all(vec![is(argument, value)?])).collect()
    };
    add(&mut rules, "mmap", vec![all(vec![has_not(2, PROT_EXEC)?])?]);
    add(&mut rules, "mprotect", vec![all(vec![has_not(2, PROT_EXEC)?])?]);
    let thread = Condition::new(0, Len::Qword, Op::MaskedEq(LOOKED_AT), THREAD)?;
    add(&mut rules, "clone", vec![all(vec![thread])?]);
    // The way to a file thread. Unlike datagrams, messages over such a pair take no address.
    let kind = Condition::new(1, Len::Dword, Op::MaskedEq(SOCKET_TYPES), SEQPACKET)?;
    add(&mut rules, "socketpair", vec![all(vec![is(0, AF_UNIX)?, kind])?]);
    // Options by which the kernel names senders and admits files.
    let option = |which| all(vec![is(1, SOL_SOCKET)?, is(2, which)?]);
    add(&mut rules, "setsockopt", vec![option(SO_PASSCRED)?, option(SO_PASSRIGHTS)?]);
    add(&mut rules, "fcntl", one_of(1, &FCNTLS)?);
    add(&mut rules, "prctl", one_of(0, &PRCTLS)?);
    add(&mut rules, "tgkill", one_of(0, &[process.into()])?);
    add(&mut rules, "sched_setaffinity", one_of(0, &[0])?);
    // Limits can be read, but not set.
    let asks = Condition::new(2, Len::Qword, Op::Eq, 0)?;
    add(&mut rules, "prlimit64", vec![all(vec![is(0, 0)?, asks])?]);
    Ok(rules)
}

fn add(rules: &mut Rules, name: &str, when: Vec<SeccompRule>) {
    rules.extend(calls::number(name).map(|number| (number, when)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_on_this_processor() {
        if cfg!(target_arch = "x86_64") {
            let unknown: Vec<_> =
                FREE.iter().chain(NAMES_A_FILE).filter(|name| calls::number(name).is_none()).collect();
            assert!(unknown.is_empty(), "{unknown:?}");
        }
    }

    #[test]
    fn filters_are_made_for_this_processor() {
        let lists = [Beyond::Fails, Beyond::Ends, Beyond::IsTold]
            .map(|beyond| list(std::process::id(), beyond).unwrap());
        for program in exceptions().unwrap().iter().chain(&lists) {
            assert!(program.len() < 4096, "the kernel takes 4096 instructions");
        }
    }

    #[test]
    fn calls_that_reach_other_processes_are_not_allowed() {
        let rules = allowed(1).unwrap();
        let reaching = [
            "socket",
            "connect",
            "bind",
            "listen",
            "fork",
            "vfork",
            "execve",
            "execveat",
            "kill",
            "tkill",
            "ptrace",
            "setrlimit",
            "process_vm_readv",
            "process_vm_writev",
            "pidfd_open",
            "pidfd_getfd",
            "pidfd_send_signal",
            "unshare",
            "setns",
            "mount",
            "io_uring_setup",
            "bpf",
            "perf_event_open",
            "userfaultfd",
            "keyctl",
            "shmget",
            "rt_tgsigqueueinfo",
            "personality",
        ];
        for name in reaching {
            let number = calls::number(name).unwrap_or_else(|| panic!("{name} is unknown"));
            assert!(!rules.contains_key(&number), "{name} is allowed");
        }
        for conditional in [
            "clone",
            "mmap",
            "mprotect",
            "fcntl",
            "prctl",
            "tgkill",
            "prlimit64",
            "sched_setaffinity",
            "socketpair",
            "setsockopt",
        ] {
            assert!(!rules[&calls::number(conditional).unwrap()].is_empty(), "{conditional} needs a look");
        }
    }
}
