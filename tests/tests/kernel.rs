//! How often calls enter the kernel, as strace counts it: the runtime's own counters must say the same.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use underpass_os::clock::now_ns;
use underpass_os::cpu;
use underpass_tests::{Room, ServerProcess, Watchdog};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// Of a million calls with both sides running (issue 2).
const BAR: u64 = 100;

/// What one gap on either CPU may cost: both sides may have stopped polling, with a barrier, a sleep and a bell each.
const PER_GAP: u64 = 6;

/// System calls of one side.
#[derive(Clone, Copy, Debug)]
struct Side {
    /// As strace counts them: all, those of the process' beginning and end included.
    strace: u64,
    /// As the runtime's own counters say, calls apart.
    own: u64,
}

impl Side {
    fn since(self, fewer: Self) -> Self {
        Self { strace: self.strace.saturating_sub(fewer.strace), own: self.own.saturating_sub(fewer.own) }
    }
}

/// One run of so many calls.
#[derive(Clone, Copy, Debug)]
struct Run {
    server: Side,
    client: Side,
}

impl Run {
    fn since(self, fewer: Self) -> Self {
        Self { server: self.server.since(fewer.server), client: self.client.since(fewer.client) }
    }

    fn strace(self) -> u64 {
        self.server.strace + self.client.strace
    }

    /// The counters say what strace says. Besides the calls' own, a domain enters the kernel where one of its kernel threads
    /// waits for a lock that another holds, and as the clerk, which hears of the binding's begin and end: a few times a run,
    /// however many calls there are.
    fn agrees(self) {
        for side in [self.server, self.client] {
            assert!(side.strace.abs_diff(side.own) <= 32 + side.own / 100, "{self:?}");
        }
    }
}

/// Runs alone: another test would be a disturbance.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often, within some tenths of a second, something else had one of `cpus` for half of the time that an idle
/// processor polls: the machine's other processes, or its hypervisor.
fn gaps(cpus: [usize; 2]) -> u64 {
    const READS: u32 = 10_000_000;
    let on = |cpu| {
        cpu::confine(&[cpu]).unwrap();
        let mut last = now_ns();
        let long = |_: &u32| {
            let before = std::mem::replace(&mut last, now_ns());
            last - before > 25_000
        };
        (0..READS).filter(long).count() as u64
    };
    std::thread::scope(|scope| {
        cpus.map(|cpu| scope.spawn(move || on(cpu))).map(|t| t.join().unwrap()).iter().sum()
    })
}

fn has_strace() -> bool {
    let runs =
        Command::new("strace").args(["-c", "-f", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let has = runs.is_ok_and(|status| status.success());
    if !has {
        eprintln!(
            "not run: no strace here, or not allowed; `.ci/run` installs it (`apt-get install strace`)"
        );
    }
    has
}

/// Runs server and client, each under strace (which slows them only where they enter the kernel), for so many calls.
fn run(calls: u64, server_cpu: usize, client_cpu: usize) -> Run {
    let name = Room::name(&format!("kernel-{calls}"));
    let report = |of: &str| Room::directory().with_file_name(format!("{name}-{of}.strace"));
    let traced = |report: &PathBuf, cpu: usize, arguments: &[&str]| {
        let mut command = Command::new("strace");
        command.args(["-c", "-f", "-o"]).arg(report).arg(SERVER).args(arguments);
        command.env("UNDERPASS_TEST_CPU", cpu.to_string());
        command
    };
    let (of_server, of_client) = (report("server"), report("client"));
    let mut server = ServerProcess::run(traced(&of_server, server_cpu, &[&name, "probe"]), &name);
    let output = traced(&of_client, client_cpu, &[&name, "loop", &calls.to_string()]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    server.ended();
    let own: Vec<u64> =
        String::from_utf8(output.stdout).unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
    Run {
        server: Side { strace: counted(&of_server), own: own[0] },
        client: Side { strace: counted(&of_client), own: own[1] },
    }
}

/// All that strace's table counts, which is removed.
fn counted(report: &PathBuf) -> u64 {
    let table = std::fs::read_to_string(report).unwrap();
    std::fs::remove_file(report).unwrap();
    let rows = table.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        // The column of errors may be empty.
        let (calls, name) = (words.get(3)?.parse::<u64>().ok()?, words.last()?);
        (*name != "total").then_some(calls)
    });
    rows.sum()
}

#[test]
fn the_counters_say_what_strace_says() {
    let _watchdog = Watchdog::new("the_counters_say_what_strace_says");
    let _alone = alone();
    if !has_strace() {
        return;
    }
    // Where both sides share a CPU no call goes without the kernel: there is much to count.
    let only = cpu::allowed().unwrap()[0];
    let few = run(1_000, only, only);
    let done = run(6_000, only, only).since(few);
    done.agrees();
    assert!(done.server.own > 1_000 && done.client.own > 1_000, "{done:?}");
}

#[test]
fn a_million_calls_with_both_sides_running_stay_out_of_the_kernel() {
    let _watchdog = Watchdog::new("a_million_calls_with_both_sides_running_stay_out_of_the_kernel");
    let _alone = alone();
    let &[server, client, ..] = cpu::allowed().unwrap().as_slice() else {
        return eprintln!("not run: both sides can't run at once on one CPU");
    };
    if !has_strace() {
        return;
    }
    let mut measured = Vec::new();
    for _ in 0..5 {
        let gaps = gaps([server, client]);
        let few = run(1_000, server, client);
        let done = run(1_001_000, server, client).since(few);
        done.agrees();
        measured.push(format!("{} system calls with {gaps} gaps: {done:?}", done.strace()));
        if done.strace() < BAR + PER_GAP * gaps {
            return eprintln!("{measured:#?}");
        }
    }
    panic!(
        "a million calls make at most {BAR} system calls, and {PER_GAP} for each gap; measured: {measured:#?}"
    );
}
