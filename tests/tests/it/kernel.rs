//! How often calls enter the kernel, as strace sees it. The runtime's own counters must agree.
//!
//! While both sides run, a call does not enter the kernel. Where the caller's processor goes to the
//! server and back, a call enters it at most four times: each side wakes the other and sleeps
//! (URPC, 3.1; LRPC enters it as often). If each side yields to the other, it enters twice. Each
//! side notifies the other at most once for a call, and never while the other runs (Raven, section
//! 3).

use std::process::{Command, Stdio};
use underpass_harness::{alone, skip};
use underpass_os::cpu;
use underpass_tests::{Entries, Room, Seen, ServerProcess, Watchdog};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// The most kernel entries of a million calls while both sides run.
const BAR: u64 = 100;

/// The most entries that one gap may cost in which a side does not have its CPU: both may have
/// stopped polling, with a barrier, a sleep and a doorbell each.
const PER_GAP: u64 = 6;

/// The calls for which any run may enter the kernel once, however much load the machine has.
const CALLS_PER_ENTRY: u64 = 100;

/// The entries of a donated call.
const DONATED: f64 = 4.0;

/// The average surplus that is allowed in any run. In one call of five, the kernel or the observer
/// may hold the other side up between two of its steps, which costs one more entry. A fifth entry
/// in each call would be five times as much.
const MARGIN: f64 = 0.2;

/// The most entries of a domain that are not those of calls: of its monitor, and of a kernel thread
/// that waits for a lock.
const OTHERS: u64 = 32;

/// How often a million calls are made at the most, until there is a run with all its gaps
/// known. The kernel doesn't count how often a hypervisor takes a CPU away, nor how often a thread
/// that was woken has to wait for one.
const TRIES: usize = 8;

/// The calls that are made and counted.
#[derive(Clone, Copy)]
struct Plan<'a> {
    calls: u64,
    /// The caller: a `user`-level thread or a `kernel` thread.
    by: &'a str,
    pause_us: u64,
    /// The CPU of the server, and of the client.
    cpus: [usize; 2],
    /// Whether the server has no processor of its own.
    donated: bool,
}

/// The entries of both sides, the server first.
#[derive(Clone, Copy, Debug)]
struct Counted {
    calls: u64,
    /// By the runtime's own counters.
    own: [Entries; 2],
    /// By strace, if it ran.
    seen: Option<[Seen; 2]>,
    /// How often another thread of the machine took a CPU away from one of the sides.
    preempted: u64,
}

impl Plan<'_> {
    /// Makes the calls, with each side under strace if `traced`. strace slows them only where they
    /// enter the kernel.
    fn run(self, traced: bool) -> Counted {
        let name = Room::name(&format!("kernel-{}-{}-{}-{traced}", self.calls, self.by, self.pause_us));
        let reports =
            ["server", "client"].map(|of| Room::directory().with_file_name(format!("{name}-{of}.strace")));
        let command = |side: usize, arguments: &[&str]| {
            let mut command = Command::new(if traced { "strace" } else { SERVER });
            if traced {
                command.args(Seen::STRACE).arg(&reports[side]).arg(SERVER);
            }
            command.arg(&name).args(arguments).env("UNDERPASS_TEST_CPU", self.cpus[side].to_string());
            command
        };
        let mut server = command(0, &["probe"]);
        if self.donated {
            server.env("UNDERPASS_PROCESSORS", "0");
        }
        let mut server = ServerProcess::run(server, &name);
        let (calls, pause) = (self.calls.to_string(), self.pause_us.to_string());
        let output = command(1, &["loop", &calls, self.by, &pause]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        server.ended();
        let numbers = String::from_utf8(output.stdout).unwrap();
        let numbers: Vec<u64> = numbers.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let own =
            [0, 3].map(|at| Entries { all: numbers[at], sleeps: numbers[at + 1], wakes: numbers[at + 2] });
        let seen = traced.then(|| {
            reports.map(|report| {
                let text = std::fs::read_to_string(&report).unwrap();
                std::fs::remove_file(report).unwrap();
                Seen::of(&text)
            })
        });
        Counted { calls: self.calls, own, seen, preempted: numbers[6] }
    }
}

impl Counted {
    /// Checks what holds in each run, whatever disturbs it.
    ///
    /// The counters agree with strace, in all and for each kind. A domain also enters the kernel
    /// where a kernel thread waits for a lock, and in its clerk and its monitor. Those entries are
    /// few per run, however many calls there are. Of the clerk, the counters know only how many
    /// entries it makes as a rule.
    ///
    /// Each side notifies the other at most once for a call. Returning a processor is a
    /// notification too. If another thread has replied meanwhile, it is a second one for that call.
    ///
    /// A side is notified only if it has ceased to poll, which costs it a sleep, a barrier or a
    /// `sched_yield`.
    fn holds(self) -> Self {
        for (seen, own) in self.seen.iter().flatten().zip(self.own) {
            let Entries { all, sleeps, wakes } = seen.entries;
            assert!(sleeps.abs_diff(own.sleeps) <= OTHERS + own.sleeps / 100, "{self:?}");
            assert!(wakes.abs_diff(own.wakes) <= OTHERS + own.wakes / 100, "{self:?}");
            let by_others = all.saturating_sub(seen.of_callers);
            assert!(all.abs_diff(own.all) <= OTHERS + own.all / 100 + by_others / 4, "{self:?}");
            assert!(seen.notifications as f64 <= self.calls as f64 * (1.0 + MARGIN / 2.0), "{self:?}");
        }
        let [server, client] = self.seen.unwrap_or_default();
        for (notifier, notified) in [(server, client), (client, server)] {
            let ceased = notified.entries.all - notified.entries.wakes;
            assert!(notifier.notifications <= ceased + OTHERS, "{self:?}");
        }
        self
    }

