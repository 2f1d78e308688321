//! Steps at which a process can be told to die, so that tests can check how its peer reacts at each
//! of them.
//!
//! They exist only under `cfg(underpass_failpoints)`, which a build must ask for. Without it
//! [`failpoint!`](macro@crate::failpoint) expands to nothing.

/// All steps, named `SIDE-STEP`.
pub const STEPS: &[&str] = &[
    "export-bound",
    "export-listening",
    "import-connected",
    "import-said",
    "import-mapped",
    "import-joined",
    "import-released",
    "greet-heard",
    "greet-made",
    "greet-welcomed",
    "greet-joined",
    "greet-told-row",
    "greet-row-closed",
    "client-leased",
    "client-filled",
    "client-linked",
    "client-posted",
    "client-rung",
    "client-donated",
    "client-waiting",
    "client-delivered",
    "client-decoded",
    "client-given-back",
    "server-heard",
    "server-taken",
    "server-read",
    "server-before",
    "server-after",
    "server-filled",
    "server-replied",
    "server-rung",
    "server-returned",
    "client-collected",
    "client-collects",
    "server-collected",
    "server-late",
    "file-made",
    "file-sent",
    "file-received",
    "interface-asked",
    "interface-opened",
    "interface-served",
    "interface-made",
    "interface-given",
    "interface-filled",
    "interface-taken",
    "interface-home",
    "interface-dropped",
    "shared-pending",
    "shared-locked",
    "shared-enrolled",
    "shared-waits",
    "shared-woken",
    "shared-unlocked",
    "shared-taken",
    "shared-signalled",
    "sender-finished",
    "sender-rung",
    "sender-filled",
    "sender-posted",
    "sender-reserved",
    "sender-opened",
    "sender-mapped",
    "sender-waits",
    "sender-counted",
    "owner-waits",
    "owner-heard",
    "owner-woken",
    "owner-handed-on",
    "owner-listed",
    "owner-room",
    "owner-taken",
    "owner-made",
    "signal-handled",
    "signal-waits",
    "signal-taken",
    "stream-writer-reserved",
    "stream-writer-filled",
    "stream-writer-waits",
    "stream-writer-finished",
    "stream-writer-posted",
    "stream-writer-opened",
    "stream-writer-rung",
    "stream-reader-waits",
    "stream-reader-told",
    "stream-reader-taken",
    "stream-reader-rung",
    "stream-reader-dropped",
    "stream-reader-heard",
    "stream-reader-mapped",
    "sync-sender-turn",
    "sync-sender-answered",
    "sync-sender-skips",
    "sync-owner-given",
    "sync-owner-came",
    "sync-owner-deferred",
    "sync-owner-received",
    "sync-owner-pushed",
    "version-begun",
    "version-written",
    "version-published",
    "version-copied",
    "invoke-posted",
    "invoke-offered",
    "invoke-waits",
    "invoke-completed",
    "interrupt-rung",
    "interrupt-queued",
    "interrupt-received",
    "interrupt-handled",
    "interrupt-completed",
    "interrupt-masked",
    "interrupt-unmasked",
    "hybrid-waits",
    "hybrid-home-masked",
    "hybrid-home-urgent",
    "hybrid-home-locked",
    "hybrid-home-released",
    "hybrid-remote-looks",
    "hybrid-remote-locked",
    "hybrid-remote-done",
    "hybrid-remote-released",
    "hybrid-permit-taken",
    "hybrid-permit-back",
];

/// Marks a step of [`STEPS`]. If `$UNDERPASS_FAILPOINT` is `STEP:N`, the Nth pass of that step ends
/// the process by `SIGKILL`. If it is `STEP:N:stop`, that pass stops the process by `SIGSTOP`.
#[macro_export]
macro_rules! failpoint {
    ($step:literal) => {
        #[cfg(underpass_failpoints)]
        $crate::failpoint::pass($step);
    };
}

/// Records that the process has reached `step`.
///
/// # Panics
/// If `step` is not in [`STEPS`].
#[cfg(underpass_failpoints)]
pub fn pass(step: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static PLAN: OnceLock<Option<(String, AtomicU64, bool)>> = OnceLock::new();
    assert!(STEPS.contains(&step), "{step} is not among the steps");
    let plan = PLAN.get_or_init(|| {
        let plan = std::env::var("UNDERPASS_FAILPOINT").ok()?;
        let (step, rest) = plan.split_once(':')?;
        let (times, stops) = rest.strip_suffix(":stop").map_or((rest, false), |times| (times, true));
        Some((step.to_owned(), AtomicU64::new(times.parse().ok()?), stops))
    });
    // Relaxed: a count. A thread that passes after the deadly pass finds another number, and the
    // process is about to die.
    if let Some((deadly, left, stops)) = plan
        && deadly == step
        && left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        if *stops {
            // A signal to this kernel thread stops all of them before this one goes on. It can't be
            // refused either.
            let _ = crate::thread::current().signal(libc::SIGSTOP);
            return;
        }
        // A process may always kill itself, so this cannot be refused.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::hint::spin_loop();
        }
    }
}
