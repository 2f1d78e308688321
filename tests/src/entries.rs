//! How often a domain enters the kernel, by its own counters and by strace.

/// Kernel entries by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, underpass::Wire)]
pub struct Entries {
    /// All entries.
    pub all: u64,
    /// Sleeps.
    pub sleeps: u64,
    /// Wake-ups of peers and of the domain's own kernel threads. Giving a processor and returning
    /// it is one wake-up each.
    pub wakes: u64,
}

impl Entries {
    /// What this domain has counted so far. Before it reads the counters it makes a marker system
    /// call, which strace sees.
    pub fn marked() -> Self {
        let _ = std::os::unix::process::parent_id();
        let counted = underpass::counters();
        let wakes = counted.wakeups_sent;
        Self { all: counted.kernel_entries, sleeps: counted.sleeps, wakes }
    }

    /// The entries since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            all: self.all.saturating_sub(earlier.all),
            sleeps: self.sleeps.saturating_sub(earlier.sleeps),
            wakes: self.wakes.saturating_sub(earlier.wakes),
        }
    }
}

/// What strace has seen of a domain between its two markers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The domain's entries, including those of kernel threads that have nothing to do with calls.
    /// Two threads are left out as far as they read files. One waits for a takeover of the domain's
    /// names: it does so at each change in their directory. The launcher looks how many CPUs the
    /// domain may use.
    pub entries: Entries,
    /// Of all entries: those of the threads that make or serve calls. The others, which are the
    /// clerk, the monitor and the launcher, enter the kernel the more often the longer it takes.
    pub of_callers: u64,
    /// Wake-ups of the peer.
    pub notifications: u64,
}

impl Seen {
    /// The options that make strace write what [`Seen::of`] can read.
    pub const STRACE: [&str; 3] = ["-f", "-Y", "-o"];

    /// System calls that only those threads make.
    const NOT_FOR_CALLS: [&str; 6] = ["close", "openat", "ppoll", "read", "sched_getaffinity", "statx"];

    /// The threads that neither make nor serve calls. The kernel cuts their names.
    const OTHERS: [&str; 3] = ["<underpass-clerk", "<underpass-monit", "<underpass-launc"];

    /// Reads the lines that `strace` has written.
    ///
    /// # Panics
    /// If there are not two markers.
    pub fn of(report: &str) -> Self {
        let (mut seen, mut marks) = (Self::default(), 0);
        // Each line begins with the kernel thread's number and <name>. If other calls came between,
        // the end of a call has a line of its own.
        let calls = report.lines().filter_map(|line| line.split_once("> "));
        for (thread, call) in calls.filter(|(_, call)| call.starts_with(|c: char| c.is_ascii_lowercase())) {
            let (name, arguments) = call.split_once('(').unwrap_or((call, ""));
            if name == "getppid" {
                marks += 1;
            } else if marks == 1 && !Self::NOT_FOR_CALLS.contains(&name) {
                seen.add(name, arguments);
                seen.of_callers += u64::from(!Self::OTHERS.iter().any(|name| thread.ends_with(name)));
            }
        }
        assert_eq!(marks, 2, "a mark before the calls, and one after");
        seen
    }

    fn add(&mut self, name: &str, arguments: &str) {
        let Self { entries, notifications, .. } = self;
        entries.all += 1;
        match name {
            "futex_waitv" => entries.sleeps += 1,
            "futex" if arguments.contains("FUTEX_WAIT") => entries.sleeps += 1,
            "futex" if arguments.contains("FUTEX_WAKE_PRIVATE") => entries.wakes += 1,
            "futex" | "sendmsg" | "sendto" => {
                entries.wakes += 1;
                *notifications += 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_between_the_marks_are_seen_once_each() {
        let report = "\
7<main> futex(0x10, FUTEX_WAKE, 1) = 1
7<main> getppid()                  = 1
7<main> futex(0x10, FUTEX_WAKE, 1 <unfinished ...>
8<activation-0> <... futex_waitv resumed>) = 0
7<main> <... futex resumed>) = 1
8<activation-0> futex(0x10, FUTEX_WAKE_PRIVATE, 1) = 0
8<activation-0> --- SIGRT_10 {si_signo=SIGRT_10} ---
9<main> ppoll([{fd=5, events=POLLIN}], 1, NULL, NULL, 0) = 1
9<main> read(5, 0x7, 4096)          = 32
9<main> statx(AT_FDCWD, 0x7, 0, STATX_ALL, {}) = 0
8<activation-0> sendmsg(3, {msg_name=NULL}, 0) = 1
8<activation-0> futex_waitv([{val=0x2}], 1, 0, NULL, CLOCK_MONOTONIC <unfinished ...>
9<underpass-monit> membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0) = 0
7<main> getppid( <unfinished ...>
7<main> <... getppid resumed>)     = 1
7<main> exit_group(0)              = ?
7<main> +++ exited with 0 +++
";
        let entries = Entries { all: 5, sleeps: 1, wakes: 3 };
        assert_eq!(Seen::of(report), Seen { entries, of_callers: 4, notifications: 2 });
    }
}