    /// The entries of both sides' threads that make and serve the calls, by strace.
    fn of_callers(&self) -> u64 {
        self.seen.iter().flatten().map(|seen| seen.of_callers).sum()
    }

    /// The entries per call of both sides together, by the counters.
    fn own_per_call(&self) -> f64 {
        self.own.iter().map(|own| own.all).sum::<u64>() as f64 / self.calls as f64
    }
}

fn has_strace() -> bool {
    let runs =
        Command::new("strace").args(Seen::STRACE).args(["/dev/null", "true"]).stderr(Stdio::null()).status();
    runs.is_ok_and(|status| status.success())
}

const NO_STRACE: &str = "no strace here, or not allowed; `.ci/run` installs it (`apt-get install strace`)";

/// Calls of threads of both kinds, on one CPU.
fn on_one_cpu(calls: u64, donated: bool) -> [Plan<'static>; 2] {
    let only = cpu::allowed().unwrap()[0];
    ["user", "kernel"].map(|by| Plan { calls, by, pause_us: 0, cpus: [only; 2], donated })
}

#[test]
fn the_counters_say_what_strace_says() {
    alone!();
    let _watchdog = Watchdog::new("the_counters_say_what_strace_says");
    if !has_strace() {
        skip!("{NO_STRACE}");
    }
    // If both sides share a CPU, every call enters the kernel, so there is much to count.
    for plan in on_one_cpu(5_000, false) {
        plan.run(true).holds();
    }
}

#[test]
fn a_donated_call_enters_the_kernel_four_times_at_most() {
    alone!();
    let _watchdog = Watchdog::new("a_donated_call_enters_the_kernel_four_times_at_most");
    for plan in on_one_cpu(3_000, true) {
        let counted = plan.run(false).holds();
        assert!(counted.own_per_call() <= DONATED + MARGIN, "by a {} thread: {counted:?}", plan.by);
        if has_strace() {
            // A process that strace holds at each system call is not ready when the other side
            // yields to it. So both sides may yield in vain here, and there are more entries.
            plan.run(true).holds();
        }
    }
}

#[test]
fn a_sleeping_side_is_notified_once_for_a_call() {
    alone!();
    let _watchdog = Watchdog::new("a_sleeping_side_is_notified_once_for_a_call");
    if !has_strace() {
        skip!("{NO_STRACE}");
    }
    let allowed = cpu::allowed().unwrap();
    // With two CPUs each side has one. Otherwise they share one.
    let cpus = [allowed[0], *allowed.last().unwrap()];
    for by in ["user", "kernel"] {
        // Longer than any side polls.
        let plan = Plan { calls: 300, by, pause_us: 1_000, cpus, donated: false };
        let counted = plan.run(true).holds();
        let sent = counted.seen.iter().flatten().map(|seen| seen.notifications).max();
        assert!(sent > Some(plan.calls / 2), "by a {by} thread: {counted:?}");
        // The server's entries are a barrier, a sleep, and its reply's wake-up. The client's are
        // the same, and those of the pauses.
        let server_s = counted.seen.unwrap()[0].of_callers as f64 / plan.calls as f64;
        assert!(server_s <= 3.0 + MARGIN, "by a {by} thread: {counted:?}");
    }
}

#[test]
fn a_million_calls_with_both_sides_running_stay_out_of_the_kernel() {
    alone!();
    let _watchdog = Watchdog::new("a_million_calls_with_both_sides_running_stay_out_of_the_kernel");
    let &[server, client, ..] = cpu::allowed().unwrap().as_slice() else {
        skip!("both sides can't run at once on one CPU");
    };
    if !has_strace() {
        skip!("{NO_STRACE}");
    }
    for by in ["user", "kernel"] {
        let plan = Plan { calls: 1_000_000, by, pause_us: 0, cpus: [server, client], donated: false };
        let mut measured = Vec::new();
        let stays_out = (0..TRIES).any(|_| {
            let done = plan.run(true).holds();
            assert!(done.of_callers() <= plan.calls / CALLS_PER_ENTRY, "by a {by} thread: {done:?}");
            measured.push(done);
            done.of_callers() < BAR + PER_GAP * done.preempted
        });
        assert!(
            stays_out,
            "a million calls make at most {BAR} system calls, and {PER_GAP} for each gap; measured by a {by} thread: \
             {measured:#?}"
        );
    }
}
